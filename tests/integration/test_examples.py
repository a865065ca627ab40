"""The examples, as a reader of the README runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import KEY_A, Server

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = pytest.mark.model


def run(*command: str, server: Server | None = None) -> str:
    """Standard output of an example; a failure shows both outputs."""
    where = {"OPENAI_BASE_URL": f"{server.base}/v1", "OPENAI_API_KEY": KEY_A} if server else {}
    done = subprocess.run(command, env=os.environ | where, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_offline() -> None:
    shown = run(sys.executable, str(EXAMPLES / "offline.py"))
    assert "the text without drafts is the same" in shown
    assert "tokens were guessed]" in shown


@pytest.mark.ray
def test_openai_client(server: Server) -> None:
    shown = run(sys.executable, str(EXAMPLES / "openai_client.py"), server=server)
    answer, usage, metrics = shown.rstrip().rsplit("\n", 2)
    assert len(answer) > 10
    assert "completion_tokens=" in usage
    assert "num_accepted_draft_tokens" in metrics


@pytest.mark.ray
def test_curl(server: Server) -> None:
    shown = run("sh", str(EXAMPLES / "curl.sh"), server=server)
    assert shown.count('"object":"chat.completion"') == 2
    assert "data: [DONE]" in shown
    assert "vllm:spec_decode_num_drafts_total" in shown
