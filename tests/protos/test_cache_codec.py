"""The cache codec: round trips, and refusals that name field and value, whichever side makes the mistake."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from protos import cache_pb2
from protos.cache_codec import (
    pack_answers,
    pack_continuations,
    pack_credits,
    pack_questions,
    unpack_answers,
    unpack_continuations,
    unpack_credits,
    unpack_questions,
)
from protos.cache_fields import MAX_ITEMS, MAX_NUMBER
from protos.draft_files import (
    CONTEXT,
    DIGEST_BYTES,
    MAX_PATH,
    MAX_PATHS,
    Continuation,
    Credit,
    Findings,
    Hit,
    Path,
    Prefix,
    Question,
)
from protos.field_error import FieldError
from tests.fakes.draft_files import NAMESPACE, PLAIN, WIDTH, continuation, credit, prefix, question

FINITE = arrays.arrays(np.float32, WIDTH, elements=st.floats(width=32, allow_nan=False, allow_infinity=False))


def tokens(most: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(st.integers(0, MAX_NUMBER), max_size=most).map(tuple)


DIGESTS = st.binary(min_size=DIGEST_BYTES, max_size=DIGEST_BYTES)
COUNTS = st.integers(0, MAX_NUMBER)
PATHS = st.builds(Path, tokens=tokens(MAX_PATH), count=COUNTS)
HITS = st.builds(
    Hit,
    digest=DIGESTS,
    context=tokens(CONTEXT),
    paths=st.lists(PATHS, max_size=MAX_PATHS).map(tuple),
    match_length=COUNTS,
    similarity=st.none() | st.floats(-1, 1, width=32),
)
FINDINGS = st.builds(Findings, request_id=st.text(), length=COUNTS, hits=st.lists(HITS, max_size=4).map(tuple))


@given(st.lists(FINDINGS, max_size=4), st.text())
def test_answers_round_trip(findings: list[Findings], error: str) -> None:
    message = pack_answers(findings, error)
    assert unpack_answers(cache_pb2.Answers.FromString(message.SerializeToString())) == findings
    assert message.error == error


@given(tokens(CONTEXT), DIGESTS, st.none() | FINITE, tokens(MAX_PATH))
def test_questions_and_continuations_round_trip(
    text: tuple[int, ...], digest: bytes, feature: Any, path: tuple[int, ...]
) -> None:
    first = Prefix(tokens=text, length=len(text) + 5, digest=digest, feature=feature)
    questions = [Question(request_id="r", namespace=NAMESPACE, prefix=first), question(1, 2), question(3)]
    sent = pack_questions(questions)
    assert len(sent.namespaces) == 2
    for one, came in zip(questions, unpack_questions(sent), strict=True):
        assert (came.request_id, came.namespace) == (one.request_id, one.namespace)
        assert_same(came.prefix, one.prefix)
    [came] = unpack_continuations(pack_continuations([Continuation(namespace=NAMESPACE, prefix=first, tokens=path)]))
    assert (came.namespace, came.tokens) == (NAMESPACE, path)
    assert_same(came.prefix, first)


def assert_same(one: Prefix, other: Prefix) -> None:
    assert (one.tokens, one.length, one.digest) == (other.tokens, other.length, other.digest)
    assert (one.feature is None) == (other.feature is None)
    np.testing.assert_array_equal(one.feature, other.feature)


@given(st.lists(st.builds(Credit, namespace=st.sampled_from([PLAIN, NAMESPACE]), digest=DIGESTS, accepted=COUNTS)))
def test_credits_round_trip(earned: list[Credit]) -> None:
    assert unpack_credits(pack_credits(earned)) == earned


def test_a_float16_feature_is_read() -> None:
    feature = np.array([1, -2, 0.5, 0], np.float16)
    message = pack_questions([replace(question(1, namespace=NAMESPACE), prefix=prefix(1))])
    message.questions[0].prefix.feature = feature.tobytes()
    [one] = unpack_questions(message)
    assert one.prefix.feature is not None
    assert one.prefix.feature.dtype == np.float32
    np.testing.assert_array_equal(one.prefix.feature, feature)


BAD_PREFIXES = [
    (prefix(1, -1), r"prefix\.tokens has the token -1; it must be from 0 to 2147483647"),
    (prefix(*range(CONTEXT + 1)), r"prefix\.tokens has 33 items; it must have at most 32"),
    (replace(prefix(1, 2), length=1), r"prefix\.length is 1; it must be at least its 2 tokens"),
    (replace(prefix(1), digest=b"abc"), r"prefix\.digest has 3 bytes; it must have 16"),
    (prefix(1, feature=np.zeros(3, np.float32)), r"prefix\.feature has shape \[3\]; it must be \[4\]"),
    (prefix(1, feature=np.full(4, np.nan, np.float32)), r"prefix\.feature has the number nan"),
]


@pytest.mark.parametrize(("bad", "message"), BAD_PREFIXES)
def test_a_bad_prefix_is_not_packed(bad: Prefix, message: str) -> None:
    one = Question(request_id="r", namespace=NAMESPACE, prefix=bad)
    with pytest.raises(FieldError, match=r"questions\[1\]\." + message):
        pack_questions([question(1), one])


def test_what_else_is_not_packed() -> None:
    with pytest.raises(FieldError, match=r"tokens has 65 items; it must have at most 64"):
        pack_continuations([continuation(*range(MAX_PATH + 1), after=(1,))])
    with pytest.raises(FieldError, match=r"credits\[0\]\.accepted is -1"):
        pack_credits([credit(1, accepted=-1)])
    with pytest.raises(FieldError, match=r"questions has 1025 items"):
        pack_questions([question(1)] * (MAX_ITEMS + 1))
    with pytest.raises(FieldError, match=r"questions\[0\]\.namespace\.width is -1"):
        pack_questions([question(1, namespace=replace(PLAIN, width=-1))])
    with pytest.raises(FieldError, match=r"questions\[0\]\.request_id has 5000 characters"):
        pack_questions([question(1, request_id="x" * 5000)])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda q: q.prefix.tokens.append(2**31), r"questions\[0\]\.prefix\.tokens has the token 2147483648"),
        (lambda q: q.prefix.tokens.extend(range(CONTEXT)), r"questions\[0\]\.prefix\.tokens has 33 items"),
        (lambda q: setattr(q.prefix, "digest", b""), r"questions\[0\]\.prefix\.digest has 0 bytes"),
        (lambda q: setattr(q.prefix, "length", 2**31), r"questions\[0\]\.prefix\.length is 2147483648"),
        (lambda q: setattr(q.prefix, "length", 0), r"questions\[0\]\.prefix\.length is 0; it must be at least"),
        (
            lambda q: setattr(q.prefix, "feature", b"12345"),
            r"has 5 bytes; 4 numbers need 8 as float16 or 16 as",
        ),
        (lambda q: setattr(q.prefix, "feature", b"\xff" * 16), r"feature has the number nan"),
        (lambda q: setattr(q, "namespace", 1), r"questions\[0\]\.namespace is 1; namespaces has 1 items"),
    ],
)
def test_bad_questions_are_not_unpacked(change: Any, message: str) -> None:
    packed = pack_questions([question(1, namespace=NAMESPACE)])
    change(packed.questions[0])
    with pytest.raises(FieldError, match=message):
        unpack_questions(packed)
