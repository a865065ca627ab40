"""ChatRequest and CompletionRequest: every field the API honours. One that is not here is an error, never ignored."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import ErrorDetails

from protos.field_error import FieldError
from protos.sampling_params import MAX_LOGPROBS
from services.request_fields import RequestFields
from services.speculative_options import SpeculativeFields


class StreamOptions(RequestFields):
    """include_usage: one last chunk with the usage. continuous_usage_stats (vLLM's): usage so far in every chunk."""

    include_usage: bool = False
    continuous_usage_stats: bool = False


def _one_or_many(value: object) -> object:
    return [value] if isinstance(value, str) else value


class GenerationRequest(SpeculativeFields):
    """Fields of both endpoints. Below the blank line: vLLM's extensions, then ours; `speculative` is inherited.

    default_tokens: what max_tokens is where the client does not say; None: all that the context still holds.
    """

    default_tokens: ClassVar[int | None] = None

    model: str
    temperature: float = Field(default=1.0, ge=0, le=2)
    top_p: float = Field(default=1.0, gt=0, le=1)
    n: int = Field(default=1, ge=1)
    max_tokens: int | None = Field(default=None, ge=1)
    stop: Annotated[list[str], BeforeValidator(_one_or_many)] = Field(default_factory=list)
    presence_penalty: float = Field(default=0.0, ge=-2, le=2)
    frequency_penalty: float = Field(default=0.0, ge=-2, le=2)
    logit_bias: dict[str, float] = Field(default_factory=dict)
    seed: int | None = Field(default=None, ge=0)
    stream: bool = False
    stream_options: StreamOptions | None = None
    user: str | None = None

    top_k: int = Field(default=0, ge=-1)
    min_p: float = Field(default=0.0, ge=0, le=1)
    repetition_penalty: float = Field(default=1.0, gt=0)
    min_tokens: int = Field(default=0, ge=0)
    stop_token_ids: list[int] = Field(default_factory=list)
    ignore_eos: bool = False
    include_stop_str_in_output: bool = False
    return_token_ids: bool = False
    return_metrics: bool = False

    @model_validator(mode="after")
    def _stream_options_need_stream(self) -> GenerationRequest:
        if self.stream_options is not None and not self.stream:
            raise FieldError("stream_options", "stream_options is only allowed with stream: true")
        return self

    def num_logprobs(self) -> int | None:
        """Alternatives to report beside each token; None: no logprobs."""
        raise NotImplementedError

    def token_limit(self) -> int | None:
        """The most tokens to generate, None where the client did not say."""
        return self.max_tokens


def _text(content: object) -> object:
    """Joins content parts; only text can be read by a language model."""
    if not isinstance(content, list):
        return content
    for part in content:
        if not isinstance(part, dict) or set(part) != {"type", "text"} or not isinstance(part["text"], str):
            kind = part.get("type") if isinstance(part, dict) else part
            raise ValueError(f"content part of type {kind!r} is not supported; give a string or {{type: text, text}}")
        if part["type"] != "text":
            raise ValueError(f"content part of type {part['type']!r} is not supported; only text is")
    return "\n".join(part["text"] for part in content)


class ChatMessage(RequestFields):
    """One turn of a conversation; the model's chat template decides what a role looks like."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[str, BeforeValidator(_text)]


class ChatRequest(GenerationRequest):
    """Body of /v1/chat/completions."""

    messages: list[ChatMessage] = Field(min_length=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    logprobs: bool = False
    top_logprobs: int | None = Field(default=None, ge=0, le=MAX_LOGPROBS)

    @model_validator(mode="after")
    def _fields_agree(self) -> ChatRequest:
        if self.top_logprobs is not None and not self.logprobs:
            raise FieldError("top_logprobs", "top_logprobs is only allowed with logprobs: true")
        if None not in (self.max_tokens, self.max_completion_tokens) and self.max_tokens != self.max_completion_tokens:
            numbers = f"max_tokens is {self.max_tokens}, max_completion_tokens {self.max_completion_tokens}"
            raise FieldError("max_tokens", f"{numbers}; give one of them")
        return self

    def num_logprobs(self) -> int | None:
        """See GenerationRequest."""
        return (self.top_logprobs or 0) if self.logprobs else None

    def token_limit(self) -> int | None:
        """See GenerationRequest."""
        return self.max_completion_tokens or self.max_tokens


Ids = list[int]


class CompletionRequest(GenerationRequest):
    """Body of /v1/completions. prompt: a text, texts, token ids, or lists of token ids."""

    default_tokens: ClassVar[int | None] = 16

    prompt: str | list[str] | Ids | list[Ids]
    logprobs: int | None = Field(default=None, ge=0, le=MAX_LOGPROBS)

    @classmethod
    def _field_error(cls, details: ErrorDetails) -> FieldError:
        """One sentence on a wrong prompt; pydantic has one for each branch of the union."""
        if details["loc"][:1] == ("prompt",) and details["type"] != "missing":
            return FieldError(
                "prompt", "prompt must be a string, a list of strings, token ids, or a list of lists of them"
            )
        return super()._field_error(details)

    def num_logprobs(self) -> int | None:
        """See GenerationRequest."""
        return self.logprobs
