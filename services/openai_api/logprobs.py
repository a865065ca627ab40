"""Log-probabilities in the shapes of the two endpoints: one entry for each generated token."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from protos.messages import TokenLogprob
from services.openai_api.piece import Piece
from services.openai_api.token_text import TokenText

# JSON has no infinity: what cannot be drawn at all is reported as OpenAI does.
_IMPOSSIBLE = -9999.0


def chat_logprobs(piece: Piece, tokens: TokenText) -> dict[str, Any]:
    """`logprobs` of a chat choice."""
    return {
        "content": [
            _chat_entry(token, entry.logprob, tokens)
            | {"top_logprobs": [_chat_entry(other, logprob, tokens) for other, logprob in entry.top]}
            for token, entry in zip(piece.token_ids, piece.logprobs, strict=True)
        ],
        "refusal": None,
    }


def completion_logprobs(piece: Piece, tokens: TokenText) -> dict[str, Any]:
    """`logprobs` of a completion choice. text_offset counts characters from the start of the choice."""
    shown = [tokens.shown(token) for token in piece.token_ids]
    ends = accumulate(map(len, shown), initial=piece.start)
    return {
        "tokens": shown,
        "token_logprobs": [_finite(entry.logprob) for entry in piece.logprobs],
        "top_logprobs": [
            _alternatives(token, entry, tokens) for token, entry in zip(piece.token_ids, piece.logprobs, strict=True)
        ],
        "text_offset": list(ends)[:-1],
    }


def _chat_entry(token: int, logprob: float, tokens: TokenText) -> dict[str, Any]:
    return {"token": tokens.shown(token), "logprob": _finite(logprob), "bytes": list(tokens.raw(token))}


def _alternatives(token: int, entry: TokenLogprob, tokens: TokenText) -> dict[str, float]:
    """The best ones and, always, the token itself."""
    pairs = [*entry.top, (token, entry.logprob)]
    return {tokens.shown(other): _finite(logprob) for other, logprob in pairs}


def _finite(logprob: float) -> float:
    return max(logprob, _IMPOSSIBLE)
