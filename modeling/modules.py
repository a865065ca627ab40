"""Modules: any transformers causal LM through its own modules, with attention over our KV slots.

Only the attention function is ours; it is registered with transformers and finds the plan among the keyword arguments
that models hand down to it. Hidden states are tapped by hooks on the decoder layers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface

from modeling.attention import attend
from modeling.linear import Linear, PackedLinear
from modeling.live_ends import LiveEnds
from modeling.plan import Plan
from modeling.slots import KVShape, KVSlots
from modeling.work import Forward

ATTENTION = "paradraft_slots"


class Modules:
    """Computes packed rows by a model loaded with `attn_implementation=ATTENTION`."""

    def __init__(self, model: Any) -> None:
        self.model = model.eval()
        self.ends = LiveEnds.of(model)
        if next(model.parameters()).device.type == "cpu":
            pack_linears(self.model)

    @property
    def kv_shape(self) -> KVShape:
        """What a token leaves in the slots."""
        config = self.model.config
        heads = config.num_attention_heads
        kv_heads = getattr(config, "num_key_value_heads", None) or heads
        return KVShape(
            layers=config.num_hidden_layers,
            group=heads // kv_heads,
            kv_heads=kv_heads,
            head_dim=getattr(config, "head_dim", None) or config.hidden_size // heads,
            dtype=self.model.dtype,
        )

    def forward(self, plan: Plan, slots: KVSlots, taps: tuple[int, ...]) -> Forward:
        """One pass over the plan's rows; see Work for what is read and written."""
        tapped: dict[int, torch.Tensor] = {}
        hooks = [self._layers()[i].register_forward_hook(_keep(tapped, i)) for i in taps]
        try:
            out = self.model(
                input_ids=plan.ids[None],
                position_ids=plan.positions[None],
                use_cache=False,
                logits_to_keep=plan.logit_rows,
                paradraft_plan=plan,
                paradraft_slots=slots,
            )
        finally:
            for hook in hooks:
                hook.remove()
        return Forward(logits=out.logits[0], taps=tuple(tapped[i] for i in taps))

    def _layers(self) -> nn.ModuleList:
        layers: nn.ModuleList = self.model.get_decoder().layers
        return layers


def _keep(tapped: dict[int, torch.Tensor], index: int) -> Any:
    def hook(_module: nn.Module, _inputs: object, output: torch.Tensor | tuple[torch.Tensor, ...]) -> None:
        tapped[index] = (output[0] if isinstance(output, tuple) else output)[0]

    return hook


def _slot_attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,  # noqa: ARG001  the plan has its own
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """transformers' signature: query [1, heads, R, d], key and value [1, kv_heads, R, d] → [1, R, heads, d]."""
    plan, slots = options["paradraft_plan"], options["paradraft_slots"]
    refused = [name for name in ("softcap", "s_aux", "sliding_window") if options.get(name) is not None]
    if refused:
        raise ValueError(
            f"{type(module).__name__} needs {', '.join(refused)}, which attention over slots does not compute"
        )
    layer: int = module.layer_idx
    slots.write(layer, plan.slots, plan.kv_rows, torch.stack((key[0], value[0])).permute(2, 0, 1, 3))
    q = query[0].transpose(0, 1)
    scale = options.get("scaling") or q.shape[-1] ** -0.5
    return attend(q, layer, plan, slots, scale).view(1, q.shape[0], q.shape[1], q.shape[2]), None


class _PackedModule(nn.Module):
    """Stands where an nn.Linear stood."""

    def __init__(self, linear: nn.Linear, kind: type[PackedLinear]) -> None:
        super().__init__()
        self.packed = kind(linear.weight.detach(), None if linear.bias is None else linear.bias.detach())
        self.dtype = self.packed.dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.packed(x.reshape(-1, x.shape[-1])).view(*x.shape[:-1], self.packed.out_features)


def pack_linears(module: nn.Module, kind: type[PackedLinear] = Linear) -> None:
    """Replaces every nn.Linear below a module on the CPU by a packed one; for inference only."""
    for name, child in module.named_children():
        if type(child) is nn.Linear:
            setattr(module, name, _PackedModule(child, kind))
        else:
            pack_linears(child, kind)


AttentionInterface.register(ATTENTION, _slot_attention)
AttentionMaskInterface.register(ATTENTION, lambda *_args, **_options: None)
