"""What the draft model tests load."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.tiny_llama import save_tiny_llama


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_llama(tmp_path_factory.mktemp("tiny"))
