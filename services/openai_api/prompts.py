"""Prompts: what a body asks to continue, as token ids. The only place that knows the tokenizer's text side."""

from __future__ import annotations

import asyncio
from typing import Any

from jinja2 import TemplateError

from protos.messages import Tokens
from services.backend import ModelCard
from services.config import Limits
from services.openai_api.errors import invalid
from services.openai_api.schema import ChatRequest, CompletionRequest


async def chat_prompt(body: ChatRequest, card: ModelCard) -> Tokens:
    """The conversation through the model's chat template, opened for the assistant's turn."""
    messages = [{"role": message.role, "content": message.content} for message in body.messages]
    if getattr(card.tokenizer, "chat_template", None) is None:
        raise invalid("this model has no chat template; use /v1/completions", "messages")
    return await asyncio.to_thread(_render_chat, messages, card)


async def completion_prompts(body: CompletionRequest, card: ModelCard, limits: Limits) -> list[Tokens]:
    """One prompt or many, each a text or ids; texts get the special tokens their tokenizer adds."""
    given = body.prompt
    many: list[Any] = given if isinstance(given, list) and not _is_ids(given) else [given]
    if not 1 <= len(many) <= limits.max_prompts:
        raise invalid(f"prompt has {len(many)} entries; give 1 to {limits.max_prompts}", "prompt")
    return [await asyncio.to_thread(_encode, prompt, card) for prompt in many]


def _is_ids(prompt: list[Any]) -> bool:
    return bool(prompt) and isinstance(prompt[0], int)


def _render_chat(messages: list[dict[str, str]], card: ModelCard) -> Tokens:
    # The template writes the special tokens itself; the tokenizer must not add them a second time.
    try:
        text = card.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    except TemplateError as error:
        raise invalid(f"the model's chat template refuses these messages: {error}", "messages") from None
    return tuple(card.tokenizer(text, add_special_tokens=False)["input_ids"])


def _encode(prompt: str | list[int], card: ModelCard) -> Tokens:
    ids = tuple(card.tokenizer(prompt)["input_ids"]) if isinstance(prompt, str) else tuple(prompt)
    if not ids:
        raise invalid("prompt is empty; give at least one token", "prompt")
    for token in ids:
        if not 0 <= token < card.vocab_size:
            raise invalid(f"prompt has token id {token}; ids of this model are 0 to {card.vocab_size - 1}", "prompt")
    return ids
