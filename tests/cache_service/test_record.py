"""Records and their bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache_service.storage.frames import frame_bytes
from cache_service.storage.record import HEAD, Record, decode, encode, well_formed
from protos.draft_files import CONTEXT, MAX_PATH, MAX_PATHS, Path
from tests.cache_service.records import record, same

tokens = st.integers(0, 2**31 - 1)
paths = st.builds(
    lambda items, count: Path(tokens=tuple(items), count=count),
    st.lists(tokens, min_size=1, max_size=MAX_PATH),
    st.integers(1, 2**31 - 1),
)
features = st.none() | st.lists(st.floats(-60000, 60000, width=16), min_size=1, max_size=9).map(
    lambda values: np.array(values, np.float16)
)


@st.composite
def records(draw: st.DrawFn) -> Record:
    context = draw(st.lists(tokens, max_size=CONTEXT))
    return Record(
        digest=draw(st.binary(min_size=16, max_size=16)),
        length=draw(st.integers(len(context), 2**32 - 1)),
        context=tuple(context),
        paths=tuple(draw(st.lists(paths, min_size=1, max_size=MAX_PATHS))),
        feature=draw(features),
        seq=draw(st.integers(0, 2**63 - 1)),
    )


@given(records())
def test_a_record_comes_back_as_it_was(one: Record) -> None:
    content = encode(one)
    found = decode(content)
    assert same(one, found)
    assert found.seq == one.seq
    head = np.frombuffer(content[: HEAD.itemsize], HEAD)
    width = 0 if one.feature is None else len(one.feature)
    assert well_formed(head, np.array([len(content)]), width).all()


@given(records(), st.data())
def test_bytes_that_are_no_record_are_refused(one: Record, data: st.DataObject) -> None:
    content = encode(one)
    cut = content[: data.draw(st.integers(0, len(content) - 1))]
    with pytest.raises(ValueError, match=r"a record of \d+ bytes"):
        decode(cut)


def test_records_of_another_width_are_not_well_formed() -> None:
    content = encode(record(1))
    head = np.frombuffer(content[: HEAD.itemsize], HEAD)
    assert not well_formed(head, np.array([len(content)]), 9).any()


def test_a_record_is_small() -> None:
    """32 tokens of context and a path of 64 are 384 bytes; all the rest takes 64."""
    one = replace(record(3), paths=(Path(tokens=tuple(range(64))),))
    assert frame_bytes(len(encode(one))) == 384 + 64


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"digest": b"short"}, "digest of 5 bytes: it must have 16"),
        ({"context": tuple(range(33))}, "context of 33 tokens"),
        ({"length": 3}, "context of 32 tokens of a prefix of 3"),
        ({"context": (1, -2)}, "negative token"),
        ({"paths": ()}, "0 paths: a record has 1 to 8"),
        ({"paths": (Path(tokens=(1,)),) * 9}, "9 paths"),
        ({"paths": (Path(tokens=()),)}, "path of 0 tokens: it must have 1 to 64"),
        ({"paths": (Path(tokens=tuple(range(65))),)}, "path of 65 tokens"),
        ({"paths": (Path(tokens=(1, -1)),)}, "negative token"),
        ({"paths": (Path(tokens=(2**31,)),)}, r"each must be an integer below 2\*\*31"),
        ({"paths": (Path(tokens=(1,), count=0),)}, "count of 0"),
        ({"paths": (Path(tokens=(1,), count=2**31),)}, "count of 2147483648: it must be 1 to 2147483647"),
        ({"feature": np.zeros(4, np.float32)}, "type float32"),
        ({"feature": np.zeros((2, 2), np.float16)}, r"shape \(2, 2\)"),
        ({"feature": np.array([1, np.inf], np.float16)}, "infinite or undefined"),
        ({"feature": np.array([1, np.nan], np.float16)}, "infinite or undefined"),
    ],
)
def test_what_has_no_place_in_a_record_is_named(wrong: dict[str, object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        encode(replace(record(1), **wrong))
