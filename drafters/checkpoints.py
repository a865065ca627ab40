"""What a drafter checks of two checkpoints before it loads weights: tokenizers that must agree, and context lengths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from transformers import AutoConfig, AutoTokenizer

from modeling.target import resolve_model


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
    """The tokenizer of a model by name or path, without its weights; ValueError where there is none."""
    return _read(AutoTokenizer, model, revision)


def fitting_max_len(model: str, revision: str | None, wanted: int) -> int:
    """`wanted` tokens of context, or the model's own limit where that is less; ValueError where there is no config."""
    config = _read(AutoConfig, model, revision)
    own: int | None = getattr(config, "max_position_embeddings", None)
    return wanted if own is None else min(wanted, own)


def _read(kind: Any, model: str, revision: str | None) -> Any:
    source = resolve_model(model)
    try:
        return kind.from_pretrained(source, revision=revision)
    except (ImportError, OSError, ValueError) as error:
        what = "tokenizer" if kind is AutoTokenizer else "configuration"
        first_line = str(error).strip().split("\n", 1)[0]
        raise ValueError(
            f"the {what} of {model!r} could not be read: {first_line}; give a local directory or a hub id"
        ) from error
