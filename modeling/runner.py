"""TargetRunner: a model's forward together with its KV slots."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from modeling.kv_step import kv_step
from modeling.live_ends import LiveEnds
from modeling.plan import Layout, Plan, make_plan, round_up
from modeling.slots import KVShape, KVSlots
from modeling.work import Forward, Work

logger = logging.getLogger(__name__)


class Computation(Protocol):
    """What a runner runs: `Decoder` or `Modules`."""

    ends: LiveEnds

    @property
    def kv_shape(self) -> KVShape: ...

    def forward(self, plan: Plan, slots: KVSlots, taps: tuple[int, ...]) -> Forward: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotLimits:
    """Slots wanted, tokens of each, and the memory that all of them may take. key: what sets it in a configuration."""

    num_slots: int
    max_len: int
    kv_bytes: int
    key: str = "kv_cache_gib"

    def fitting(self, slot_bytes: int) -> int:
        """How many slots of that size fit; ValueError where not one does."""
        fitting = min(self.num_slots, self.kv_bytes // slot_bytes)
        need = f"a sequence of max_model_len {self.max_len} takes {slot_bytes / 2**20:.0f} MiB of KV memory"
        remedy = f"raise {self.key} or lower max_model_len"
        if fitting < 1:
            raise ValueError(f"{need}, {self.key} allows {self.kv_bytes / 2**20:.0f} MiB; {remedy}")
        if fitting < self.num_slots:
            logger.warning(
                "%s: %s holds %d of the %d sequences of max_num_seqs; %s",
                need,
                self.key,
                fitting,
                self.num_slots,
                remedy,
            )
        return int(fitting)


class TargetRunner:
    """Implements modeling.work.Runner."""

    def __init__(self, computation: Computation, limits: SlotLimits, *, vocab_size: int, device: torch.device) -> None:
        shape = computation.kv_shape
        step = kv_step(shape.dtype, kv_heads=shape.kv_heads, head_dim=shape.head_dim, device=device)
        rows = round_up(limits.max_len, step)
        self.ends = computation.ends
        self._computation = computation
        self._layout = Layout(group=shape.group, kv_step=step, dtype=shape.dtype, device=device)
        self.device = device
        self.vocab_size = vocab_size
        self.max_len = limits.max_len
        self.num_slots = limits.fitting(shape.token_bytes * rows)
        self._slots = KVSlots(shape, num_slots=self.num_slots, max_len=rows, device=device)

    @torch.inference_mode()
    def forward(self, works: Sequence[Work], *, taps: tuple[int, ...] = ()) -> Forward:
        """One packed forward. Blocks."""
        return self._computation.forward(make_plan(works, self._layout), self._slots, taps)

    @torch.inference_mode()
    def copy_rows(self, source: int, slot: int, count: int) -> None:
        """See Runner.copy_rows."""
        self._slots.copy_rows(source, slot, count)

    def check(self) -> None:
        """One forward of two tokens; ValueError where some layer did not leave its keys and values in the slot."""
        self.forward([Work(slot=0, start=0, tokens=(0, 1), num_logits=1)])
        silent = [i for i, layer in enumerate(self._slots.storage) if not layer[0, :, :, :2].any()]
        if silent:
            raise ValueError(f"layers {silent} do not take their attention from transformers' AttentionInterface")

    @torch.inference_mode()
    def keep_path(self, slot: int, start: int, path: Sequence[int]) -> None:
        """See Runner.keep_path."""
        self._slots.keep_path(slot, start, path)
