"""Engine: one target, its batch, its drafter; a step is query, collect, plan, verify, settle."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence as Seq
from dataclasses import replace

from modeling.features import FeatureSlots, Fusion, Slots
from modeling.target import Target
from modeling.work import Forward, Work
from protos.interfaces import AsyncDrafter
from protos.messages import Finish, Request, RequestStats, Tokens, Verdict
from verifier.acceptance import Acceptance, RatioNoise, accept_match, accept_ratio
from verifier.admission import QueueFullError, admissible
from verifier.batcher import Batcher, Task
from verifier.counting import counts_of
from verifier.engine_config import EngineConfig
from verifier.engine_stats import EngineStats
from verifier.questions import Questions
from verifier.sequence import Sequence
from verifier.slot_pool import SlotPool
from verifier.target_rows import SequenceRows, VerifiedRows

logger = logging.getLogger(__name__)


class Engine:
    """`step` is called by one thread; `add`, `abort` and `stats` by any."""

    def __init__(
        self,
        target: Target,
        config: EngineConfig,
        drafter: AsyncDrafter | None = None,
        fusion: Fusion | None = None,
    ) -> None:
        runner = target.runner
        self._target = target
        self._config = config
        self._drafter = drafter
        self._features = None
        self._slots: list[Slots] = [runner]
        if fusion is not None:
            self._features = FeatureSlots(
                fusion, num_slots=runner.num_slots, max_len=runner.max_len, device=runner.device
            )
            self._slots.append(self._features)
        self._questions = Questions(self._features, limit=config.num_speculative_tokens)
        self._batcher = Batcher(SlotPool(target.runner.num_slots), config.max_num_batched_tokens)
        self._lock = threading.Lock()
        self._sequences: dict[str, Sequence] = {}
        self._aborted: set[str] = set()
        self._asked: list[Sequence] = []
        self._stats = EngineStats()

    def add(self, request: Request) -> None:
        """Queues a request. ValueError for one that can never run, QueueFullError where too many wait."""
        request = admissible(request, self._target)
        with self._lock:
            if request.request_id in self._sequences:
                raise ValueError(f"request_id {request.request_id!r} is running already; give another")
            if len(self._batcher.waiting) >= self._config.max_waiting + self._batcher.pool.num_free:
                raise QueueFullError(len(self._batcher.waiting))
            sequence = Sequence(request, self._target)
            self._sequences[request.request_id] = sequence
            self._batcher.waiting.append(sequence)

    def abort(self, request_id: str) -> None:
        """Ends a request before the next step; an unknown id does nothing."""
        with self._lock:
            if request_id in self._sequences:
                self._aborted.add(request_id)

    @property
    def has_work(self) -> bool:
        """True while a request is waiting or running."""
        return bool(self._sequences)

    def step(self) -> list[Verdict]:
        """Advances each decoding request by a token or more, prompts as far as rows are left; verdicts of the news."""
        began = time.perf_counter()
        verdicts = self._admit()
        self._query()
        self._collect()
        tasks = self._batcher.plan()
        if tasks:
            verdicts += self._settle(tasks, self._verify(tasks))
        self._stats.step_seconds += time.perf_counter() - began
        self._stats.steps += bool(tasks)
        return verdicts

    def stats(self) -> EngineStats:
        """A snapshot; counters since the engine was made."""
        running = list(self._batcher.running)
        capacity = self._target.runner.num_slots * self._target.runner.max_len
        return replace(
            self._stats,
            finished=self._stats.finished.copy(),
            num_requests_running=len(running),
            num_requests_waiting=len(self._batcher.waiting),
            kv_cache_usage=sum(len(s.tokens) for s in running) / capacity,
            drafter=self._drafter.status() if self._drafter else None,
        )

    def shutdown(self) -> None:
        """Ends the drafter's transport."""
        if self._drafter is not None:
            self._drafter.shutdown()

    def _admit(self) -> list[Verdict]:
        with self._lock:
            gone = [self._sequences[i] for i in self._aborted if i in self._sequences]
            self._aborted.clear()
            verdicts = [self._end(sequence, Finish.ABORT) for sequence in gone]
            admitted = self._batcher.admit()
        for sequence, lease in admitted:
            for slots in self._slots:
                slots.copy_rows(lease.source, lease.slot, lease.shared)
            self._stats.prompt_tokens += len(sequence.tokens)
            self._stats.prefix_cache_hits += lease.shared
        return verdicts

    def _query(self) -> None:
        self._asked = []
        if self._drafter is None:
            return
        questions = list(self._questions.of(filter(self._questions.wanted, self._batcher.running)))
        self._asked = [sequence for sequence, _ in questions]
        if questions:
            self._drafter.send([query for _, query in questions])

    def _collect(self) -> None:
        if self._drafter is None or not self._asked:
            return
        began = time.perf_counter()
        unanswered = {s.request_id for s in self._asked}
        for chunk in self._drafter.collect(time.monotonic() + self._config.draft_timeout_s):
            sequence = self._sequences.get(chunk.request_id)
            if sequence is not None:
                sequence.receive(chunk)
            if chunk.last:
                unanswered.discard(chunk.request_id)
        self._stats.unanswered_draft_queries += len(unanswered)
        self._stats.draft_seconds += time.perf_counter() - began

    def _verify(self, tasks: Seq[Task]) -> VerifiedRows | None:
        began = time.perf_counter()
        try:
            forward = self._forward([task.work for task in tasks])
            return VerifiedRows.of(forward.logits, on_host=any(task.sequence.looks_at_logits for task in tasks))
        except Exception:
            logger.exception("forward failed; its %d requests end with an error", len(tasks))
            return None
        finally:
            self._stats.forward_seconds += time.perf_counter() - began

    def _forward(self, works: Seq[Work]) -> Forward:
        if self._features is None:
            return self._target.runner.forward(works)
        forward = self._target.runner.forward(works, taps=self._features.fusion.layers)
        self._features.write(works, forward.taps)
        return forward

    def _settle(self, tasks: Seq[Task], verified: VerifiedRows | None) -> list[Verdict]:
        if verified is None:
            return [self._fail(task.sequence, "the target's forward failed") for task in tasks]
        verdicts, row = [], 0
        for task in tasks:
            rows = slice(row, row + task.work.num_logits)
            row = rows.stop
            verdict = self._settle_one(task, SequenceRows(task.sequence, verified, rows))
            if verdict is not None:
                verdicts.append(verdict)
        return verdicts

    def _settle_one(self, task: Task, rows: SequenceRows) -> Verdict | None:
        sequence, work = task.sequence, task.work
        if not work.num_logits:
            sequence.computed += len(work.tokens)
            return None
        base_len = len(sequence.tokens)
        try:
            accepted = self._accept(task, rows)
        except Exception:
            logger.exception("settling request %s failed", sequence.request_id)
            return self._fail(sequence, "acceptance failed")
        sequence.computed = base_len + len(accepted.path)
        for slots in self._slots:
            slots.keep_path(work.slot, base_len, accepted.path)
        counts = counts_of(proposed=len(sequence.draft), verified=task.draft, path=accepted.path)
        sequence.stats += RequestStats(speculation=counts, steps=1)
        self._stats.speculation += counts
        sequence.forget_draft()
        self._stats.generation_tokens += len(accepted.tokens)
        sources = tuple(task.draft.sources[node] for node in accepted.path)
        return self._verdict(sequence, accepted.tokens, sources)

    def _accept(self, task: Task, rows: SequenceRows) -> Acceptance:
        if self._config.acceptance == "match":
            return accept_match(task.draft, rows)
        params = task.sequence.request.params
        return accept_ratio(task.draft, rows, RatioNoise(seed=params.seed or 0, start=len(task.sequence.tokens)))

    def _verdict(self, sequence: Sequence, tokens: Tokens = (), sources: tuple[str, ...] = ()) -> Verdict:
        text, logprobs = sequence.take_news()
        verdict = Verdict(
            request_id=sequence.request_id,
            tokens=tokens,
            sources=sources + ("",) * (len(tokens) - len(sources)),
            text=text,
            finish=sequence.finish,
            stop_reason=sequence.stop_reason,
            logprobs=logprobs,
            stats=sequence.stats,
            error=sequence.error,
        )
        if sequence.finish is not None:
            self._retire(sequence)
        return verdict

    def _fail(self, sequence: Sequence, reason: str) -> Verdict:
        sequence.take_news()  # of tokens that were drawn before the failure, and that nobody will get
        sequence.error = reason
        return self._end(sequence, Finish.ERROR)

    def _end(self, sequence: Sequence, finish: Finish) -> Verdict:
        sequence.finish = finish
        return self._verdict(sequence)

    def _retire(self, sequence: Sequence) -> None:
        self._batcher.retire(sequence)
        self._sequences.pop(sequence.request_id, None)
        self._stats.finished[str(sequence.finish)] += 1
        if self._drafter is not None:
            self._drafter.close(sequence.request_id, tail_start=sequence.drafter_len, tail=sequence.ending)
