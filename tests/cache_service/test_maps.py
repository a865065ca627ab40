"""Maps: files that are read as memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from cache_service.storage import maps
from cache_service.storage.maps import Map


def open_files(folder: Path) -> int:
    held = [str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return len([path for path in held if path.startswith(str(folder))])


def test_not_too_many_are_open_and_all_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maps, "_open", {})
    monkeypatch.setattr(maps, "MAX_OPEN", 3)
    paths = [tmp_path / str(number) for number in range(8)]
    for path in paths:
        path.write_text(path.name * 10)
    made = [Map(path) for path in paths]
    for _ in range(2):
        views = [one.view(10) for one in made]
        assert [bytes(view).decode() for view in views] == [path.name * 10 for path in paths]
        del views
        assert open_files(tmp_path) == 3
    for one in made:
        one.close()
    assert open_files(tmp_path) == 0


def test_it_grows_with_its_file_and_older_views_stay(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    one = Map(path)
    first = one.view(3)
    path.write_bytes(b"one and two")
    assert bytes(one.view(11)) == b"one and two"
    path.unlink()
    assert bytes(first) == b"one"
    assert bytes(one.view(11)) == b"one and two"
    one.close()
    with pytest.raises(FileNotFoundError):
        one.view(11)
