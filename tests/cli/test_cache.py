"""paradraft cache: what is listed, shown and deleted, and that files are refused with a reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cache_service.storage.namespace import directory_name
from cache_service.storage.store import Store
from tests.cli.conftest import Call, said
from tests.cli.drafts import ANNA, BOB, BUDGET, fill, stored


@pytest.fixture
def files(tmp_path: Path) -> Path:
    directory = tmp_path / "drafts"
    fill(directory)
    return directory


def test_ls_lists_each_namespace_beside_the_process_that_writes(paradraft: Call, files: Path) -> None:
    with Store.open(files, budget_bytes=BUDGET):
        result = paradraft("cache", "ls", str(files), "--json")
    assert result.exit_code == 0, result.stderr
    found = {each["tenant"]: each for each in json.loads(result.stdout)}
    assert found["anna"]["namespace"] == directory_name(ANNA)
    assert (found["anna"]["records"], found["anna"]["paths"], found["anna"]["files"]) == (2, 3, 1)
    assert (found["anna"]["lookups"], found["anna"]["hits"], found["anna"]["accepted"]) == (5, 1, 6)
    assert (found["bob"]["records"], found["bob"]["hits"], found["bob"]["feature"]) == (1, 0, "")
    assert found["bob"]["bytes"] == sum(path.stat().st_size for path in (files / directory_name(BOB)).iterdir())
    table = paradraft("cache", "ls", str(files)).stdout
    assert directory_name(ANNA)[:8] in table
    assert "layer 1, mean" in table
    assert "3 records" in table


def test_inspect_shows_text_where_the_tokenizer_is_the_same(paradraft: Call, files: Path, model: str) -> None:
    shown = paradraft("cache", "inspect", str(files), "--namespace", directory_name(ANNA)[:8], "--model", model).stdout
    lines = [line.strip() for line in shown.splitlines()]
    assert lines[2].startswith("after 7 tokens, used")  # the last used first
    assert lines[2].endswith("1 hits, 6 tokens accepted")
    assert lines[3:6] == ["… 'how are'", "3 × ' you?'", "1 × ' things'"]
    assert "nothing" not in shown


def test_inspect_shows_ids_without_a_tokenizer(paradraft: Call, files: Path) -> None:
    result = paradraft("cache", "inspect", str(files), "--limit", "1", "--json")
    (anna,) = (each for each in json.loads(result.stdout) if each["tenant"] == "anna")
    (shown,) = anna["last_used"]
    assert shown["context"] == list(b"how are")
    assert [path["count"] for path in shown["paths"]] == [3, 1]


def test_inspect_of_a_file_tells_what_is_damaged(paradraft: Call, files: Path) -> None:
    (path,) = (files / directory_name(ANNA)).glob("*.draft")
    content = bytearray(path.read_bytes())
    content[content.index(b"y\0\0\0")] ^= 1
    path.write_bytes(content + b"torn")
    found = json.loads(paradraft("cache", "inspect", str(path), "--json").stdout)
    assert (found["records"], found["damaged"], found["tail_bytes"]) == (1, 1, 4)
    shown = paradraft("cache", "inspect", str(path)).stdout
    assert "tenant anna, model f1" in shown
    assert "4 bytes of an append; the next writer cuts them off" in shown
    assert len(path.read_bytes()) == len(content) + 4  # as it was


@pytest.mark.parametrize("command", [["ls"], ["inspect"], ["prune", "--tenant", "anna", "--yes"]])
def test_a_foreign_file_is_refused_with_what_to_do(paradraft: Call, files: Path, command: list[str]) -> None:
    strange = files / directory_name(ANNA) / "00000009.draft"
    strange.write_bytes(b"dear all" * 400)
    result = paradraft("cache", command[0], str(files), *command[1:])
    assert result.exit_code == 2
    assert f"{strange} is not a draft file of paradraft" in said(result.stderr)
    assert "move it out of this directory" in said(result.stderr)


def test_prune_by_tenant_asks_and_deletes(paradraft: Call, files: Path) -> None:
    refused = paradraft("cache", "prune", str(files), "--tenant", "anna")
    assert refused.exit_code == 2
    assert "delete 2 records of" in refused.stderr
    assert set(stored(files)) == {ANNA, BOB}
    result = paradraft("cache", "prune", str(files), "--tenant", "anna", "--yes")
    assert result.exit_code == 0, result.stderr
    assert "2 records deleted" in said(result.stderr)
    assert set(stored(files)) == {BOB}


def test_prune_to_a_budget_deletes_the_least_recently_used(paradraft: Call, files: Path) -> None:
    whole = sum(path.stat().st_size for path in files.rglob("*") if path.is_file() and path.name != ".lock")
    result = paradraft("cache", "prune", str(files), "--budget-bytes", str(whole - 100), "--yes")
    assert result.exit_code == 0, result.stderr
    kept = stored(files)
    assert set(kept[ANNA]) == {"how are"}  # found last
    assert set(kept[BOB]) == {"bob says"}
    now = sum(path.stat().st_size for path in files.rglob("*") if path.is_file() and path.name != ".lock")
    assert now <= whole - 100


def test_prune_keeps_what_is_young(paradraft: Call, files: Path) -> None:
    kept = paradraft("cache", "prune", str(files), "--older-than", "1h", "--yes")
    assert kept.exit_code == 0
    assert "no record to delete" in said(kept.stderr)
    assert set(stored(files)) == {ANNA, BOB}
    assert paradraft("cache", "prune", str(files), "--older-than", "0m", "--yes").exit_code == 0
    assert stored(files) == {}


MISTAKES = [
    (["ls", "nowhere"], "nowhere does not exist"),
    (["inspect", "nowhere"], "nowhere does not exist"),
    (["inspect", "FILES", "--namespace", "zz"], "'zz' is no namespace in"),
    (["prune", "nowhere", "--tenant", "a"], "nowhere does not exist"),
    (["prune", "FILES"], "nothing says what to delete; give --budget-bytes"),
    (["prune", "FILES", "--older-than", "soon"], "--older-than 'soon' is no age; it looks like"),
    (["export", "FILES", "FILES"], "is a folder; give the name of a file"),
    (["export", "EMPTY", "x"], "there are no drafts in"),
    (["import", "nothing", "FILES"], "nothing is no archive of draft files"),
]


@pytest.mark.parametrize(("args", "reason"), MISTAKES, ids=lambda v: " ".join(v) if isinstance(v, list) else "")
def test_a_mistake_is_answered_in_plain_words(paradraft: Call, files: Path, args: list[str], reason: str) -> None:
    empty = files.parent / "empty"
    empty.mkdir()
    given = {"FILES": str(files), "EMPTY": str(empty)}
    result = paradraft("cache", *(given.get(arg, arg) for arg in args))
    assert result.exit_code == 2
    assert reason in said(result.stderr)
    assert not Path("nowhere").exists()


@pytest.mark.parametrize("command", [["prune", "FILES", "--tenant", "anna", "--yes"], ["import", "ARCHIVE", "FILES"]])
def test_a_directory_in_use_is_refused_to_writers(
    paradraft: Call, files: Path, tmp_path: Path, command: list[str]
) -> None:
    archive = tmp_path / "archive"
    assert paradraft("cache", "export", str(files), str(archive)).exit_code == 0
    given = {"FILES": str(files), "ARCHIVE": str(archive)}
    with Store.open(files, budget_bytes=BUDGET):
        result = paradraft("cache", *(given.get(arg, arg) for arg in command))
    assert result.exit_code == 2
    assert "writes to the draft files in" in said(result.stderr)
    assert set(stored(files)) == {ANNA, BOB}
