"""Prompts: what a body asks to continue, as token ids, or a 400."""

from __future__ import annotations

import asyncio
from typing import Any

from protos.messages import Tokens
from services.backend import ModelCard
from services.config import Limits
from services.openai_api.errors import invalid
from services.openai_api.schema import ChatRequest, CompletionRequest
from services.prompts import encode_chat


async def chat_prompt(body: ChatRequest, card: ModelCard) -> Tokens:
    """The conversation through the model's chat template, opened for the assistant's turn."""
    messages = [{"role": message.role, "content": message.content} for message in body.messages]
    try:
        encoded = await asyncio.to_thread(encode_chat, messages, card.tokenizer)
    except ValueError as error:
        raise invalid(str(error), "messages") from None
    return encoded.ids


async def completion_prompts(body: CompletionRequest, card: ModelCard, limits: Limits) -> list[Tokens]:
    """One prompt or many, each a text or ids; texts get the special tokens their tokenizer adds."""
    given = body.prompt
    many: list[Any] = given if isinstance(given, list) and not _is_ids(given) else [given]
    if not 1 <= len(many) <= limits.max_prompts:
        raise invalid(f"prompt has {len(many)} entries; give 1 to {limits.max_prompts}", "prompt")
    return [await asyncio.to_thread(_encode, prompt, card) for prompt in many]


def _is_ids(prompt: list[Any]) -> bool:
    return bool(prompt) and isinstance(prompt[0], int)


def _encode(prompt: str | list[int], card: ModelCard) -> Tokens:
    ids = tuple(card.tokenizer(prompt)["input_ids"]) if isinstance(prompt, str) else tuple(prompt)
    if not ids:
        raise invalid("prompt is empty; give at least one token", "prompt")
    for token in ids:
        if not 0 <= token < card.vocab_size:
            raise invalid(f"prompt has token id {token}; ids of this model are 0 to {card.vocab_size - 1}", "prompt")
    return ids
