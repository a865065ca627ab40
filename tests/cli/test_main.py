"""The command as a whole: help, version, and how a mistake is answered."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Call

COMMANDS = ["serve", "generate", "bench", "data", "train", "models", "doctor"]


def test_help_names_every_command(paradraft: Call) -> None:
    result = paradraft("--help")
    assert result.exit_code == 0
    for command in COMMANDS:
        assert command in result.output


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(paradraft: Call, command: str) -> None:
    result = paradraft(command, "--help")
    assert result.exit_code == 0
    assert "Usage" in result.output


def test_version_is_that_of_the_distribution(paradraft: Call) -> None:
    result = paradraft("--version")
    assert (result.exit_code, result.output) == (0, "paradraft 0.1.0\n")


def test_help_loads_nothing_heavy() -> None:
    """What makes a command line slow is what it imports."""
    probe = (
        "import sys; from typer.testing import CliRunner; from services.cli.main import app\n"
        "assert CliRunner().invoke(app, ['serve', '--help']).exit_code == 0\n"
        "print(sorted({'torch', 'transformers', 'ray', 'fastapi', 'grpc', 'tokenizers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_import_of_the_face_is_cheap() -> None:
    probe = "import sys, paradraft; print(paradraft.SamplingParams().n, {'torch', 'ray'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout == "1 set()\n"


def test_the_face_says_what_it_has() -> None:
    import paradraft

    with pytest.raises(AttributeError, match="LLM, SamplingParams, build_app"):
        _ = paradraft.LLMs


MISTAKES = [
    (["serve", "--prot", "80"], "No such option"),
    (["serve", "--port", "many"], "valid integer"),
    (["serve", "--port", "70000"], "port is 70000"),
    (["serve", "--dtype", "fp7"], "fp7"),
    (["serve", "--speculative-config", "{method: suffix}"], "not JSON"),
    (["serve", "--speculative-config", "[1]"], "not a JSON object"),
    (["serve", "--speculative-config", '{"method": "sufix"}'], "sufix"),
    (["serve", "--speculative-config", '{"method": "suffix", "draft_len": 3}'], "draft_len"),
    (["serve", "untrained", "--speculative-config", '{"method": "draft_model"}'], "no weights of method 'draft_model'"),
    (["serve", "--config", "nowhere.yaml"], "nowhere.yaml"),
    (["serve", "--device", "tpu"], "tpu"),
    (["serve", "--kv-cache-gib", "inf"], "kv_cache_gib is inf"),
    (["generate", "--prompt", "x", "--temperature", "-1"], "temperature is -1"),
    (["generate", "--prompt", "x", "--max-tokens", "0"], "max_tokens is 0"),
    (["generate", "--prompt", "  "], "prompt is empty"),
    (["generate", "--prompt", "x", "--raw", "--system", "y"], "--raw"),
    (["generate", "nowhere/at-all", "--prompt", "x"], "nowhere/at-all"),
    (["bench", "nothing"], "'nothing' is no benchmark"),
]


@pytest.mark.parametrize(("args", "said"), MISTAKES, ids=lambda v: " ".join(v) if isinstance(v, list) else "")
def test_a_mistake_is_answered_in_plain_words(paradraft: Call, args: list[str], said: str) -> None:
    result = paradraft(*args)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
    assert "Traceback" not in result.output
    assert "pydantic" not in result.output


def test_a_config_file_that_is_no_text_is_named(paradraft: Call, tmp_path: Path) -> None:
    path = tmp_path / "serve.yaml"
    path.write_bytes(b"\xff\xfe")
    result = paradraft("serve", "--config", str(path))
    assert result.exit_code == 2
    assert "serve.yaml is not YAML" in "".join(result.stderr.split("\n"))


def test_a_config_file_is_read_and_options_win(paradraft: Call, tmp_path: Path) -> None:
    config = tmp_path / "serve.yaml"
    config.write_text("port: 70000\nmax_num_seqs: 2\n")
    assert "port is 70000" in paradraft("serve", "--config", str(config)).stderr
    assert "port is 70001" in paradraft("serve", "--config", str(config), "--port", "70001").stderr
    config.write_text("ports: 1\n")
    assert "did you mean 'port'" in paradraft("serve", "--config", str(config)).stderr
    config.write_text("- port\n")
    assert "mapping" in paradraft("serve", "--config", str(config)).stderr
