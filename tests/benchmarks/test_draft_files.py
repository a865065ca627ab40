"""The benchmarks of draft files, each to its end on little: what is counted is right; speed is not looked at."""

from __future__ import annotations

import importlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.harness.synthetic_prefixes import GRAM, SHARED, Asked, Stream, asked_prefixes


def run(name: str, out: Path, *arguments: str) -> dict[str, Any]:
    command = ["--quick", "--out", str(out), "--threads", "1", *arguments]
    assert importlib.import_module(f"benchmarks.{name}").main(command) == 0
    written: dict[str, Any] = json.loads((out / f"{name}.json").read_text())
    rows = [row for section in written["sections"].values() for row in section]
    assert rows
    assert all(math.isfinite(value) for row in rows for value in row.values() if isinstance(value, float))
    return written


def test_cache_lookup_asks_every_kind_everywhere(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    sections = run("cache_lookup", tmp_path / "out", "--directory", str(store), "--model", "none")["sections"]
    inserted, opening, look_ups = sections.values()
    assert [row["prefixes"] for row in inserted] == [300, 600]
    assert len(opening) == 2 * 2
    assert len(look_ups) == 2 * 4 * len(Asked)
    for row in look_ups:
        assert row["found"] == (0 if row["asked for"] == Asked.NOTHING else 1)
        assert 0 < row["p50"] <= row["p99"] <= row["most"]
    assert not list(store.iterdir())  # nothing is left behind


def test_cache_lookup_refuses_a_limit_below_all_sizes(tmp_path: Path) -> None:
    module = importlib.import_module("benchmarks.cache_lookup")
    with pytest.raises(ValueError, match="--limit 99 leaves no size; the smallest is 10000"):
        module.main(["--limit", "99", "--out", str(tmp_path)])


def test_synthetic_prefixes_share_what_their_kind_says() -> None:
    stream = Stream(2000)
    assert len(stream) == 2000
    ends = {stream.prefix(number).tokens[-SHARED:] for number in range(2000)}
    digests = {stream.prefix(number).digest for number in range(2000)}
    assert len(digests) == 2000
    common = stream.commonest_end(2000)
    assert sum(stream.prefix(number).tokens[-GRAM:] == common for number in range(2000)) > 20
    for kind in Asked:
        for prefix in asked_prefixes(stream, 2000, kind, 10):
            assert (prefix.digest in digests) == (kind is Asked.STORED)
            assert (prefix.tokens[-SHARED:] in ends) == (kind in {Asked.STORED, Asked.ALIKE, Asked.ALIKE_BARE})
            assert (prefix.feature is None) == (kind in {Asked.ALIKE_BARE, Asked.CROWDED_BARE})
    assert all(prefix.tokens[-GRAM:] == common for prefix in asked_prefixes(stream, 2000, Asked.CROWDED, 10))


def test_a_stream_is_the_same_every_time() -> None:
    one, other = Stream(1000), Stream(1000)
    (first, *_), (second, *_) = one.continuations(990, 1000), other.continuations(990, 1000)
    for mine, yours in zip(first, second, strict=True):
        assert (mine.tokens, mine.prefix.tokens, mine.prefix.digest) == (
            yours.tokens, yours.prefix.tokens, yours.prefix.digest,
        )  # fmt: skip
        assert mine.prefix.feature is not None
        assert np.array_equal(mine.prefix.feature, yours.prefix.feature)
