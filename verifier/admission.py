"""Admission: which requests an engine takes."""

from __future__ import annotations

from dataclasses import replace

from modeling.sampling import validate_for_vocab
from modeling.target import Target
from protos.messages import Request


class QueueFullError(RuntimeError):
    """Too many requests are waiting; try again after `retry_after_s` seconds."""

    retry_after_s = 1

    def __init__(self, waiting: int) -> None:
        super().__init__(f"{waiting} requests are waiting already; try again in {self.retry_after_s} s")


def admissible(request: Request, target: Target) -> Request:
    """The request with max_tokens filled in. ValueError that names what can never run, and the limit."""
    size, limit = len(request.prompt_ids), target.max_model_len
    if size == 0:
        raise ValueError("prompt is empty; give at least one token")
    for token in request.prompt_ids:
        if not 0 <= token < target.vocab_size:
            raise ValueError(f"prompt holds token id {token}; this model's ids are 0 to {target.vocab_size - 1}")
    if size >= limit:
        raise ValueError(f"prompt has {size} tokens; this model takes at most {limit} with the answer; shorten it")
    params = request.params
    validate_for_vocab(params, target.vocab_size)
    max_tokens = limit - size if params.max_tokens is None else params.max_tokens
    if size + max_tokens > limit:
        raise ValueError(
            f"max_tokens is {max_tokens} and the prompt has {size} tokens, together above this model's "
            f"{limit}; lower max_tokens to {limit - size} or shorten the prompt"
        )
    if params.n != 1:
        raise ValueError(f"n is {params.n}; an engine runs one sequence a request, expand it first")
    return replace(request, params=replace(params, max_tokens=max_tokens))
