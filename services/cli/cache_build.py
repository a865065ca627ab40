"""paradraft cache build: draft files prepared ahead of traffic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from cache_service.storage.namespace import directory_name
from services.cli.bars import BuildBar, LotBar
from services.cli.cache_cells import SHORT, in_words, size
from services.cli.failures import one_line_errors
from services.cli.help_texts import BUILD_HELP, ENGINE_HELP
from services.cli.options import Flag, ModelArgument, engine_flags, with_options
from services.cli.values import default_drafter, given
from services.config import EngineArgs

if TYPE_CHECKING:
    from modeling.target import Target
    from protos.messages import Tokens
    from services.draft_building.build_config import BuildConfig
    from services.draft_building.builder import Builder, Plan
    from services.draft_building.prompt_file import GivenPrompt

DRAWING = {"paths": 1, "temperature": 0.8, "top_p": 0.95, "max_tokens": 256}
KINDS: Mapping[str, Any] = {"prompts": Path, "raw": bool, "paths": int, "max_tokens": int, "budget_bytes": int}


def build_flags() -> list[Flag]:
    """What is said of prompts and of what follows them."""
    kinds = {"temperature": float, "top_p": float, **KINDS}
    return [
        Flag(
            name=name,
            kind=kinds.get(name, str),
            help=text,
            panel="Drafts",
            default=str(DRAWING[name]) if name in DRAWING else None,
        )
        for name, text in BUILD_HELP.items()
    ]


@one_line_errors
@with_options([*build_flags(), *(flag for flag in engine_flags() if flag.name != "draft_files")])
def build(
    *,
    model: ModelArgument = None,
    draft_files: Annotated[Path, typer.Option(metavar="DIR", help="Where the draft files are, or are to be.")],
    author: Annotated[
        str,
        typer.Option(
            metavar="target|METHOD",
            help="target: MODEL answers each prompt. A trained drafter: its own draft is stored, and nothing answered.",
        ),
    ] = "target",
    **options: Any,
) -> None:
    """Write drafts for prompts before anybody asks.

    A second call goes on where the first one stopped.
    """
    if options["prompts"] is None and options["warm_from"] is None:
        raise ValueError("there is nothing to build from; give --prompts FILE, or --warm-from ID")
    config = _config(model, draft_files, author, options)
    _check_effect(author, options)
    from services.draft_building.builder import Drawing
    from services.draft_building.prompt_file import read_prompts

    drawing = Drawing(**{**DRAWING, **given(options, among=DRAWING)})
    prompts = [] if options["prompts"] is None else read_prompts(options["prompts"], raw=bool(options["raw"]))
    console = Console(stderr=True, highlight=False)
    with _opened(console, config, draft_files, options) as builder:
        if prompts:
            _build(console, builder, builder.plan(_encoded(console, prompts, builder.target), drawing))
        shelf = builder.shelf
        name = f"{directory_name(shelf.namespace)[:SHORT]} ({in_words(shelf.namespace)})"
        console.print(f"{len(shelf):,} records, {size(shelf.num_bytes)} in {name}", soft_wrap=True)


def _check_effect(author: str, options: Mapping[str, Any]) -> None:
    """ValueError for an option that would change nothing."""
    if author != "target" and options["max_tokens"] is not None:
        raise ValueError(f"--max-tokens is of answers, and --author {author} writes none; leave it out")
    for name in ("temperature", "top_p"):
        if options[name] is not None and (options["paths"] or DRAWING["paths"]) == 1:
            flag = "--" + name.replace("_", "-")
            raise ValueError(f"{flag} is {options[name]}, but the first path is the likeliest; give --paths 2 or more")


@contextmanager
def _opened(console: Console, config: BuildConfig, directory: Path, options: Mapping[str, Any]) -> Iterator[Builder]:
    """Over the loaded model; with what another version of it has, where that is wished."""
    from cache_service.storage.directory import find
    from cache_service.storage.store import Store
    from services.cli.loading import load
    from services.draft_building.builder import Builder

    older = None if options["warm_from"] is None else find(directory, options["warm_from"])
    with Store.open(
        directory, budget_bytes=config.budget_bytes, tenant_budget_bytes=config.tenant_budget_bytes
    ) as store:
        with console.status("loading the model") as status:
            target = load(config.args.target_spec(), status.update)
        builder = Builder(store, config, target, tenant=options["tenant"] or "")
        if older is not None:
            with LotBar(console, "records", len(store.shelf(older))) as bar:
                merged = builder.warm(older, bar.saw)
            console.print(f"{merged.stored:,} records taken over, {merged.known:,} known already", soft_wrap=True)
        yield builder


def _config(model: str | None, directory: Path, author: str, options: Mapping[str, Any]) -> BuildConfig:
    from services.draft_building.build_config import TARGET, BuildConfig

    engine = given(options, among=ENGINE_HELP)
    engine["model"] = model or EngineArgs.model_fields["model"].default
    if author == TARGET:
        engine.setdefault("speculative_config", default_drafter(engine["model"]))
    return BuildConfig.of(engine, directory=directory, author=author, budget_bytes=options["budget_bytes"])


def _encoded(console: Console, prompts: list[GivenPrompt], target: Target) -> list[Tokens]:
    with console.status("reading prompts"):
        return [prompt.ids(target.tokenizer) for prompt in prompts]


def _build(console: Console, builder: Builder, plan: Plan) -> None:
    if plan.too_long:
        console.print(f"{plan.too_long:,} prompts left out: too long for the model, with what would follow them")
    if plan.done:
        console.print(f"{plan.done:,} of {plan.done + len(plan.tasks):,} are done already, by an earlier build")
    if not plan.tasks:
        return
    with BuildBar(console, len(plan.tasks)) as bar:
        try:
            for count in builder.run(plan):
                bar.saw(count)
        except KeyboardInterrupt:
            bar.stop()
            console.print(f"stopped: {bar.done:,} of {len(plan.tasks):,} are done and kept; the same command goes on")
            raise
