"""Prompts of a file, in whichever of three forms its content has: JSON lines, OpenAI's batch format, or plain lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from protos.messages import Tokens
from services.answering import prompt_lines
from services.openai_api.schema import ChatMessage, ChatRequest, CompletionRequest
from services.prompts import Prompt, encode, encode_chat
from services.request_fields import RequestFields, short

CHAT_URL, COMPLETION_URL = "/v1/chat/completions", "/v1/completions"


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenPrompt:
    """where: file and line. Either messages, for the model's chat template, or raw, to be continued as it is."""

    where: str
    messages: tuple[ChatMessage, ...] = ()
    raw: Prompt | None = None

    def ids(self, tokenizer: Any) -> Tokens:
        """As the model sees it; ValueError, with the line, where that cannot be."""
        try:
            if self.raw is not None:
                (encoded,) = encode([self.raw], tokenizer)
                return encoded.ids
            return encode_chat([message.model_dump() for message in self.messages], tokenizer).ids
        except ValueError as error:
            raise ValueError(f"{self.where}: {error}") from error


class _Conversation(RequestFields):
    messages: list[ChatMessage]


def read_prompts(path: Path, *, raw: bool) -> list[GivenPrompt]:
    """The prompts in order. raw: a line of text, or `prompt`, is no user's turn, but to be continued as it is.

    A file that begins with `{` has an object of JSON in each line: `prompt` or `messages`, or a request of a batch, of
    which messages or prompt are read. Any other has a prompt in each line. Empty lines are none. ValueError names the
    line that is at fault.
    """
    lines = prompt_lines(path)
    numbered = [(f"{path}, line {number}", line) for number, line in enumerate(lines, 1) if line.strip()]
    if not numbered:
        raise ValueError(f"{path} has no prompts; give one a line")
    if numbered[0][1].lstrip().startswith("{"):
        return [prompt for where, line in numbered for prompt in _of_json(line, where, raw=raw)]
    return [_turn(_checked(line.rstrip("\r"), where), where, raw=raw) for where, line in numbered]


def _checked(line: str, where: str) -> str:
    """A plain line; ValueError for one of JSON, which stands in the wrong file."""
    if line.lstrip().startswith("{"):
        try:
            json.loads(line)
        except ValueError:
            return line
        raise ValueError(f"{where} is JSON, but the first line is none; give all lines the same form")
    return line


def _turn(text: str, where: str, *, raw: bool) -> GivenPrompt:
    if raw:
        return GivenPrompt(where=where, raw=text)
    return GivenPrompt(where=where, messages=(ChatMessage(role="user", content=text),))


def _of_json(line: str, where: str, *, raw: bool) -> Iterator[GivenPrompt]:
    try:
        given = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{where} is no JSON: {error}; the first line is") from error
    try:
        match given:
            case {"body": dict(body), "url": str(url)}:
                yield from _of_batch(body, url, where)
            case {"messages": list()}:
                yield GivenPrompt(where=where, messages=tuple(_Conversation.read(_only(given, "messages")).messages))
            case {"prompt": str(text)} if text.strip():
                yield _turn(text, where, raw=raw)
            case _:
                raise ValueError(
                    f'{short(given)} is no prompt; it must look like {{"prompt": "…"}}, {{"messages": […]}} '
                    'or {"custom_id": …, "method": "POST", "url": "/v1/…", "body": {…}}'
                )
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _of_batch(body: dict[str, Any], url: str, where: str) -> Iterator[GivenPrompt]:
    """The prompts of one request; a completion may have several."""
    if url == CHAT_URL:
        yield GivenPrompt(where=where, messages=tuple(ChatRequest.read(body).messages))
    elif url == COMPLETION_URL:
        given = CompletionRequest.read(body).prompt
        several: Sequence[Any] = [given] if isinstance(given, str) or all(isinstance(i, int) for i in given) else given
        for prompt in several:
            yield GivenPrompt(where=where, raw=prompt)
    else:
        raise ValueError(f"url is {url!r}; it must be {CHAT_URL} or {COMPLETION_URL}")


def _only(given: dict[str, Any], name: str) -> dict[str, Any]:
    return {name: given[name]}
