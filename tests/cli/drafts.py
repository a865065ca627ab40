"""A directory of draft files for the commands, with two tenants' records."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.harness.tiny import byte_tokenizer
from cache_service.storage.record import Record
from cache_service.storage.store import Store
from modeling.fingerprint import tokenizer_print
from protos.draft_files import Namespace
from protos.draft_files import Path as Way
from protos.messages import Tokens
from services.prompts import encode_chat
from tests.fakes.draft_files import digest_of

TOKENIZER = tokenizer_print(byte_tokenizer().backend_tokenizer.to_str())
ANNA = Namespace(tenant="anna", fingerprint="f1", tokenizer=TOKENIZER, feature="layer 1, mean", width=4)
BOB = Namespace(tenant="bob", fingerprint="f1", tokenizer=TOKENIZER)
BUDGET = 2**30
ENGINE = ["--dtype", "fp32", "--device", "cpu", "--threads", "1", "--max-model-len", "4096"]
SMALL = [*ENGINE, "--max-tokens", "24"]


def record(context: str, *paths: tuple[str, int], feature: bool = False) -> Record:
    """Of texts whose tokens are their bytes."""
    tokens = tuple(context.encode())
    return Record(
        digest=digest_of(tokens),
        length=len(tokens),
        context=tokens[-32:],
        paths=tuple(Way(tokens=tuple(text.encode()), count=count) for text, count in paths),
        feature=np.array([1, 2, 3, 4], np.float16) if feature else None,
    )


def fill(directory: Path) -> None:
    """Two records of Anna's, of which the first was found, one of Bob's."""
    with Store.open(directory, budget_bytes=BUDGET) as store:
        anna = store.shelf(ANNA)
        (first, _) = anna.append(
            [record("how are", (" you?", 3), (" things", 1), feature=True), record("thank", (" you so much", 2))]
        )
        anna.tally(lookups=5, hits=1)
        anna.touch(first, hits=1, accepted=6)
        store.shelf(BOB).append([record("bob says", (" nothing", 1))])


def stored(directory: Path) -> dict[Namespace, dict[str, dict[str, int]]]:
    """Context → path → count, of each namespace."""
    with Store.open(directory, budget_bytes=BUDGET, read_only=True) as store:
        return {shelf.namespace: dict(map(_texts, shelf.records())) for shelf in store.shelves()}


def ids_of(question: str) -> Tokens:
    """A user's turn as the model sees it."""
    return encode_chat([{"role": "user", "content": question}], byte_tokenizer()).ids


def records(directory: Path) -> tuple[Namespace, dict[bytes, Record]]:
    """Of the only namespace, by digest."""
    with Store.open(directory, budget_bytes=BUDGET, read_only=True) as store:
        (shelf,) = store.shelves()
        return shelf.namespace, {each.digest: each for each in shelf.records()}


def _texts(found: Record) -> tuple[str, dict[str, int]]:
    return bytes(found.context).decode(), {bytes(path.tokens).decode(): path.count for path in found.paths}
