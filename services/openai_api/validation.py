"""parse: the bytes of a request to its model, or one 400 that names the field, the value and what would be right."""

from __future__ import annotations

import difflib
import json
from typing import Any, TypeVar

import pydantic_core
from fastapi import Request
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from protos.field_error import FieldError
from services.openai_api.errors import ApiError, invalid
from services.openai_api.schema import GenerationRequest

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
        return kind.model_validate(fields)
    except ValidationError as error:
        raise _as_api_error(error.errors()[0], kind) from None


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


def _as_api_error(details: ErrorDetails, kind: type[GenerationRequest]) -> ApiError:
    param = _param(details)
    message = details["msg"].removeprefix("Value error, ")
    match details["type"]:
        case "extra_forbidden":
            return invalid(f"unknown field {short(param)}{_suggestion(param, kind)}", param)
        case "missing":
            return invalid(f"{param} is required", param)
        case "value_error" if isinstance(error := details["ctx"]["error"], FieldError):
            return invalid(message, error.field)
        case "value_error":
            return invalid(f"{param}: {message}", param)
        case _ if param == "prompt":
            return invalid("prompt must be a string, a list of strings, token ids, or a list of lists of them", param)
        case _:
            return invalid(f"{param} is {short(details['input'])}; {message[:1].lower()}{message[1:]}", param)


def _param(details: ErrorDetails) -> str:
    """Path of the field. Branches of a union add their own names to it, which no client knows."""
    known = [str(part) for part in details["loc"] if part not in {"int", "float", "str"}]
    return known[0] if known[:1] == ["prompt"] else ".".join(known)


def _suggestion(name: str, kind: type[GenerationRequest]) -> str:
    near = [] if "." in name else difflib.get_close_matches(name[:80], list(kind.model_fields), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def short(value: object) -> str:
    """A client's value as JSON, to quote in a message; cut where it is long."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."
