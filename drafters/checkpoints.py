"""What a drafter checks of two checkpoints before it loads weights: tokenizers that must agree, and context lengths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from transformers import AutoConfig, AutoTokenizer

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
    return AutoTokenizer.from_pretrained(_source(model), revision=revision)


def fitting_max_len(model: str, revision: str | None, wanted: int) -> int | None:
    """`wanted` tokens of context, or the model's own limit where that is less; None where there is no such model.

    The loader that comes next says what is wrong with a model that cannot be read.
    """
    try:
        config = AutoConfig.from_pretrained(_source(model), revision=revision)
    except (OSError, ValueError):
        return None
    own: int | None = getattr(config, "max_position_embeddings", None)
    return wanted if own is None else min(wanted, own)


def _source(model: str) -> str:
    return str(builtin_dir()) if model == BUILTIN else model
