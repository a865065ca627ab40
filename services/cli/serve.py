"""paradraft serve: the OpenAI-compatible endpoint, on a Ray of its own or on the cluster of RAY_ADDRESS."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from services.cli.failures import one_line_errors
from services.cli.interruption import heed_stop_signals, wait_for_stop
from services.cli.options import ModelArgument, app_flags, with_options
from services.cli.values import merged
from services.config import AppArgs


@one_line_errors
@with_options(app_flags())
def serve(
    *,
    model: ModelArgument = None,
    config: Annotated[Path | None, typer.Option(help="YAML file with the keys below; options win over it.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show the logs of Ray and of its workers.")] = False,
    **options: Any,
) -> None:
    """Serve a model over HTTP with OpenAI's API.

    Starts Ray on this machine, or uses the cluster that RAY_ADDRESS names. Ctrl-C stops it.
    """
    args = AppArgs.model_validate(merged(model, options, config))
    console = Console(stderr=True, highlight=False)
    try:
        heed_stop_signals()
        with console.status("starting Ray") as status:
            from services.cli.cluster import deployed  # ray

            say = status.update if console.is_terminal else console.print  # a log gets lines
            with deployed(args, say=say, verbose=verbose) as url:
                status.stop()
                _greet(console, args, url)
                wait_for_stop()
    except KeyboardInterrupt:
        console.print("stopped")


def _greet(console: Console, args: AppArgs, url: str) -> None:
    from services.draft_files.configured import cached_part  # gRPC

    body = {"model": args.public_name, "messages": [{"role": "user", "content": "Why is the sky blue?"}]}
    key = "-H 'Authorization: Bearer YOUR_KEY' " if args.needs_key else ""
    drafts = f"drafts by {args.speculative_config.method}" if args.speculative_config else "no drafts"
    part = cached_part(args.speculative_config.drafter) if args.speculative_config else None
    drafts += f", draft files at {part.draft_files or part.address}" if part else ""
    console.print(
        f"[bold green]ready[/] {args.public_name} at [bold]{url}/v1[/], {drafts}; Ctrl-C stops it", soft_wrap=True
    )
    console.print(
        f"try: curl {url}/v1/chat/completions {key}-H 'Content-Type: application/json' -d '{json.dumps(body)}'",
        markup=False,
        soft_wrap=True,
    )
