"""paradraft cache export, paradraft cache import: draft files as one file, to keep or to carry elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from cache_service.storage.budgets import UNBOUNDED
from services.cli.bars import LotBar
from services.cli.cache_cells import SHORT, in_words, size
from services.cli.cache_options import Directory, Only
from services.cli.failures import one_line_errors
from services.cli.options import Flag, with_options
from services.cli.values import given

if TYPE_CHECKING:
    from cache_service.transfer.archive import Archive
    from cache_service.transfer.destination import Destination, Feature
    from protos.draft_files import Namespace


@one_line_errors
def export(
    directory: Directory,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Written anew; an earlier export there is replaced.")],
    *,
    namespace: Only = None,
) -> None:
    """Write draft files into one portable file with checksums.

    Reads beside a running server.
    """
    from cache_service.storage.directory import selected
    from cache_service.storage.store import Store
    from cache_service.transfer.archive import write_archive

    console = Console(stderr=True, highlight=False)
    wanted = selected(directory, namespace)
    if not wanted:
        raise ValueError(f"there are no drafts in {directory} yet; give the directory of a server or of a build")

    with Store.open(directory, read_only=True) as store:
        shelves = [shelf for shelf in store.shelves() if shelf.namespace in wanted]
        with LotBar(console, "records", sum(map(len, shelves))) as bar:
            count = write_archive(file, shelves, bar.saw)
    counted = "1 namespace" if len(wanted) == 1 else f"{len(wanted)} namespaces"
    console.print(f"{count:,} records of {counted} in {file}, {size(file.stat().st_size)}", soft_wrap=True)


IMPORT_HELP = {
    "tenant": "Give the drafts to this tenant instead.",
    "fingerprint": "Warm another model of the same tokenizer: its fingerprint, or the beginning of a known one.",
    "tokenizer": "That model's tokenizer, where DIR has nothing of the model yet.",
    "feature": "How its prefixes have features, such as 'layer 29, last'; none for none.",
    "budget_bytes": "Bound of DIR; beyond it the least recently used goes. Default: no bound.",
}


@one_line_errors
@with_options(
    Flag(name=name, kind=int if name == "budget_bytes" else str, help=text, panel="Where to")
    for name, text in IMPORT_HELP.items()
)
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="As export wrote it.")],
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Directory of draft files; made where it is absent.")
    ],
    *,
    namespace: Only = None,
    **options: Any,
) -> None:
    """Add the records of an export to a directory; those that are there already count once.

    To another model go tokens and counts. Hits start again, and features stay behind: they are the old model's states.
    """
    from cache_service.transfer.archive import Archive

    archive, console = Archive(file), Console(stderr=True, highlight=False)
    if archive.lost != 0:
        lost = "the end" if archive.lost is None else f"{archive.lost:,} records"
        console.print(f"{file}: {lost} cannot be read; the rest is whole", style="yellow", soft_wrap=True)
    goal, budget_bytes = _goal(directory, archive, given(options)), options["budget_bytes"]
    into = (directory, UNBOUNDED if budget_bytes is None else budget_bytes)
    _import(console, archive, _chosen(archive, namespace), goal, into)


def _goal(directory: Path, archive: Archive, options: Mapping[str, Any]) -> Destination:
    from cache_service.storage.directory import namespaces
    from cache_service.transfer.destination import Destination, completed, tokenizer_of

    fingerprint, tokenizer, feature = (options.get(name) for name in ("fingerprint", "tokenizer", "feature"))
    if tokenizer is not None and fingerprint is None:
        raise ValueError(f"--tokenizer {tokenizer} is of another model; give its --fingerprint too, or leave it out")
    there = list(namespaces(directory).values()) if directory.is_dir() else []
    known = [*there, *archive.namespaces]
    if fingerprint is not None:
        fingerprint = completed(fingerprint, (each.fingerprint for each in known), what="--fingerprint")
    if tokenizer is not None:
        tokenizer = completed(tokenizer, (each.tokenizer for each in known), what="--tokenizer")
    elif fingerprint is not None:
        tokenizer = tokenizer_of(fingerprint, known)
    return Destination(
        tenant=options.get("tenant"),
        fingerprint=fingerprint,
        tokenizer=tokenizer,
        feature=None if feature is None else _feature(feature),
    )


def _feature(name: str) -> Feature:
    from cache_service.transfer.destination import Feature
    from drafters.prefix_features import WIDTH

    return Feature(name="", width=0) if name == "none" else Feature(name=name, width=WIDTH)


def _chosen(archive: Archive, beginning: str | None) -> list[int]:
    """Places of the namespaces to import."""
    from cache_service.storage.directory import find_id
    from cache_service.storage.namespace import directory_name

    ids = [directory_name(each) for each in archive.namespaces]
    return list(range(len(ids))) if beginning is None else [ids.index(find_id(ids, beginning, where="this file"))]


def _import(
    console: Console, archive: Archive, chosen: Sequence[int], goal: Destination, into: tuple[Path, int]
) -> None:
    from cache_service.storage.namespace import directory_name
    from cache_service.storage.store import Store
    from cache_service.transfer.destination import carried
    from cache_service.transfer.merging import Merged, merge

    directory, budget_bytes = into
    pairs = [(archive.namespaces[place], goal.of(archive.namespaces[place])) for place in chosen]
    merged: dict[Namespace, Merged] = {}
    with (
        Store.open(directory, budget_bytes=budget_bytes) as store,
        LotBar(console, "records", sum(archive.counts[place] for place in chosen)) as bar,
    ):
        for place, (source, target) in zip(chosen, pairs, strict=True):
            records = (carried(record, source, target) for record in archive.records(place))
            done = merge(store.shelf(target), records, bar.saw)
            merged[target] = merged.get(target, Merged()) + done
    for target, done in merged.items():
        name = directory_name(target)[:SHORT]
        console.print(
            f"{done.stored:,} records stored and {done.known:,} known already in {name} ({in_words(target)})",
            soft_wrap=True,
        )
