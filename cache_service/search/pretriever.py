"""Pretriever: finds stored prefixes that are like those of running requests, and how texts went on after them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cache_service.search.shelf_index import Found, Rules, ShelfIndex, Stages
from cache_service.search.vectors import Unit, unit
from cache_service.storage.paths import take
from cache_service.storage.record import Record
from cache_service.storage.shelf import Shelf
from cache_service.storage.store import Store
from cache_service.storage.usage import NamespaceMetrics
from protos.draft_files import (
    CONTEXT,
    MAX_PATH,
    MIN_PATH,
    Continuation,
    Credit,
    Findings,
    Hit,
    Namespace,
    Prefix,
    Question,
)


@dataclass(slots=True)
class _Searched:
    shelf: Shelf
    index: ShelfIndex
    added: int = 0
    short: int = 0


class Pretriever:
    """One thread adds at a time, others that add wait for it; look-ups and credits wait for nobody.

    But the first use of a namespace builds its indexes from its shelf, and whoever asks then waits for them.
    """

    def __init__(
        self,
        store: Store,
        *,
        min_similarity: float,
        max_candidates: int = 64,
        max_hits: int = 4,
        stages: Stages = Stages.BOTH,
    ) -> None:
        """min_similarity: cosine in [-1, 1]. ValueError where a number makes no sense."""
        if not -1 <= min_similarity <= 1:
            raise ValueError(f"min_similarity is {min_similarity}, but a cosine is from -1 to 1")
        if not 1 <= max_hits <= max_candidates:
            raise ValueError(f"max_hits is {max_hits}: choose from 1 to max_candidates, which is {max_candidates}")
        self._store = store
        self._rules = Rules(
            stages=stages, min_similarity=min_similarity, max_candidates=max_candidates, max_hits=max_hits
        )
        self._searched: dict[Namespace, _Searched] = {}
        self._writing = threading.Lock()
        store.on_evict(self._note_evicted)

    def look_up(self, questions: Sequence[Question]) -> list[Findings]:
        """Findings in the questions' order. ValueError on a feature of another width than its namespace's."""
        findings = [self._look_up(question) for question in questions]
        asked = Counter(question.namespace for question in questions)
        hit = Counter(q.namespace for q, found in zip(questions, findings, strict=True) if found.hits)
        for namespace, count in asked.items():
            self._searched_of(namespace).shelf.tally(lookups=count, hits=hit[namespace])
        return findings

    def add(self, continuations: Sequence[Continuation]) -> None:
        """Takes in how texts went on; on return it is on disk. ValueError on a bad feature: then nothing is."""
        by_namespace: dict[Namespace, list[tuple[Continuation, Unit | None]]] = {}
        for item in continuations:
            feature = _unit(item.prefix, item.namespace)
            by_namespace.setdefault(item.namespace, []).append((item, feature))
        for namespace, items in by_namespace.items():
            searched = self._searched_of(namespace)
            with self._writing:
                self._add(searched, items)

    def credit(self, earned: Iterable[Credit]) -> None:
        """Counts tokens for the prefixes they were drafted from; one that was evicted meanwhile gets nothing."""
        for item in earned:
            shelf = self._searched_of(item.namespace).shelf
            row = shelf.row_of(item.digest)
            if row is not None:
                shelf.touch(row, accepted=item.accepted)

    def metrics(self) -> dict[Namespace, NamespaceMetrics]:
        """Of each namespace used since the start."""
        return {
            namespace: NamespaceMetrics(
                records=len(of.shelf),
                num_bytes=of.shelf.num_bytes,
                index_bytes=of.index.num_bytes,
                kind=of.index.kind,
                lookups=of.shelf.totals.lookups,
                hits=of.shelf.totals.hits,
                added=of.added,
                short=of.short,
                accepted=of.shelf.totals.accepted,
            )
            for namespace, of in list(self._searched.items())
        }

    def settle(self) -> None:
        """Waits until all indexes are made."""
        for searched in list(self._searched.values()):
            searched.index.settle()

    def close(self) -> None:
        """Before the store is closed: no index is made any more."""
        for searched in list(self._searched.values()):
            searched.index.close()

    def _searched_of(self, namespace: Namespace) -> _Searched:
        searched = self._searched.get(namespace)
        if searched is None:
            with self._writing:
                searched = self._searched.get(namespace)
                if searched is None:
                    shelf = self._store.shelf(namespace)
                    searched = _Searched(shelf, ShelfIndex(shelf, self._rules))
                    self._searched[namespace] = searched
        return searched

    def _look_up(self, question: Question) -> Findings:
        searched = self._searched_of(question.namespace)
        found = searched.index.search(question.prefix, _unit(question.prefix, question.namespace))
        # One without a record had to make room meanwhile, or its bytes are damaged.
        kept = [(one, record) for one in found if (record := searched.shelf.record(one.row)) is not None]
        if kept:
            searched.shelf.touch(*(one.row for one, _ in kept), hits=1)
        hits = [_hit(record, one) for one, record in kept]
        return Findings(request_id=question.request_id, length=question.prefix.length, hits=tuple(hits))

    def _add(self, searched: _Searched, items: Sequence[tuple[Continuation, Unit | None]]) -> None:
        shelf = searched.shelf
        changed: dict[bytes, Record] = {}
        superseded = 0
        for item, feature in items:
            if len(item.tokens) < MIN_PATH:
                searched.short += 1
                continue
            searched.added += 1
            digest = item.prefix.digest
            row = None if digest in changed else shelf.row_of(digest)
            stored = None if row is None else shelf.record(row)
            old = changed.get(digest) or stored or _empty(item.prefix)
            taken = take(old.paths, tuple(item.tokens[:MAX_PATH]))
            new_feature = old.feature is None and feature is not None
            if row is not None and stored is old and not taken.changed and not new_feature:
                shelf.count(row, taken.place)
            else:
                half = _half(feature) if old.feature is None else old.feature
                superseded += stored is not None
                changed[digest] = replace(old, paths=taken.paths, feature=half)
        if changed:
            rows = shelf.append(list(changed.values()))
            searched.index.note_dead(superseded)
            searched.index.add(np.array(rows, np.int64))

    def _note_evicted(self, namespace: Namespace, rows: NDArray[np.int64]) -> None:
        searched = self._searched.get(namespace)
        if searched is not None:
            searched.index.note_dead(len(rows))


def _unit(prefix: Prefix, namespace: Namespace) -> Unit | None:
    return None if prefix.feature is None else unit(prefix.feature, namespace.width)


def _half(feature: Unit | None) -> NDArray[np.float16] | None:
    return None if feature is None else feature.astype(np.float16)


def _empty(prefix: Prefix) -> Record:
    return Record(digest=prefix.digest, length=prefix.length, context=tuple(prefix.tokens[-CONTEXT:]), paths=())


def _hit(record: Record, found: Found) -> Hit:
    paths = sorted(record.paths, key=lambda path: -path.count)
    return Hit(
        digest=record.digest,
        context=record.context,
        paths=tuple(paths),
        match_length=found.match_length,
        similarity=found.similarity,
    )
