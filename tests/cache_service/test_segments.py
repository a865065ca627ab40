"""Draft files that were cut, changed or are not ours."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from errno import ENOSPC
from pathlib import Path

import msgpack
import numpy as np
import pytest

from cache_service.storage import header
from cache_service.storage.header import HEADER_BYTES, encode_header
from cache_service.storage.namespace import directory_name
from cache_service.storage.record import encode
from cache_service.storage.segments import Segments
from protos.draft_files import Namespace
from tests.cache_service.records import NAMESPACE, digest_of, record

SEGMENT = 2**16
NUM_RECORDS = 3


def open_segments(folder: Path) -> tuple[Segments, list[bytes]]:
    """And the digests in it."""
    segments = Segments(folder, NAMESPACE, SEGMENT)
    _, heads = segments.open(read_only=False)
    return segments, heads["digest"].tolist()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A draft file of three records."""
    segments = Segments(tmp_path / directory_name(NAMESPACE), NAMESPACE, SEGMENT)
    segments.append([encode(record(number, path_tokens=4)) for number in range(NUM_RECORDS)])
    return segments.folder / "00000001.draft"


def frame_ends(path: Path) -> list[int]:
    segments = Segments(path.parent, NAMESPACE, SEGMENT)
    entries, _ = segments.open(read_only=True)
    return [int(entry["start"]) * 8 + int(entry["size"]) for entry in entries]


