"""paradraft cache ls: what a directory of draft files holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from services.cli.cache_cells import NOBODY, day_and_time, iso, kind_of, size
from services.cli.cache_options import AsJson, Directory
from services.cli.failures import one_line_errors

if TYPE_CHECKING:
    from cache_service.transfer.survey import NamespaceSurvey

COLUMNS = ("namespace", "tenant", "model", "tokenizer", "features", "last used")
ID_DIGITS = 8  # of an id in the table
LEAST_WIDTH = 120  # of the table: a line that a terminal wraps can be read, a cell that is cut cannot
IDS = ("namespace", "model", "tokenizer")
NUMBERS = ("files", "records", "paths", "size", "hits")


@one_line_errors
def ls(directory: Directory, *, as_json: AsJson = False) -> None:
    """List whose drafts there are, of which model, and how much they are used.

    Reads beside a running server; hits are those that it has written down.
    """
    from cache_service.transfer.survey import survey

    found = survey(directory)
    if as_json:
        typer.echo(json.dumps([_facts(each) for each in found], indent=2))
        return
    console = Console(highlight=False)
    console.width = max(console.width, LEAST_WIDTH)
    if not found:
        console.print(f"no drafts in {directory} yet", soft_wrap=True)
        return
    console.print(_table(found))
    records, num_bytes = sum(each.records for each in found), sum(each.num_bytes for each in found)
    console.print(f"\n{records:,} records, {size(num_bytes)}", style="dim")


def _table(found: list[NamespaceSurvey]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in COLUMNS[:-1]:
        table.add_column(name, no_wrap=name in IDS)
    for name in NUMBERS:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(COLUMNS[-1])
    for each in found:
        namespace, totals = each.namespace, each.totals
        names = (each.id[:ID_DIGITS], namespace.tenant or NOBODY, namespace.fingerprint[:ID_DIGITS])
        made = (namespace.tokenizer[:ID_DIGITS], kind_of(namespace))
        counts = (f"{each.files:,}", f"{each.records:,}", f"{each.paths:,}", size(each.num_bytes), f"{totals.hits:,}")
        table.add_row(*(Text(cell) for cell in (*names, *made, *counts, day_and_time(each.last_used))))
    return table


def _facts(each: NamespaceSurvey) -> dict[str, object]:
    namespace, totals = each.namespace, each.totals
    return {
        "namespace": each.id,
        "tenant": namespace.tenant,
        "fingerprint": namespace.fingerprint,
        "tokenizer": namespace.tokenizer,
        "feature": namespace.feature,
        "width": namespace.width,
        "files": each.files,
        "records": each.records,
        "paths": each.paths,
        "bytes": each.num_bytes,
        "lookups": totals.lookups,
        "hits": totals.hits,
        "accepted": totals.accepted,
        "insertions": totals.insertions,
        "evictions": totals.evictions,
        "last_used": iso(each.last_used),
    }
