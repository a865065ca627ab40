"""paradraft doctor: finds what is wrong with a model on disk, and says what drafts achieve."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness.tiny import save_tiny, tiny_llama
from modeling.block_checkpoint import BLOCK_NETS
from modeling.target import TargetSpec, load_target
from services.cli.checks import check_origin
from services.cli.drafter_origin import DrafterOrigin
from tests.cli.conftest import Call
from tests.fakes.block_nets import random_net

SMALL = ["--dtype", "fp32", "--device", "cpu", "--threads", "1", "--max-num-seqs", "4", "--max-model-len", "512"]


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    return save_tiny(tmp_path)


def test_a_good_model_passes_and_acceptance_is_shown(paradraft: Call, model: str) -> None:
    result = paradraft("doctor", model, *SMALL)
    assert result.exit_code == 0
    assert "✗" not in result.output
    for name in ("loads", "tokenizer round trip", "vocabulary", "end tokens", "row invariance", "drafter"):
        assert re.search(rf"✓ {name} ", result.output), name
    assert re.search(r"suffix: accepted length [\d.]+ in \d+ drafts", result.output)
    assert re.search(r"^ +1 █* ?\d+%", result.output, re.MULTILINE)


def test_a_template_that_opens_no_turn_is_noticed(paradraft: Call, broken: Path) -> None:
    (broken / "chat_template.jinja").write_text("{% for m in messages %}{{ m['content'] }}<|im_end|>{% endfor %}")
    assert re.search(r"! chat template +does not open", paradraft("doctor", str(broken), *SMALL).output)


def test_an_answer_that_cannot_end_is_noticed(paradraft: Call, broken: Path) -> None:
    template = "{% for m in messages %}{{ m['content'] }}END{% endfor %}{% if add_generation_prompt %}>{% endif %}"
    (broken / "chat_template.jinja").write_text(template)
    assert re.search(
        r"! chat template +.*'END', which is no end token", paradraft("doctor", str(broken), *SMALL).output
    )
    (broken / "chat_template.jinja").write_text(template.replace("END", "<|im_end|>"))
    assert re.search(r"✓ chat template +opens with '>'", paradraft("doctor", str(broken), *SMALL).output)


def test_without_a_template_it_still_tries_raw_prompts(paradraft: Call, broken: Path) -> None:
    (broken / "chat_template.jinja").unlink()
    result = paradraft("doctor", str(broken), *SMALL, "--raw")
    assert result.exit_code == 0
    assert re.search(r"! chat template +none", result.output)


def test_a_tokenizer_of_another_model_fails(paradraft: Call, broken: Path) -> None:
    def add_tokens(content: dict[str, Any]) -> None:
        content["model"]["vocab"] |= {f"<extra{i}>": 258 + i for i in range(9)}

    edit(broken / "tokenizer.json", add_tokens)
    result = paradraft("doctor", str(broken), *SMALL)
    assert result.exit_code == 1
    assert re.search(r"✗ vocabulary .*tokenizer has 267 ids, the model 258 rows", result.output)


def test_a_tokenizer_that_loses_text_fails(paradraft: Call, broken: Path) -> None:
    edit(broken / "tokenizer.json", lambda content: content.update(normalizer={"type": "Lowercase"}))
    result = paradraft("doctor", str(broken), *SMALL)
    assert result.exit_code == 1
    assert re.search(r"✗ tokenizer round trip .*comes back as 'the quick", result.output)


def test_a_cache_that_cannot_be_cut_back_fails_to_load(paradraft: Call, broken: Path) -> None:
    edit(broken / "config.json", lambda c: c.update(model_type="mistral", sliding_window=64))
    result = paradraft("doctor", str(broken), *SMALL)
    assert result.exit_code == 1
    assert re.search(r"✗ loads .*sliding window of 64", result.output)


def test_a_drafter_of_another_vocabulary_fails(paradraft: Call, model: str, broken: Path) -> None:
    def rename(content: dict[str, Any]) -> None:
        vocab = content["model"]["vocab"]
        vocab["a"], vocab["b"] = vocab["b"], vocab["a"]

    edit(broken / "tokenizer.json", rename)
    result = paradraft("doctor", model, *SMALL, "--speculative-config", json.dumps({"model": str(broken)}))
    assert result.exit_code == 1
    assert re.search(r"✗ drafter +draft_model: .*another tokenizer", result.output)


def test_a_missing_model_is_one_failed_check(paradraft: Call, tmp_path: Path) -> None:
    result = paradraft("doctor", str(tmp_path / "none"), *SMALL)
    assert result.exit_code == 1
    assert result.output.count("✗") == 1
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("noted", "check", "cause"),
    [
        (
            {},
            r"✓ drafter's target .*trained for tiny in torch\.float32, as it is here",
            "hardly a first token is right",
        ),
        (
            {"fingerprint": "0"},
            r"! drafter's target .*of fingerprint 0, not \w+: few drafts",
            "trained for tiny, which",
        ),
    ],
)
def test_a_drafter_of_another_target_is_noticed(
    paradraft: Call, model: str, tmp_path: Path, noted: dict[str, str], check: str, cause: str
) -> None:
    """A net of random weights guesses badly; what is made of that depends on what it says it was trained for."""
    BLOCK_NETS.save(random_net(hidden_size=tiny_llama().hidden_size), tmp_path)
    own = load_target(TargetSpec(model=model, dtype="fp32", device="cpu", max_num_seqs=1, max_model_len=64))
    fp16 = DrafterOrigin(weights="w", model="tiny", fingerprint="0", dtype="torch.float16")
    assert re.search(r"whether with these weights cannot be told in torch\.float32", check_origin(fp16, own).detail)
    target = {"model": "tiny", "fingerprint": own.fingerprint, "dtype": "torch.float32"} | noted
    (tmp_path / "provenance.json").write_text(json.dumps({"target": target}))
    keys = json.dumps({"method": "dflash", "model": str(tmp_path), "num_speculative_tokens": 4})
    result = paradraft("doctor", model, *SMALL, "--speculative-config", keys)
    assert result.exit_code == 0
    assert re.search(check, result.output)
    assert re.search(f"likely cause: .*{cause}", result.output), result.output
    assert re.search(r"dflash: accepted length .*; drafting took \d+% of the time", result.output)
