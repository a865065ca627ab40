"""parse: the bytes of a request to its model, or one 400 that names the field, the value and what would be right."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import pydantic_core
from fastapi import Request

from protos.field_error import FieldError
from services.openai_api.errors import ApiError, invalid
from services.openai_api.schema import GenerationRequest
from services.request_fields import short

Body = TypeVar("Body", bound=GenerationRequest)

# Fields of OpenAI's or vLLM's API that this server has not. Clients often send them with a value that asks for nothing:
# null or one of these passes, every other value is refused.
_UNSUPPORTED: dict[str, tuple[object, ...]] = {
    "audio": (),
    "best_of": (1,),
    "echo": (False,),
    "function_call": ("none",),
    "functions": ([],),
    "length_penalty": (1, 1.0),
    "metadata": ({},),
    "modalities": (["text"],),
    "parallel_tool_calls": (),
    "prediction": (),
    "prompt_logprobs": (),
    "reasoning_effort": (),
    "response_format": ({"type": "text"},),
    "service_tier": ("auto", "default"),
    "skip_special_tokens": (True,),
    "store": (False,),
    "structured_outputs": (),
    "suffix": ("",),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "use_beam_search": (False,),
    "verbosity": (),
    "web_search_options": (),
}
# The same for a message; clients send back an answer's message as they got it.
_UNSUPPORTED_IN_MESSAGE: dict[str, tuple[object, ...]] = {
    "annotations": ([],),
    "audio": (),
    "function_call": (),
    "name": (),
    "refusal": (),
    "tool_calls": ([],),
}


async def read_body(request: Request, max_bytes: int) -> bytes:
    """The body, or 413 as soon as it is known to be too large."""
    parts: list[bytes] = []
    declared = request.headers.get("content-length", "")
    size = int(declared) if declared.isdigit() else 0
    received = 0
    if size <= max_bytes:
        async for part in request.stream():
            received += len(part)
            if received > max_bytes:
                break
            parts.append(part)
    if max(size, received) > max_bytes:
        raise ApiError(413, f"the body is larger than {max_bytes} bytes, the most this server reads")
    return b"".join(parts)


def parse(body: bytes, kind: type[Body]) -> Body:
    """Validates a body strictly: no coercion, no unknown field, no field this server cannot honour."""
    try:
        fields = pydantic_core.from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise invalid(f"the body is not valid JSON: {error}", None) from None
    if not isinstance(fields, dict):
        raise invalid("the body must be a JSON object", None)
    fields = _without_empty_requests(fields, _UNSUPPORTED)
    messages = fields.get("messages")
    if isinstance(messages, list):
        fields["messages"] = [
            _without_empty_requests(message, _UNSUPPORTED_IN_MESSAGE, f"messages.{i}.")
            if isinstance(message, dict)
            else message
            for i, message in enumerate(messages)
        ]
    try:
        return kind.read(fields)
    except FieldError as error:
        raise invalid(str(error), error.field) from None


def _without_empty_requests(
    fields: dict[str, Any], unsupported: dict[str, tuple[object, ...]], path: str = ""
) -> dict[str, Any]:
    """Drops what asks for nothing, refuses what asks for something this server has not."""
    for name, value in fields.items():
        if name in unsupported:
            _check_neutral(path + name, value, unsupported[name])
    return {name: value for name, value in fields.items() if name not in unsupported}


def _check_neutral(name: str, value: object, neutral: tuple[object, ...]) -> None:
    if value is None or any(type(value) is type(nothing) and value == nothing for nothing in neutral):
        return
    allowed = " or ".join(json.dumps(nothing) for nothing in neutral)
    remedy = f"leave it out or set it to {allowed}" if allowed else "leave it out"
    raise invalid(f"{name} is {short(value)}, which this server does not support; {remedy}", name)
