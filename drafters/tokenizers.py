"""A draft model's ids must mean what the target's mean: loads the target's tokenizer and compares the two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from transformers import AutoTokenizer

from modeling.builtin import BUILTIN, builtin_dir


class Tokenizer(Protocol):
    """The part of a tokenizer that decides what an id means."""

    def get_vocab(self) -> Mapping[str, int]: ...


def check_same_tokenizer(target: Tokenizer, draft: Tokenizer) -> None:
    """ValueError with both sizes and the first id that differs. Padding of an embedding has no tokens, so passes."""
    target_tokens = {token_id: token for token, token_id in target.get_vocab().items()}
    draft_tokens = {token_id: token for token, token_id in draft.get_vocab().items()}
    for token_id in sorted(target_tokens.keys() | draft_tokens.keys()):
        of_target, of_draft = target_tokens.get(token_id), draft_tokens.get(token_id)
        if of_target != of_draft:
            raise ValueError(
                f"the draft model has another tokenizer: {len(draft_tokens)} tokens, the target {len(target_tokens)}; "
                f"the first difference is id {token_id}: {of_draft!r} in the draft model, {of_target!r} in the target. "
                "Use a draft model with the target's tokenizer"
            )


def load_tokenizer(model: str, revision: str | None = None) -> Any:
    """The tokenizer of a model by name or path, without its weights."""
    return AutoTokenizer.from_pretrained(builtin_dir() if model == BUILTIN else model, revision=revision)
