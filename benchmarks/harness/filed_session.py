"""FiledSession: a session whose drafter keeps its memory from run to run, draft files included, and what those cost."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.harness.loading import DTYPE_NAMES
from benchmarks.harness.session import Run, Session
from cache_service.search.pretriever import Pretriever
from cache_service.storage.store import Store
from cache_service.storage.usage import NamespaceMetrics
from drafters.cached_config import CachedConfig
from drafters.registry import build_drafter, parts_of
from modeling.target import Target
from protos.draft_files import Continuation, Credit, DraftFilesStatus, Findings, Namespace, Question
from protos.interfaces import Drafter
from protos.messages import DraftChunk, DraftQuery, Tokens
from protos.sampling_params import SamplingParams
from services.config import EngineArgs
from services.draft_files.local import LocalDraftFiles
from services.in_process import drafter_context, fusion_for
from services.transports.local import LocalDrafter
from verifier.engine import Engine

TENANT = "repeating"
BUDGET_BYTES = 2**30


class _OneTenant:
    """A Drafter that takes all requests for those of one tenant. The engine must not: every run is its own tenant, so
    that no run finds another's keys and values, which engines of one target overwrite."""

    def __init__(self, drafter: Drafter) -> None:
        self._drafter = drafter

    def draft(self, queries: Sequence[DraftQuery]) -> Iterator[DraftChunk]:
        return self._drafter.draft([replace(query, tenant=TENANT) for query in queries])

    def close(self, request_id: str, *, tail_start: int = 0, tail: Tokens = ()) -> None:
        self._drafter.close(request_id, tail_start=tail_start, tail=tail)


@dataclass(slots=True)
class TimedPretriever:
    """Milliseconds that a pretriever took: each question's own, and all additions together."""

    inner: Pretriever
    look_up_ms: list[float] = field(default_factory=list)
    add_ms: float = 0.0

    def look_up(self, questions: Sequence[Question]) -> list[Findings]:
        findings = []
        for question in questions:
            begun = time.perf_counter()
            findings += self.inner.look_up([question])
            self.look_up_ms.append((time.perf_counter() - begun) * 1e3)
        return findings

    def add(self, continuations: Sequence[Continuation]) -> None:
        begun = time.perf_counter()
        self.inner.add(continuations)
        self.add_ms += (time.perf_counter() - begun) * 1e3

    def credit(self, earned: Sequence[Credit]) -> None:
        self.inner.credit(earned)

    def metrics(self) -> Mapping[Namespace, NamespaceMetrics]:
        return self.inner.metrics()


class WatchedFiles:
    """DraftFiles that tell when all that was added is stored."""

    def __init__(self, files: LocalDraftFiles) -> None:
        self._files = files
        self._sent = 0

    def ask(self, questions: Sequence[Question]) -> None:
        self._files.ask(questions)

    def answers(self) -> list[Findings]:
        return self._files.answers()

    def add(self, continuations: Sequence[Continuation]) -> None:
        self._sent += len(continuations)
        self._files.add(continuations)

    def credit(self, earned: Sequence[Credit]) -> None:
        self._files.credit(earned)

    def status(self) -> DraftFilesStatus:
        return self._files.status()

    def close(self) -> None:
        self._files.close()

    def settle(self) -> None:
        """Waits for what was added. RuntimeError where any of it was lost, or a look-up failed."""
        while (status := self.status()).counters["additions"] < self._sent:
            if not status.up or status.counters["errors"] or status.counters["dropped_additions"]:
                raise RuntimeError(f"draft files failed: {status}")
            time.sleep(1e-4)
        if status.counters["errors"]:
            raise RuntimeError(f"draft files failed: {status}")


class FiledSession:
    """An engine of its own over a target that several share. `directory`: where its draft files lie, if it has any.

    A context manager: at its end the draft files are closed.
    """

    def __init__(self, target: Target, speculative_config: Mapping[str, Any] | None, directory: Path) -> None:
        config = speculative_config and _with_directory(speculative_config, directory)
        args = EngineArgs.model_validate(
            {
                "model": target.name,
                "dtype": DTYPE_NAMES[target.dtype],
                "device": str(target.runner.device),
                "max_num_seqs": target.runner.num_slots,
                "speculative_config": config and {**config, "transport": "local"},
            }
        )
        self._closing = ExitStack()
        self._files: WatchedFiles | None = None
        self.pretriever: TimedPretriever | None = None
        drafter = self._drafter(args, target, directory)
        self._session = Session(Engine(target, args.engine_config(), drafter, fusion_for(args, target)))

    def run(self, prompts: Sequence[Tokens], params: SamplingParams, *, concurrency: int) -> tuple[Run, float]:
        """See Session.run. Then waits until the answers are stored: the milliseconds that it took to store them."""
        before = self.pretriever.add_ms if self.pretriever else 0.0
        run = self._session.run(prompts, params, concurrency=concurrency)
        if self._files is None or self.pretriever is None:
            return run, 0.0
        self._files.settle()
        return run, self.pretriever.add_ms - before

    def __enter__(self) -> FiledSession:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def _drafter(self, args: EngineArgs, target: Target, directory: Path) -> LocalDrafter | None:
        if args.speculative_config is None:
            return None
        config, ends = args.speculative_config.drafter, target.runner.ends
        context = replace(
            drafter_context(args, target, threads=args.threads), embedding=ends.embedding, lm_head=ends.lm_head
        )
        for part in parts_of(config):
            if isinstance(part, CachedConfig):
                store = self._closing.enter_context(Store.open(directory, budget_bytes=BUDGET_BYTES))
                pretriever = self._closing.enter_context(closing(Pretriever(store, min_similarity=part.min_similarity)))
                self.pretriever = TimedPretriever(pretriever)
                self._files = WatchedFiles(LocalDraftFiles(self.pretriever))
                self._closing.callback(self._files.close)
                context = replace(context, draft_files=self._files)
        return LocalDrafter(_OneTenant(build_drafter(config, context)))


def _with_directory(config: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """The configuration with the directory in its cached part."""
    if config["method"] == "cached":
        return {**config, "draft_files": str(directory)}
    if "drafters" in config:
        return {**config, "drafters": [_with_directory(part, directory) for part in config["drafters"]]}
    return dict(config)
