"""Envelope: what surrounds the choices in a whole answer and in a chunk of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from services.openai_api.call import Call
from services.openai_api.formats import Format, Json
from services.openai_api.piece import Piece
from services.openai_api.token_text import TokenText
from services.openai_api.usage import cached_tokens, speculative_metrics, usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """`system_fingerprint` names the weights: with the same one, seed and prompt the text is the same."""

    format: Format
    tokens: TokenText
    model: str
    system_fingerprint: str
    num_spec_tokens: int

    def whole(self, call: Call, pieces: Sequence[Piece]) -> Json:
        """A complete answer; `pieces[i]` is choice i."""
        choices = [self.format.choice(piece, call.body, self.tokens) for piece in pieces]
        answer = self._head(call, self.format.kind) | {"choices": choices, "usage": self.usage(call, pieces)}
        if call.body.return_token_ids:
            answer["prompt_token_ids"] = [list(prompt) for prompt in call.prompts]
        return answer | self.metrics(call, pieces)

    def chunk(self, call: Call, piece: Piece) -> Json:
        """One piece of a stream."""
        choices = [self.format.delta(piece, call.body, self.tokens)]
        return self._head(call, self.format.chunk_kind) | {"choices": choices}

    def closing(self, call: Call) -> Json:
        """A chunk without choices, which usage and metrics come with."""
        return self._head(call, self.format.chunk_kind) | {"choices": []}

    def usage(self, call: Call, pieces: Sequence[Piece]) -> Json:
        """Usage when `pieces` are whole choices."""
        return usage(call, sum(len(piece.token_ids) for piece in pieces), cached_tokens(call, pieces))

    def metrics(self, call: Call, pieces: Sequence[Piece]) -> Json:
        """`metrics` where the request asks for it, else nothing."""
        if not call.body.return_metrics:
            return {}
        return {"metrics": {"speculative_decoding": speculative_metrics(pieces, self.num_spec_tokens)}}

    def _head(self, call: Call, kind: str) -> dict[str, Any]:
        return {
            "id": call.call_id,
            "object": kind,
            "created": call.created,
            "model": self.model,
            "system_fingerprint": self.system_fingerprint,
        }
