"""paradraft cache serve: draft files as a service of their own, for drafters of several servers."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from drafters.cached_config import CachedConfig
from services.cli.cache_options import Directory
from services.cli.failures import one_line_errors
from services.cli.interruption import heed_stop_signals, ignore_stop_signals, wait_for_stop

DEFAULTS = CachedConfig(draft_files="DIR")


@one_line_errors
def serve(
    directory: Directory,
    *,
    address: Annotated[
        str,
        typer.Option(help="host:port, with port 0 for a free one, or unix:/path. Whoever reaches it sees all drafts."),
    ] = "127.0.0.1:50051",
    budget_bytes: Annotated[int, typer.Option(help="Bound of DIR.")] = DEFAULTS.budget_bytes,
    tenant_budget_bytes: Annotated[
        int | None, typer.Option(help="Bound of one tenant in it. Default: the same.")
    ] = DEFAULTS.tenant_budget_bytes,
    min_similarity: Annotated[
        float, typer.Option(help="Cosine of two features below which there is no hit.")
    ] = DEFAULTS.min_similarity,
) -> None:
    """Serve the draft files in a directory to drafters, over gRPC.

    Their speculative_config names the service by its address instead of a directory. Ctrl-C stops it.
    """
    # As a drafter would have it: the same values are right, and the same are said to be wrong.
    keys = CachedConfig(
        draft_files=str(directory),
        budget_bytes=budget_bytes,
        tenant_budget_bytes=tenant_budget_bytes,
        min_similarity=min_similarity,
    )
    console = Console(stderr=True, highlight=False)
    try:
        heed_stop_signals()
        _serve(console, keys, address)
    except KeyboardInterrupt:
        console.print("stopped")


def _serve(console: Console, keys: CachedConfig, address: str) -> None:
    """Returns by KeyboardInterrupt only, with everything that was received on the disk."""
    from services.draft_files.cache_server import CacheServer
    from services.draft_files.opening import directory_options, opened_pretriever

    options = directory_options(keys)
    assert options is not None, "the keys name a directory"
    with opened_pretriever(options) as pretriever:
        server = CacheServer(pretriever, address)
        try:
            server.start()
            console.print(
                f"[bold green]ready[/] {options.directory} at {server.address}; Ctrl-C stops it", soft_wrap=True
            )
            console.print(
                f'drafters find it by {{"method": "cached", "address": "{server.address}"}}',
                markup=False,
                soft_wrap=True,
            )
            wait_for_stop()
        finally:
            ignore_stop_signals()
            server.stop()
