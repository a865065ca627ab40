"""Draft files of a directory, with the real store and pretriever."""

from __future__ import annotations

import contextlib
import gc
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cache_service.storage.flushing import flushing
from drafters.cached_config import CachedConfig
from protos.draft_files import DraftFiles, Question
from services.draft_files.opening import directory_options, open_draft_files, opened_pretriever
from tests.draft_files.conftest import Dial, Serve
from tests.draft_files.rounds import found, paths, until
from tests.fakes.draft_files import NAMESPACE, PLAIN, continuation, credit, prefix, question

TEXT, AFTER = (1, 2, 3, 4, 5), (6, 7, 8, 9)


def added(files: DraftFiles) -> bool:
    return files.status().counters["additions"] >= 1


def test_a_directory_keeps_what_was_added(tmp_path: Path) -> None:
    """Case R2."""
    config = CachedConfig(draft_files=str(tmp_path / "new" / "drafts"))
    for _ in range(2):
        with contextlib.closing(open_draft_files(config)) as files:
            files.add([continuation(*AFTER, after=TEXT)])
            until(lambda: added(files))
            for _ in range(2):
                assert paths(found(files, question(*TEXT)))[0][0] == AFTER
    assert (tmp_path / "new" / "drafts").stat().st_mode & 0o077 == 0  # it holds the text of users
    with contextlib.closing(open_draft_files(config)) as files:
        [answer] = found(files, question(*TEXT))
        assert answer.hits[0].paths[0].count == 2


def test_an_address_is_dialled(tmp_path: Path, serve: Serve) -> None:
    options = directory_options(CachedConfig(draft_files=str(tmp_path)))
    assert options is not None
    with opened_pretriever(options) as pretriever:
        server = serve(pretriever, "127.0.0.1:0")
        with contextlib.closing(open_draft_files(CachedConfig(address=server.address))) as files:
            files.add([continuation(*AFTER, after=TEXT)])
            until(lambda: added(files))
            files.credit([credit(*TEXT, accepted=4)])
            until(lambda: files.status().counters["credits"] == 1)
            assert paths(found(files, question(*TEXT)))[0][0] == AFTER
            stats = server.stats()
        server.stop()
    assert (stats.gauges["records"], stats.counters["accepted"], stats.counters["hits"]) == (1, 4, 1)
    assert stats.gauges["bytes"] > 0
    assert sum(stats.namespaces.values()) == 1


def test_tenants_and_fingerprints_are_apart_also_behind_a_service(tmp_path: Path, serve: Serve, dial: Dial) -> None:
    """Cases R5, Z6: another's text gives no hit, one's own does."""
    options = directory_options(CachedConfig(draft_files=str(tmp_path)))
    assert options is not None
    with opened_pretriever(options) as pretriever:
        server = serve(pretriever, "127.0.0.1:0")
        client = dial(server.address)
        assert client.wait_until_up(30)
        client.add([continuation(*AFTER, after=TEXT)])
        until(lambda: added(client))
        others = [replace(PLAIN, **{name: "other"}) for name in ("tenant", "fingerprint", "tokenizer")]
        asked = [question(*TEXT, namespace=namespace) for namespace in (*others, PLAIN)]
        assert [bool(one) for one in paths(found(client, *asked))] == [False, False, False, True]
        server.stop()


