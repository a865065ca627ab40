"""Draft models over tiny checkpoints, and what their target would say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import LlamaConfig

from benchmarks.harness.tiny import VOCAB_SIZE
from drafters.context import DrafterContext
from drafters.draft_model import DraftModel
from drafters.draft_model_config import DraftModelConfig
from drafters.registry import build_drafter
from modeling.sampling import TokenSampler
from modeling.target import Target
from modeling.work import Forward, Work
from protos.messages import Tokens
from protos.sampling_params import SamplingParams


def tiny_config(*, vocab_size: int = VOCAB_SIZE) -> LlamaConfig:
    """One layer, its weights far apart, so that no two tokens are as likely. Ids beyond the tokenizer's are padding."""
    return LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=1024,
        bos_token_id=None,
        eos_token_id=VOCAB_SIZE - 1,
        initializer_range=0.5,
    )


def build(checkpoint: Path, *, seqs: int = 4, **config: Any) -> DraftModel:
    context = DrafterContext(target=str(checkpoint), vocab_size=VOCAB_SIZE, max_num_seqs=seqs, dtype="fp32", threads=1)
    drafter = build_drafter(DraftModelConfig(model=str(checkpoint), **config), context)
    assert isinstance(drafter, DraftModel)
    return drafter


def target_text(target: Target, prompt: Tokens, params: SamplingParams, count: int) -> Tokens:
    """Plain decoding: the tokens that the target itself draws."""
    sampler = TokenSampler(params, prompt_ids=prompt, stop_ids=target.eos_ids, vocab_size=target.vocab_size)
    text = list(prompt)
    for _ in range(count):
        logits = target.runner.forward([Work(slot=0, start=0, tokens=tuple(text), num_logits=1)]).logits[0]
        token = sampler.draw(logits.float(), len(text))
        sampler.commit(token)
        text.append(token)
    return tuple(text[len(prompt) :])


def spied(drafter: DraftModel) -> list[Work]:
    """The works that the drafter's runner gets from now on."""
    works: list[Work] = []
    forward = drafter._runner.forward

    def spying(given: Sequence[Work], **taps: Any) -> Forward:
        works.extend(given)
        return forward(given, **taps)

    drafter._runner.forward = spying  # type: ignore[method-assign]
    return works
