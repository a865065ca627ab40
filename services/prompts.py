"""Prompt: what may be given to generate from, and how each form becomes token ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from jinja2 import TemplateError

from protos.messages import Tokens

Prompt = str | Sequence[int] | Mapping[str, Any]
Message = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedPrompt:
    """Token ids, and the text they came from where there was one."""

    text: str | None
    ids: Tokens


def encode(prompts: Prompt | Sequence[Prompt], tokenizer: Any) -> list[EncodedPrompt]:
    """One prompt or several: string, token ids, `{"prompt": …}` or `{"prompt_token_ids": …}`; ValueError otherwise."""
    if isinstance(prompts, str | Mapping) or _is_ids(prompts) or not isinstance(prompts, Iterable):
        return [_encode_one(prompts, tokenizer)]
    return [_encode_one(prompt, tokenizer) for prompt in prompts]


def encode_chats(
    messages: Sequence[Message] | Sequence[Sequence[Message]], tokenizer: Any, *, continue_final_message: bool
) -> list[EncodedPrompt]:
    """One conversation or several through the model's chat template, ready for the assistant's next words."""
    chats: Any = [messages] if messages and isinstance(messages[0], Mapping) else messages
    return [encode_chat(chat, tokenizer, continue_final_message=continue_final_message) for chat in chats]


def encode_chat(chat: Sequence[Message], tokenizer: Any, *, continue_final_message: bool = False) -> EncodedPrompt:
    """One conversation through the model's chat template; ValueError where there is none or it refuses."""
    if not tokenizer.chat_template:
        raise ValueError("this model has no chat template; write the text it expects, and let it be completed")
    try:
        text = tokenizer.apply_chat_template(
            [dict(message) for message in chat],
            tokenize=False,
            add_generation_prompt=not continue_final_message,
            continue_final_message=continue_final_message,
        )
    except TemplateError as error:
        raise ValueError(f"the model's chat template refuses these messages: {error}") from error
    # The template writes the special tokens itself; the tokenizer must not add a second BOS.
    return EncodedPrompt(text=text, ids=tuple(tokenizer(text, add_special_tokens=False)["input_ids"]))


def _encode_one(prompt: object, tokenizer: Any) -> EncodedPrompt:
    match prompt:
        case str():
            return EncodedPrompt(text=prompt, ids=tuple(tokenizer(prompt)["input_ids"]))
        case {"prompt_token_ids": ids} if _is_ids(ids):
            return EncodedPrompt(text=None, ids=tuple(ids))
        case {"prompt": str(text)}:
            return EncodedPrompt(text=text, ids=tuple(tokenizer(text)["input_ids"]))
        case _ if _is_ids(prompt):
            return EncodedPrompt(text=None, ids=tuple(prompt))
    raise ValueError(
        f"{str(prompt)[:80]!r} is no prompt; give a string, a list of token ids, "
        'or {"prompt": "…"} or {"prompt_token_ids": […]}'
    )


def _is_ids(value: object) -> TypeGuard[Sequence[int]]:
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str | bytes)
        and len(value) > 0
        and all(isinstance(item, int) and not isinstance(item, bool) for item in value)
    )
