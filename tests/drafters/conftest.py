"""What the draft model tests load."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.harness.tiny import save_tiny
from tests.drafters.draft_models import tiny_config


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("tiny"), tiny_config())
