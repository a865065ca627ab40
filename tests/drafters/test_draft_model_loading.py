"""What is checked of a draft model's checkpoint before it drafts: tokenizer, path, context, vocabulary."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness.tiny import VOCAB_SIZE, byte_tokenizer, save_tiny
from drafters.context import DrafterContext
from drafters.draft_model import INGEST_ROWS
from drafters.draft_model_config import DraftModelConfig
from drafters.registry import build_drafter
from protos.sampling_params import SamplingParams
from tests.drafters.draft_models import tiny_config
from tests.fakes.queries import query


def test_vocabulary_padding_is_tolerated_and_never_proposed(checkpoint: Path, tmp_path: Path) -> None:
    padded = save_tiny(tmp_path, tiny_config(vocab_size=320))
    context = DrafterContext(target=str(checkpoint), vocab_size=VOCAB_SIZE, max_num_seqs=2, dtype="fp32", threads=1)
    drafter = build_drafter(DraftModelConfig(model=str(padded)), context)
    params = [SamplingParams(temperature=2, seed=i) for i in range(30)]
    for i, one in enumerate(params):
        (chunk,) = drafter.draft([query((1, 2, 3), request_id=str(i), params=one)])
        assert max(chunk.tokens) < VOCAB_SIZE
        drafter.close(str(i))
    larger = DrafterContext(target=str(padded), vocab_size=320, max_num_seqs=2, dtype="fp32", threads=1)
    (chunk,) = build_drafter(DraftModelConfig(model=str(checkpoint)), larger).draft([query((1, 2, 319))])
    assert max(chunk.tokens) < VOCAB_SIZE


def test_another_tokenizer_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    other = save_tiny(tmp_path, tiny_config(vocab_size=VOCAB_SIZE + 1))
    tokenizer = byte_tokenizer()
    tokenizer.add_tokens(["<extra>"])
    tokenizer.save_pretrained(other)
    context = DrafterContext(target=str(checkpoint), vocab_size=VOCAB_SIZE, max_num_seqs=1, threads=1)
    with pytest.raises(ValueError, match="259 tokens, the target 258; the first difference is id 258: '<extra>'"):
        build_drafter(DraftModelConfig(model=str(other)), context)


@pytest.mark.parametrize("given", [{"model": "/no/such/model"}, {"draft_device": "tpu"}])
def test_wrong_path_or_device_fails_at_start(checkpoint: Path, given: dict[str, Any]) -> None:
    """Case M4."""
    context = DrafterContext(target=str(checkpoint), vocab_size=VOCAB_SIZE)
    with pytest.raises(ValueError, match=r"no/such/model|tpu"):
        build_drafter(DraftModelConfig(**({"model": str(checkpoint)} | given)), context)


def test_a_home_directory_is_found(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(checkpoint.parent))
    tilde = f"~/{checkpoint.name}"
    context = DrafterContext(target=tilde, vocab_size=VOCAB_SIZE, max_num_seqs=1, threads=1)
    (chunk,) = build_drafter(DraftModelConfig(model=tilde), context).draft([query((1, 2, 3))])
    assert len(chunk.tokens) == 5


def test_a_target_without_tokenizer_is_named(checkpoint: Path, tmp_path: Path) -> None:
    shutil.copy(checkpoint / "config.json", tmp_path)
    context = DrafterContext(target=str(tmp_path), vocab_size=VOCAB_SIZE, max_num_seqs=1, threads=1)
    with pytest.raises(ValueError, match=f"the tokenizer of '{tmp_path}' could not be read"):
        build_drafter(DraftModelConfig(model=str(checkpoint)), context)


def test_context_length_is_the_shorter_of_both(checkpoint: Path) -> None:
    for wanted, own in ((100, 100), (5000, 1024)):
        context = DrafterContext(
            target=str(checkpoint), vocab_size=VOCAB_SIZE, max_num_seqs=1, max_model_len=wanted, threads=1
        )
        drafter = build_drafter(DraftModelConfig(model=str(checkpoint)), context)
        for _ in range((own - 1) // INGEST_ROWS):
            list(drafter.draft([query([5] * (own - 1), request_id="fits")]))
        (fits,) = drafter.draft([query([5] * (own - 1), request_id="fits")])
        drafter.close("fits")
        (full,) = drafter.draft([query([5] * own, request_id="full")])
        assert (len(fits.tokens), len(full.tokens)) == (1, 0)
