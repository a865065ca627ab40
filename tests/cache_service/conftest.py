"""What tests of draft files share."""

from __future__ import annotations

import os

import pytest


@pytest.fixture
def hasty_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that write a thousand times: what files hold is asked, not when it is on the disk."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: None)
