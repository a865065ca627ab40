"""Batcher: which sequences run, and how the rows of a step are shared among them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence as Seq
from dataclasses import dataclass

from modeling.work import Work
from protos.draft import ANCHOR, Draft
from verifier.sequence import Sequence
from verifier.slot_pool import Lease, SlotPool


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A sequence's part of a step: its work, and the draft nodes that are verified in it."""

    sequence: Sequence
    work: Work
    draft: Draft


class Batcher:
    """Admits waiting sequences to free slots, first come first served, and plans steps of at most `max_rows` rows.

    Every decoding sequence gets its own token's row in every step. While prompts are waiting to be processed half of
    the rows are theirs, so neither a long prompt starves running streams nor do drafts starve a prompt.
    """

    def __init__(self, pool: SlotPool, max_rows: int) -> None:
        if max_rows < 2 * pool.num_slots:
            raise ValueError(
                f"max_num_batched_tokens is {max_rows}; with {pool.num_slots} sequences it must be at least "
                f"{2 * pool.num_slots}, a row to decode and a row to prefill for each"
            )
        self.pool = pool
        self.max_rows = max_rows
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []

    def admit(self) -> list[tuple[Sequence, Lease]]:
        """Moves waiting sequences into free slots; returns them with what each was given."""
        admitted: list[tuple[Sequence, Lease]] = []
        while self.waiting and self.pool.num_free:
            sequence = self.waiting.popleft()
            lease = self.pool.acquire(sequence.request.tenant, sequence.tokens)
            sequence.start(lease)
            self.running.append(sequence)
            admitted.append((sequence, lease))
        return admitted

    def plan(self) -> list[Task]:
        """Tasks of one step, in slot order."""
        decoding = [s for s in self.running if s.decoding]
        prefilling = [s for s in self.running if not s.decoding]
        reserved = self.max_rows // 2 if prefilling else 0
        room = max(self.max_rows - reserved - len(decoding), 0)
        shares = _likeliest(decoding, room)
        tasks = [_verification(s, s.draft.best_prefix(shares[i])) for i, s in enumerate(decoding)]
        left = self.max_rows - sum(len(t.work.tokens) for t in tasks)
        for sequence in prefilling:
            if left > 0:
                tasks.append(_prefill(sequence, left))
                left -= len(tasks[-1].work.tokens)
        return sorted(tasks, key=lambda t: t.work.slot)

    def retire(self, sequence: Sequence) -> None:
        """Frees the slot; the computed committed tokens stay in it as a prefix for later sequences."""
        if sequence in self.running:
            self.running.remove(sequence)
            self.pool.release(sequence.slot, sequence.request.tenant, sequence.tokens[: sequence.computed])
        elif sequence in self.waiting:
            self.waiting.remove(sequence)


def _likeliest(sequences: Seq[Sequence], room: int) -> Counter[int]:
    """How many draft tokens of each sequence are among the `room` likeliest of all."""
    ranked = sorted((-p, i) for i, sequence in enumerate(sequences) for p in sequence.draft.survival)
    return Counter(i for _, i in ranked[:room])


def _verification(sequence: Sequence, draft: Draft) -> Task:
    tree = None if draft.is_chain else (ANCHOR, *(parent + 1 for parent in draft.parents))
    tokens = (sequence.tokens[-1], *draft.tokens)
    work = Work(slot=sequence.slot, start=sequence.computed, tokens=tokens, num_logits=len(tokens), parents=tree)
    return Task(sequence=sequence, work=work, draft=draft)


def _prefill(sequence: Sequence, rows: int) -> Task:
    pending: Seq[int] = sequence.pending
    chunk = tuple(pending[:rows])
    ends = len(chunk) == len(pending)
    work = Work(slot=sequence.slot, start=sequence.computed, tokens=chunk, num_logits=int(ends))
    return Task(
        sequence=sequence, work=work, draft=Draft(request_id=sequence.request_id, base_len=len(sequence.tokens))
    )
