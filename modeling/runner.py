"""TargetRunner: a model's forward together with its KV slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from modeling.plan import KV_STEP, Layout, Plan, make_plan, round_up
from modeling.slots import KVShape, KVSlots
from modeling.work import Forward, Work


class Computation(Protocol):
    """What a runner runs: `Decoder` or `Modules`."""

    @property
    def kv_shape(self) -> KVShape: ...

    def forward(self, plan: Plan, slots: KVSlots, taps: tuple[int, ...]) -> Forward: ...


class TargetRunner:
    """Implements modeling.work.Runner. `max_len`: tokens of one slot; `kv_bytes` bounds the slots' memory."""

    def __init__(self, computation: Computation, config: object, *, device: torch.device) -> None:
        self._computation = computation
        self._config = config
        self.device = device
        self.vocab_size: int = config.vocab_size  # type: ignore[attr-defined]
        self.num_slots = 0
        self.max_len = 0

    def allocate(self, *, num_slots: int, max_len: int, kv_bytes: int) -> None:
        """Makes the slots: as many of `num_slots` as fit in `kv_bytes`; ValueError where not one fits."""
        shape = self._computation.kv_shape
        rows = round_up(max_len, KV_STEP[shape.dtype])
        slot_bytes = shape.token_bytes * rows
        fitting = min(num_slots, kv_bytes // slot_bytes)
        if fitting < 1:
            raise ValueError(
                f"one sequence of max_model_len {max_len} needs {slot_bytes / 2**30:.2f} GiB of KV memory, "
                f"kv_cache_gib allows {kv_bytes / 2**30:.2f}; raise kv_cache_gib or lower max_model_len"
            )
        self.num_slots, self.max_len = int(fitting), max_len
        self._slots = KVSlots(shape, num_slots=self.num_slots, max_len=rows, device=self.device)
        group = self._config.num_attention_heads // shape.kv_heads  # type: ignore[attr-defined]
        self._layout = Layout(group=group, max_len=rows, dtype=shape.dtype, device=self.device)

    @torch.inference_mode()
    def forward(self, works: Sequence[Work], *, taps: tuple[int, ...] = ()) -> Forward:
        """One packed forward. Blocks."""
        return self._computation.forward(make_plan(works, self._layout), self._slots, taps)

    @torch.inference_mode()
    def keep_path(self, slot: int, start: int, path: Sequence[int]) -> None:
        """See Runner.keep_path."""
        self._slots.keep_path(slot, start, path)
