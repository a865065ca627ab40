"""The two halves of a forward, alone: all its linears, and all its attention, for a model's shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from transformers import PretrainedConfig

from modeling.attention import attend
from modeling.kv_step import kv_step
from modeling.linear import Linear
from modeling.plan import Layout, make_plan, round_up
from modeling.slots import KVShape, KVSlots
from modeling.work import Work


class ForwardParts:
    """Random weights and keys of the shapes in `config` (Llama-shaped), `num_slots` slots of `max_len` tokens."""

    def __init__(self, config: PretrainedConfig, *, dtype: torch.dtype, num_slots: int, max_len: int) -> None:
        self._heads = config.num_attention_heads
        self._head_dim = getattr(config, "head_dim", None) or config.hidden_size // self._heads
        kv_heads = config.num_key_value_heads
        hidden, inner = config.hidden_size, config.intermediate_size
        attended = self._heads * self._head_dim
        fused = attended + 2 * kv_heads * self._head_dim
        shapes = ((fused, hidden), (hidden, attended), (2 * inner, hidden), (hidden, inner))
        self._dtype = dtype
        self._layers = [
            [Linear(torch.randn(*shape).to(dtype)) for shape in shapes] for _ in range(config.num_hidden_layers)
        ]
        self._lm_head = Linear(torch.randn(config.vocab_size, hidden).to(dtype))
        cpu = torch.device("cpu")
        step = kv_step(dtype, kv_heads=kv_heads, head_dim=self._head_dim, device=cpu)
        rows = round_up(max_len, step)
        shape = KVShape(
            layers=len(self._layers),
            group=self._heads // kv_heads,
            kv_heads=kv_heads,
            head_dim=self._head_dim,
            dtype=dtype,
        )
        self._slots = KVSlots(shape, num_slots=num_slots, max_len=rows, device=cpu)
        self._slots.storage.normal_()
        self._layout = Layout(group=shape.group, kv_step=step, dtype=dtype, device=cpu)

    @torch.inference_mode()
    def linears(self, rows: int) -> Callable[[], None]:
        """Runs every linear of one forward of `rows` rows, the output head included."""
        inputs = {
            linear.in_features: torch.randn(rows, linear.in_features).to(self._dtype) for linear in self._layers[0]
        }

        @torch.inference_mode()
        def run() -> None:
            for layer in self._layers:
                for linear in layer:
                    linear(inputs[linear.in_features])
            self._lm_head(inputs[self._lm_head.in_features])

        return run

    @torch.inference_mode()
    def attention(self, works: Sequence[Work]) -> Callable[[], None]:
        """Runs the attention of every layer of one forward of `works`, planning included."""
        rows = sum(len(work.tokens) for work in works)
        queries = torch.randn(rows, self._heads, self._head_dim).to(self._dtype)

        @torch.inference_mode()
        def run() -> None:
            plan = make_plan(works, self._layout)
            for layer in range(len(self._layers)):
                attend(queries, layer, plan, self._slots, self._head_dim**-0.5)

        return run
