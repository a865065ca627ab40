"""Baseline: transformers' own generate, greedy, on the same weights and token ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from modeling.builtin import BUILTIN, builtin_dir
from protos.messages import Tokens

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def weights_dir(model: str) -> str:
    """What transformers loads for a model name: the converted folder of the built-in one."""
    return str(builtin_dir()) if model == BUILTIN else model


def load_assistant(folder: str, dtype: str, *, num_tokens: int | None = None) -> Any:
    """A draft model for `assistant_model`: drafts of `num_tokens`, always; None leaves their length to transformers."""
    assistant: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=DTYPES[dtype])
    settings = assistant.generation_config
    settings.eos_token_id = None
    if num_tokens is not None:
        settings.num_assistant_tokens = num_tokens
        settings.num_assistant_tokens_schedule = "constant"
        settings.assistant_confidence_threshold = 0.0
    return assistant


class Baseline:
    """`options` go to generate (`prompt_lookup_num_tokens`, `assistant_model`, ...)."""

    def __init__(self, model: str, dtype: str, options: Mapping[str, Any] | None = None) -> None:
        self.model: Any = AutoModelForCausalLM.from_pretrained(weights_dir(model), dtype=DTYPES[dtype])
        self._options = dict(options or {})
        # Never stops early: whoever is compared answers with the same number of tokens.
        self.model.generation_config.eos_token_id = None
        self.model.generation_config.pad_token_id = 0

    @torch.inference_mode()
    def generate(self, prompts: Sequence[Tokens], *, max_tokens: int) -> tuple[Tokens, ...]:
        """All prompts as one static batch, padded on the left; `max_tokens` each."""
        longest = max(len(prompt) for prompt in prompts)
        ids = torch.zeros(len(prompts), longest, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, prompt in enumerate(prompts):
            ids[row, longest - len(prompt) :] = torch.tensor(prompt)
            mask[row, longest - len(prompt) :] = 1
        answers = self.model.generate(
            ids, attention_mask=mask, do_sample=False, max_new_tokens=max_tokens, **self._options
        )
        return tuple(tuple(row) for row in answers[:, longest:].tolist())

    @torch.inference_mode()
    def logits(self, tokens: Tokens) -> torch.Tensor:
        """[tokens, vocabulary] of one text."""
        result: torch.Tensor = self.model(torch.tensor([tokens])).logits[0]
        return result
