"""paradraft generate: one answer, printed as it comes, with a look at who guessed what."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from protos.messages import Tokens
from protos.sampling_params import SamplingParams
from services.cli.failures import one_line_errors
from services.cli.help_texts import SAMPLING_HELP
from services.cli.options import ModelArgument, engine_flags, sampling_flags, with_options
from services.cli.values import given, merged
from services.config import EngineArgs

if TYPE_CHECKING:
    from services.offline import LLM

DEFAULTS: dict[str, Any] = {"temperature": 0.0, "max_tokens": 256}


@one_line_errors
@with_options([*sampling_flags(DEFAULTS), *engine_flags()])
def generate(
    *,
    model: ModelArgument = None,
    prompt: Annotated[
        str | None, typer.Option("--prompt", "-p", help="What to say. Default: read from a pipe.")
    ] = None,
    system: Annotated[str | None, typer.Option(help="System message before the prompt.")] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Continue the prompt as it is, without the chat template.")
    ] = False,
    show_drafts: Annotated[
        bool, typer.Option("--show-drafts", help="Colour each token by who guessed it, and sum up at the end.")
    ] = False,
    **options: Any,
) -> None:
    """Answer one prompt here, without a server; see who guessed what.

    Without --prompt it reads a text from a pipe.
    """
    text = _prompt(prompt)
    if raw and system is not None:
        raise ValueError("--system belongs to the chat template; leave out --raw, or write the text you want yourself")
    params = SamplingParams(**DEFAULTS | given(options, among=SAMPLING_HELP))
    args = EngineArgs.model_validate(merged(model, given(options, among=EngineArgs.model_fields)))
    with Console(stderr=True).status("loading the model") as status:
        llm = _load(args, status.update)
    with llm:
        _answer(llm, _token_ids(llm, text, system=system, raw=raw), params, show_drafts=show_drafts)


def _prompt(prompt: str | None) -> str:
    if prompt is None and sys.stdin.isatty():
        raise ValueError('nothing to answer; give --prompt "…" or pipe a text in')
    text = sys.stdin.read() if prompt is None else prompt
    if not text.strip():
        raise ValueError("the prompt is empty; give at least one word")
    return text


def _load(args: EngineArgs, say: Callable[[str], None]) -> LLM:
    from services.cli.loading import load
    from services.offline import LLM

    return LLM.on(load(args.target_spec(), say), args)


def _token_ids(llm: LLM, text: str, *, system: str | None, raw: bool) -> Tokens:
    from services.prompts import encode, encode_chats

    if raw:
        (encoded,) = encode(text, llm.get_tokenizer())
        return encoded.ids
    messages = [] if system is None else [{"role": "system", "content": system}]
    messages.append({"role": "user", "content": text})
    (encoded,) = encode_chats(messages, llm.get_tokenizer(), continue_final_message=False)
    return encoded.ids


def _answer(llm: LLM, prompt_ids: Tokens, params: SamplingParams, *, show_drafts: bool) -> None:
    from services.cli.draft_view import DraftView

    view = DraftView(Console(highlight=False), llm.get_tokenizer(), prompt_ids) if show_drafts else None
    began = time.monotonic()
    for verdict in llm.stream(prompt_ids, params):
        if verdict.error is not None:
            raise RuntimeError(f"generation failed: {verdict.error}")
        if view is None:
            sys.stdout.write(verdict.text)
            sys.stdout.flush()
        else:
            view.show(verdict)
    sys.stdout.write("\n")
    if view is not None:
        view.sum_up(seconds=time.monotonic() - began)