def test_a_flipped_byte_loses_one_record_at_most(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    content = path.read_bytes()
    ends = frame_ends(path)
    starts = [HEADER_BYTES, *ends[:-1]]
    for position in (*range(0, HEADER_BYTES, 17), *range(HEADER_BYTES, len(content))):
        changed = bytearray(content)
        changed[position] ^= 1 << position % 8
        path.write_bytes(changed)
        _, found = open_segments(path.parent)
        hit = [number for number in range(NUM_RECORDS) if starts[number] <= position < ends[number]]
        untouched = {digest_of(number) for number in range(NUM_RECORDS) if number not in hit}
        assert set(found) >= untouched, position
        assert set(found) <= untouched | {digest_of(number) for number in hit}, position
        assert len(found) <= NUM_RECORDS


def test_a_flipped_byte_is_said(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    content = bytearray(path.read_bytes())
    content[frame_ends(path)[0] - 20] ^= 1
    path.write_bytes(content)
    assert open_segments(path.parent)[1] == [digest_of(1), digest_of(2)]
    assert f"{path}: records are lost at 1 places" in caplog.text


@pytest.mark.usefixtures("hasty_disk")
def test_a_file_cut_anywhere_keeps_what_was_whole_and_goes_on(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    content = path.read_bytes()
    # What pads a frame is no part of its record.
    padded = len(encode(record(2, path_tokens=4))) % 8
    ends = frame_ends(path)
    ends[-1] -= 8 - padded if padded else 0
    for length in (*range(0, HEADER_BYTES, 17), *range(HEADER_BYTES, len(content))):
        for other in path.parent.glob("*.draft"):
            other.unlink()
        path.write_bytes(content[:length])
        whole = [digest_of(number) for number in range(NUM_RECORDS) if ends[number] <= length]
        segments, found = open_segments(path.parent)
        assert found == whole, length
        segments.append([encode(record(9))])
        assert open_segments(path.parent)[1] == [*whole, digest_of(9)], length


def test_a_cut_is_said(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    last = frame_ends(path)[-2]
    os.truncate(path, last + 30)
    open_segments(path.parent)
    assert f"{path}: cut 30 bytes of an append that was not finished" in caplog.text
    assert path.stat().st_size == last


def test_who_only_reads_cuts_nothing(path: Path) -> None:
    os.truncate(path, frame_ends(path)[-2] + 30)
    size = path.stat().st_size
    _, heads = Segments(path.parent, NAMESPACE, SEGMENT).open(read_only=True)
    assert heads["digest"].tolist() == [digest_of(0), digest_of(1)]
    assert path.stat().st_size == size


def test_zeros_at_the_end_are_a_tail(path: Path) -> None:
    """As a file system may leave them when power fails."""
    size = path.stat().st_size
    os.truncate(path, size + 5000)
    assert len(open_segments(path.parent)[1]) == NUM_RECORDS
    assert path.stat().st_size == size


def test_a_foreign_file_is_refused(path: Path) -> None:
    path.write_bytes(b"PK\3\4 something else" * 200)
    with pytest.raises(ValueError, match=rf"{path} is not a draft file .* begins with b'PK.*; move it out"):
        open_segments(path.parent)


@pytest.mark.parametrize("name", ["copy", "1", "4294967296", "\u0661" * 8])
def test_a_file_of_another_name_is_refused(path: Path, name: str) -> None:
    """Also of one that would be taken for the file of the same number, or whose number is none of ours."""
    path.rename(path.with_name(f"{name}.draft"))
    with pytest.raises(ValueError, match=rf"{name}.draft is not named as a draft file is, such as 00000001.draft"):
        open_segments(path.parent)


def test_what_is_no_file_is_refused(path: Path) -> None:
    other = path.with_name("00000002.draft")
    other.mkdir()
    with pytest.raises(ValueError, match=r"00000002.draft is named .* a folder or a broken link; move it away"):
        open_segments(path.parent)
    other.rmdir()
    other.symlink_to("nowhere")
    with pytest.raises(ValueError, match=r"00000002.draft is named .* a folder or a broken link; move it away"):
        open_segments(path.parent)
    other.unlink()
    path.rename(path.parent / "elsewhere")
    path.symlink_to("elsewhere")
    assert len(open_segments(path.parent)[1]) == NUM_RECORDS


def test_a_newer_file_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(header, "SCHEMA", 7)
    newer = encode_header(NAMESPACE)
    monkeypatch.undo()
    path.write_bytes(newer + path.read_bytes()[HEADER_BYTES:])
    with pytest.raises(ValueError, match=rf"{path} has schema 7, .* reads up to 1: upgrade it"):
        open_segments(path.parent)


@pytest.mark.parametrize("other", [{"tenant": "bob"}, {"fingerprint": "newer weights"}, {"width": 16}])
def test_a_file_of_another_namespace_is_refused(path: Path, other: dict[str, object]) -> None:
    theirs = replace(NAMESPACE, **other)
    path.write_bytes(encode_header(theirs) + path.read_bytes()[HEADER_BYTES:])
    with pytest.raises(ValueError, match=rf"holds drafts of Namespace.*move the file to .* {directory_name(theirs)}"):
        open_segments(path.parent)


def test_a_file_whose_header_is_gone_is_refused(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[20] ^= 1
    content[HEADER_BYTES // 2 + 20] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="its header is damaged; move it out"):
        open_segments(path.parent)


def test_headers_without_a_namespace_are_refused(path: Path) -> None:
    """With the right checksums, but not written by us."""
    body = msgpack.packb([b"\x90", 0])
    checked = header._START.pack(header.MAGIC, header.SCHEMA, len(body)) + body
    copy = (checked + header._CHECK.pack(header.crc32(checked))).ljust(header.COPY_BYTES, b"\0")
    path.write_bytes(copy * 2)
    with pytest.raises(ValueError, match=str(path)):
        open_segments(path.parent)


def test_records_that_are_not_well_formed_are_left_out(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    segments, _ = open_segments(path.parent)
    wide = encode(replace(record(5), feature=np.zeros(16, np.float16)))
    segments.append([wide, b"nothing like a record" * 4, b"x", encode(record(6))])
    assert open_segments(path.parent)[1] == [*map(digest_of, range(NUM_RECORDS)), digest_of(6)]
    assert "3 records are not well formed" in caplog.text


def test_a_full_disk_acknowledges_nothing_and_harms_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segments, _ = open_segments(path.parent)
    write = os.pwrite

    def half(descriptor: int, content: memoryview, position: int) -> int:
        if len(content) < 100:
            raise OSError(ENOSPC, "No space left on device")
        return write(descriptor, content[: len(content) // 2], position)

    size = path.stat().st_size
    monkeypatch.setattr(os, "pwrite", half)
    with pytest.raises(OSError, match="No space left"):
        segments.append([encode(record(7))])
    assert path.stat().st_size == size
    monkeypatch.undo()
    segments.append([encode(record(8))])
    assert len(segments.by_number) == 2, "a file that the disk failed is not trusted with more"
    assert open_segments(path.parent)[1] == [*map(digest_of, range(NUM_RECORDS)), digest_of(8)]


def test_too_long_a_tenant_is_named(tmp_path: Path) -> None:
    long = Namespace(tenant="x" * 1000, fingerprint="f", tokenizer="t")
    with pytest.raises(ValueError, match=r"over the limit of 896; shorten the name of the tenant \(1000 characters\)"):
        Segments(tmp_path / "x", long, SEGMENT).append([encode(record(0))])


def test_no_two_namespaces_share_a_folder() -> None:
    fields = ["tenant", "fingerprint", "tokenizer", "feature"]
    moved = [
        Namespace(**{name: "ab" if name == field else "" for name in fields[:3]}, feature="ab" * (field == "feature"))
        for field in fields
    ]
    split = [Namespace(tenant=one, fingerprint=other, tokenizer="") for one, other in (("ab", "c"), ("a", "bc"))]
    assert len({directory_name(namespace) for namespace in (*moved, *split, replace(moved[0], width=1))}) == 7
