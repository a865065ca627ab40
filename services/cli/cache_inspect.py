"""paradraft cache inspect: the records of a directory of draft files, or the state of one file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cache_service.storage.namespace import directory_name
from protos.messages import Tokens
from services.cli.cache_cells import SHORT, day_and_time, in_words, iso, size
from services.cli.cache_options import AsJson, Only
from services.cli.failures import one_line_errors

if TYPE_CHECKING:
    from cache_service.storage.shelf import Shelf
    from cache_service.transfer.survey import FileSurvey, UsedRecord
    from services.cli.cache_words import Words


InWords = Callable[[Tokens], str]


@one_line_errors
def inspect(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A directory of draft files, or one .draft file.")],
    *,
    namespace: Only = None,
    limit: Annotated[int, typer.Option(min=1, help="Records of each namespace, the last used first.")] = 10,
    model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Show text instead of token ids, with this model's tokenizer.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what is stored: prefixes, and how texts went on after them.

    Of one file: whose it is, its records, and whether bytes of it have changed.
    """
    if path.is_file():
        if namespace is not None or model is not None:
            raise ValueError(f"{path} is one file, of which no records are shown; give its directory, or only the file")
        _print_file(path, as_json=as_json)
        return
    from services.cli.cache_words import Words

    words = None if model is None else Words(model)
    shown = _shown(path, namespace, limit)
    if as_json:
        typer.echo(json.dumps([_facts(shelf, kept, words) for shelf, kept in shown], indent=2))
        return
    console = Console(highlight=False)
    for shelf, kept in shown:
        _print_shelf(console, shelf, kept, words)
    if not shown:
        console.print(f"no drafts in {path} yet", soft_wrap=True)


def _shown(directory: Path, namespace: str | None, limit: int) -> list[tuple[Shelf, list[UsedRecord]]]:
    from cache_service.storage.directory import selected
    from cache_service.storage.store import Store
    from cache_service.transfer.survey import last_used

    wanted = selected(directory, namespace)
    with Store.open(directory, read_only=True) as store:
        return [(shelf, last_used(shelf, limit)) for shelf in store.shelves() if shelf.namespace in wanted]


def _print_shelf(console: Console, shelf: Shelf, kept: Sequence[UsedRecord], words: Words | None) -> None:
    totals = shelf.totals
    console.print(
        Text(directory_name(shelf.namespace)[:SHORT], style="bold"), in_words(shelf.namespace), soft_wrap=True
    )
    console.print(
        f"  {len(shelf):,} records, {size(shelf.num_bytes)}; {totals.lookups:,} look-ups, {totals.hits:,} with a hit, "
        f"{totals.accepted:,} tokens accepted",
        soft_wrap=True,
    )
    readable = words is not None and words.fits(shelf.namespace)
    if words is not None and not readable:
        console.print(f"  token ids, for {words.model} has another tokenizer", style="yellow", soft_wrap=True)
    show = words.text if words is not None and readable else _ids
    for each in kept:
        for line in _lines(each, show):
            console.print(line, soft_wrap=True)
    console.print()


def _lines(kept: UsedRecord, show: InWords) -> Iterator[Text]:
    record = kept.record
    used = f"used {day_and_time(kept.used)}, {kept.hits:,} hits, {kept.accepted:,} tokens accepted"
    yield Text.assemble("  ", (f"after {record.length:,} tokens", "bold"), f", {used}")
    yield Text.assemble("    … ", (show(record.context), "dim"))
    for path in sorted(record.paths, key=lambda path: -path.count):
        yield Text.assemble((f"{path.count:>8,} × ", "green"), show(path.tokens))


def _ids(tokens: Tokens) -> str:
    return " ".join(map(str, tokens))


def _facts(shelf: Shelf, kept: Sequence[UsedRecord], words: Words | None) -> dict[str, object]:
    show = words.text if words is not None and words.fits(shelf.namespace) else None
    return {
        "namespace": directory_name(shelf.namespace),
        **asdict(shelf.namespace),
        "records": len(shelf),
        "bytes": shelf.num_bytes,
        "totals": asdict(shelf.totals),
        "last_used": [_record_facts(each, show) for each in kept],
    }


def _record_facts(kept: UsedRecord, show: InWords | None) -> dict[str, object]:
    record = kept.record
    return {
        "digest": record.digest.hex(),
        "length": record.length,
        "used": iso(kept.used),
        "hits": kept.hits,
        "accepted": kept.accepted,
        "feature": record.feature is not None,
        **_spoken("context", record.context, show),
        "paths": [{"count": path.count, **_spoken("tokens", path.tokens, show)} for path in record.paths],
    }


def _spoken(name: str, tokens: Tokens, show: InWords | None) -> dict[str, object]:
    return {name: tokens} if show is None else {name: tokens, "text": show(tokens)}


def _print_file(path: Path, *, as_json: bool) -> None:
    from cache_service.transfer.survey import survey_file

    found = survey_file(path)
    if as_json:
        times = {"first": iso(found.first), "last": iso(found.last)}
        typer.echo(json.dumps(asdict(found) | times, indent=2))
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim")
    table.add_column()
    for name, said in _said(found):
        table.add_row(name, Text(said))
    Console(highlight=False).print(table)


def _said(found: FileSurvey) -> Iterator[tuple[str, str]]:
    yield "drafts of", in_words(found.namespace)
    yield "belongs to", directory_name(found.namespace)
    yield "size", size(found.num_bytes)
    yield "records", f"{found.records:,}, stored {day_and_time(found.first)} to {day_and_time(found.last)}"
    damage = f"{found.damaged_bytes:,} bytes at {found.damaged} places: the records there are lost, no others"
    yield "damage", damage if found.damaged else "none"
    if found.malformed:
        yield "no records", f"{found.malformed:,} frames are whole, but no records of this namespace"
    if found.tail_bytes:
        yield "unfinished", f"{found.tail_bytes:,} bytes of an append; the next writer cuts them off"
