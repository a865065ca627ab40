"""Journal: what was noted survives, whatever happens to the end of the file; what was not is done again."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.draft_building.journal import KEY_BYTES, NAME, Journal

KEYS = [bytes([number]) * KEY_BYTES for number in range(4)]


def filled(directory: Path) -> Path:
    journal = Journal(directory)
    for number, key in enumerate(KEYS):
        journal.note(key, stored=number != 2)
    return directory / NAME


def known(directory: Path) -> list[bool | None]:
    journal = Journal(directory)
    return [journal.stored(key) for key in KEYS]


def test_what_was_noted_is_known_by_the_next(tmp_path: Path) -> None:
    filled(tmp_path)
    assert known(tmp_path) == [True, True, False, True]


def test_a_file_cut_anywhere_keeps_whole_entries_and_takes_more(tmp_path: Path) -> None:
    path = filled(tmp_path)
    whole = path.read_bytes()
    for length in range(8, len(whole)):
        path.write_bytes(whole[:length])
        kept = (length - 8) // 24
        assert known(tmp_path) == [True, True, False, True][:kept] + [None] * (4 - kept)
        Journal(tmp_path).note(KEYS[3], stored=True)
        assert known(tmp_path)[3] is True
        assert known(tmp_path)[:kept] == [True, True, False, True][:kept]


def test_a_flipped_byte_costs_one_entry(tmp_path: Path) -> None:
    path = filled(tmp_path)
    whole = path.read_bytes()
    for place in range(8, len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        expected: list[bool | None] = [True, True, False, True]
        expected[(place - 8) // 24] = None
        assert known(tmp_path) == expected


def test_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("dear all")
    with pytest.raises(ValueError, match="begins with b'dear all', so no build wrote it; move it away"):
        Journal(tmp_path)
