"""ChatFormat and CompletionFormat: pieces of choices as the two endpoints show them."""

from __future__ import annotations

from typing import Any, Protocol

from services.openai_api.logprobs import chat_logprobs, completion_logprobs
from services.openai_api.piece import Piece
from services.openai_api.schema import GenerationRequest
from services.openai_api.token_text import TokenText

Json = dict[str, Any]


class Format(Protocol):
    """How one endpoint shows a choice. `kind` and `chunk_kind` are the `object` of a whole answer and of a chunk."""

    prefix: str
    kind: str
    chunk_kind: str

    def choice(self, piece: Piece, body: GenerationRequest, tokens: TokenText) -> Json:
        """A whole choice."""
        ...

    def delta(self, piece: Piece, body: GenerationRequest, tokens: TokenText) -> Json:
        """A piece of a streamed choice."""
        ...


class ChatFormat:
    """/v1/chat/completions."""

    prefix, kind, chunk_kind = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def choice(self, piece: Piece, body: GenerationRequest, tokens: TokenText) -> Json:
        """See Format."""
        message = {"role": "assistant", "content": piece.text, "refusal": None}
        return self._common(piece, body, tokens) | {"message": message}

    def delta(self, piece: Piece, body: GenerationRequest, tokens: TokenText) -> Json:
        """See Format. The role comes with the first chunk of a choice: one without text would only cost time."""
        delta = {"content": piece.text}
        if piece.start == 0:
            delta = {"role": "assistant"} | delta
        return self._common(piece, body, tokens) | {"delta": delta}

    def _common(self, piece: Piece, body: GenerationRequest, tokens: TokenText) -> Json:
        logprobs = None if body.num_logprobs() is None else chat_logprobs(piece, tokens)
        return _shared(piece, body) | {"logprobs": logprobs}


class CompletionFormat:
    """/v1/completions; a piece has the same shape as a whole choice."""

    prefix, kind, chunk_kind = "cmpl", "text_completion", "text_completion"

    def choice(self, piece: Piece, body: GenerationRequest, tokens: TokenText) -> Json:
        """See Format."""
        logprobs = None if body.num_logprobs() is None else completion_logprobs(piece, tokens)
        return _shared(piece, body) | {"text": piece.text, "logprobs": logprobs}

    delta = choice


def _shared(piece: Piece, body: GenerationRequest) -> Json:
    """`seed` makes the choice again, also where the client gave none; `stop_reason` and `token_ids` are vLLM's."""
    shared: Json = {
        "index": piece.index,
        "finish_reason": piece.finish and piece.finish.value,
        "stop_reason": piece.stop_reason,
        "seed": piece.seed,
    }
    if body.return_token_ids:
        shared["token_ids"] = list(piece.token_ids)
    return shared
