"""What tests of draft files share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cache_service.search.pretriever import Pretriever
from cache_service.storage.store import Store


@pytest.fixture
def hasty_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that write a thousand times: what files hold is asked, not when it is on the disk."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: None)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path, budget_bytes=1 << 24) as opened:
        yield opened


@pytest.fixture
def pretriever(store: Store) -> Pretriever:
    return Pretriever(store, min_similarity=0.5)
