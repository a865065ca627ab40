"""paradraft cache export and import: what goes along, what stays behind, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cache_service.storage.namespace import directory_name
from cache_service.storage.store import Store
from cache_service.transfer.archive import Archive
from tests.cli.conftest import Call, said
from tests.cli.drafts import ANNA, BOB, BUDGET, TOKENIZER, fill, record, stored

NEWER = "abcd" * 8


@pytest.fixture
def files(tmp_path: Path) -> Path:
    directory = tmp_path / "drafts"
    fill(directory)
    return directory


@pytest.fixture
def archive(paradraft: Call, files: Path, tmp_path: Path) -> Path:
    path = tmp_path / "archive"
    with Store.open(files, budget_bytes=BUDGET):  # as a running server would
        result = paradraft("cache", "export", str(files), str(path))
    assert result.exit_code == 0, result.stderr
    assert "3 records of 2 namespaces" in result.stderr
    return path


def test_a_round_trip_brings_everything_but_the_statistics(
    paradraft: Call, files: Path, archive: Path, tmp_path: Path
) -> None:
    there = tmp_path / "there"
    assert paradraft("cache", "import", str(archive), str(there)).exit_code == 0
    assert stored(there) == stored(files)
    with Store.open(there, budget_bytes=BUDGET, read_only=True) as store:
        anna = store.shelf(ANNA)
        assert anna.features(anna.live_rows()).tolist() == [[1, 2, 3, 4], [0, 0, 0, 0]]
        assert (anna.totals.hits, anna.totals.accepted) == (0, 0)


def test_nothing_counts_twice(paradraft: Call, files: Path, archive: Path) -> None:
    before = stored(files)
    result = paradraft("cache", "import", str(archive), str(files))
    assert "0 records stored and 2 known already" in said(result.stderr)
    assert stored(files) == before


def test_paths_of_both_sides_are_kept(paradraft: Call, archive: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    with Store.open(there, budget_bytes=BUDGET) as store:
        store.shelf(BOB).append([record("bob says", (" nothing at all", 4), (" hello", 2))])
    assert paradraft("cache", "import", str(archive), str(there), "--namespace", directory_name(BOB)).exit_code == 0
    assert stored(there) == {BOB: {"bob says": {" nothing at all": 4, " hello": 2}}}


def test_another_model_of_the_same_tokenizer_is_warmed_without_features(
    paradraft: Call, files: Path, archive: Path
) -> None:
    newer = ["--fingerprint", NEWER, "--tokenizer", TOKENIZER[:8], "--namespace", directory_name(ANNA)]
    result = paradraft("cache", "import", str(archive), str(files), *newer)
    assert result.exit_code == 0, result.stderr
    warmed = replace(ANNA, fingerprint=NEWER)
    found = stored(files)
    assert found[warmed] == found[ANNA]
    with Store.open(files, budget_bytes=BUDGET, read_only=True) as store:
        shelf = store.shelf(warmed)
        assert not shelf.features(shelf.live_rows()).any()


def test_another_kind_of_feature_has_its_own_width(paradraft: Call, archive: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    options = ["--namespace", directory_name(ANNA), "--feature", "layer 9, last", "--tenant", "carl"]
    assert paradraft("cache", "import", str(archive), str(there), *options).exit_code == 0
    (found,) = stored(there)
    assert (found.tenant, found.feature, found.width) == ("carl", "layer 9, last", 128)


REFUSED: list[tuple[list[str], str]] = [
    (["--fingerprint", NEWER, "--tokenizer", "0" * 32], "their token ids mean other text there"),
    (["--fingerprint", NEWER], f"the tokenizer of model {NEWER} is not known here"),
    (["--fingerprint", "abc"], "--fingerprint 'abc' is not known here and has 3 of 32 digits"),
    (["--fingerprint", NEWER, "--tokenizer", "abc"], "--tokenizer 'abc' is not known here"),
    (["--tokenizer", TOKENIZER], "give its --fingerprint too"),
    (["--namespace", "zz"], "'zz' is no namespace in this file"),
    (["--budget-bytes", "5"], "budget_bytes is 5, which is too small"),
]


@pytest.mark.parametrize(("options", "reason"), REFUSED, ids=lambda v: v[0] if isinstance(v, list) else "")
def test_what_cannot_be_is_refused_and_changes_nothing(
    paradraft: Call, files: Path, archive: Path, options: list[str], reason: str
) -> None:
    before = stored(files)
    result = paradraft("cache", "import", str(archive), str(files), *options)
    assert result.exit_code == 2
    assert reason in said(result.stderr)
    assert stored(files) == before


def test_a_directory_tells_the_tokenizer_of_a_model(paradraft: Call, files: Path, archive: Path) -> None:
    other = replace(BOB, fingerprint="f3" * 16, tokenizer="other")
    with Store.open(files, budget_bytes=BUDGET) as store:
        store.shelf(other).append([record("x", ("yyyy", 1))])
    result = paradraft("cache", "import", str(archive), str(files), "--fingerprint", "f3")
    assert "the model's is other" in said(result.stderr)


def test_a_flipped_byte_costs_one_record_at_most_or_is_refused(archive: Path) -> None:
    whole = archive.read_bytes()
    known = {repr(each.paths) for place in (0, 1) for each in Archive(archive).records(place)}
    for place in range(len(whole)):
        archive.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            damaged = Archive(archive)
        except ValueError:
            continue
        found = {repr(each.paths) for number in range(len(damaged.namespaces)) for each in damaged.records(number)}
        assert found <= known
        assert len(found) >= len(known) - 1
        assert (len(found) == len(known)) <= (damaged.lost in (0, None))
        if len(found) < len(known):
            assert damaged.lost != 0


@pytest.mark.parametrize("left", [0.3, 0.6, 0.99])
def test_a_file_that_was_cut_brings_what_is_whole_and_says_so(
    paradraft: Call, archive: Path, tmp_path: Path, left: float
) -> None:
    content = archive.read_bytes()
    archive.write_bytes(content[: int(left * len(content))])
    result = paradraft("cache", "import", str(archive), str(tmp_path / "there"))
    assert result.exit_code == 0, result.stderr
    assert "the end cannot be read" in said(result.stderr)


def test_a_newer_file_is_refused(archive: Path, paradraft: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cache_service.transfer.archive.SCHEMA", 0)
    result = paradraft("cache", "import", str(archive), "anywhere")
    assert result.exit_code == 2
    assert "has schema 1, and this version of paradraft reads up to 0" in said(result.stderr)


def test_something_else_is_not_overwritten(paradraft: Call, files: Path, tmp_path: Path) -> None:
    letter = tmp_path / "letter.txt"
    letter.write_text("dear all")
    assert "is there and no archive" in said(paradraft("cache", "export", str(files), str(letter)).stderr)
    assert letter.read_text() == "dear all"