def test_features_below_the_similarity_find_nothing(tmp_path: Path) -> None:
    config = CachedConfig(draft_files=str(tmp_path), min_similarity=0.9)
    near, far = np.array([1, 0.1, 0, 0], np.float32), np.array([0, 0, 1, 0], np.float32)
    with contextlib.closing(open_draft_files(config)) as files:
        stored = replace(continuation(*AFTER, after=(0, *TEXT), namespace=NAMESPACE))
        feature = np.array([1, 0, 0, 0], np.float32)
        files.add([replace(stored, prefix=prefix(0, *TEXT, feature=feature))])
        until(lambda: added(files))
        asked = [
            Question(request_id="r", namespace=NAMESPACE, prefix=prefix(9, *TEXT, feature=one)) for one in (near, far)
        ]
        assert [bool(one.hits) for one in found(files, *asked)] == [True, False]


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    config = CachedConfig(draft_files=str(tmp_path))
    with contextlib.closing(open_draft_files(config)), pytest.raises(ValueError, match=str(tmp_path)):
        open_draft_files(config)
    open_draft_files(config).close()


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"draft_files '.*file' is a file; give a directory"):
        open_draft_files(CachedConfig(draft_files=str(tmp_path / "file")))


def test_a_relative_directory_is_one_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = directory_options(CachedConfig(draft_files="drafts"))
    assert options is not None
    assert options.directory == str(tmp_path / "drafts")


# Dies without closing anything, once what it counted must be on the disk.
COUNTS_AND_DIES = """
import os, sys
from pathlib import Path
from cache_service.search.pretriever import Pretriever
from cache_service.storage.store import Store
from cache_service.storage.flushing import flushing
from tests.fakes.draft_files import continuation, credit
store = Store.open(Path(sys.argv[1]), budget_bytes=2**20)
flushed, flush = [], store.flush
store.flush = lambda: (flush(), flushed.append(True))
with flushing(store, 0.01):
    pretriever = Pretriever(store, min_similarity=0)
    for _ in range(3):
        pretriever.add([continuation(6, 7, 8, 9, after=(1, 2, 3, 4, 5))])
    flushed.clear()
    while len(flushed) < 2:
        pass
    os.kill(os.getpid(), 9)
"""


def test_counts_outlive_a_process_that_is_killed(tmp_path: Path) -> None:
    assert subprocess.run([sys.executable, "-c", COUNTS_AND_DIES, str(tmp_path)], check=False).returncode == -9
    with contextlib.closing(open_draft_files(CachedConfig(draft_files=str(tmp_path)))) as files:
        [answer] = found(files, question(*TEXT))
        assert answer.hits[0].paths[0].count == 3


# Ends without closing anything.
ADDS_AND_ENDS = """
import sys
from drafters.cached_config import CachedConfig
from services.draft_files.opening import open_draft_files
from tests.fakes.draft_files import continuation
files = open_draft_files(CachedConfig(draft_files=sys.argv[1]))
for _ in range(3):
    files.add([continuation(6, 7, 8, 9, after=(1, 2, 3, 4, 5))])
"""


def test_a_process_that_ends_takes_in_what_is_pending(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", ADDS_AND_ENDS, str(tmp_path)], check=True)
    with contextlib.closing(open_draft_files(CachedConfig(draft_files=str(tmp_path)))) as files:
        [answer] = found(files, question(*TEXT))
        assert answer.hits[0].paths[0].count == 3


def test_draft_files_that_nobody_holds_are_closed(tmp_path: Path) -> None:
    config = CachedConfig(draft_files=str(tmp_path))
    files = open_draft_files(config)
    files.ask([question(*TEXT)])
    files.add([continuation(*AFTER, after=TEXT)])
    del files
    gc.collect()
    again: list[DraftFiles] = []

    def _opened_again() -> bool:
        """A callback of the last question may hold the first ones for a moment."""
        with contextlib.suppress(ValueError):
            again.append(open_draft_files(config))
        return bool(again)

    until(_opened_again)
    with contextlib.closing(again[0]) as files:
        assert paths(found(files, question(*TEXT)))[0][0] == AFTER


def test_flushing_goes_on_where_the_disk_refuses() -> None:
    class Full:
        flushed = 0

        def flush(self) -> None:
            self.flushed += 1
            raise OSError(28, "No space left on device")

    store = Full()
    with flushing(store, 0.001):  # type: ignore[arg-type]
        until(lambda: store.flushed >= 3)
