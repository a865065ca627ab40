"""The decoder layers that published nets are built of: their sizes in a transformers configuration, and their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import PretrainedConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from modeling.checkpoint_files import Checkpoint
from modeling.layouts.layout import Source, refuse, rows

KINDS = ("qwen3", "llama")
STATIC_ROPE = ("linear", "llama3", "yarn")


def read_decoder(checkpoint: Checkpoint, given: Mapping[str, Any], *, default: str) -> PretrainedConfig:
    """The configuration of the layers, with the defaults of its model type, as those who publish leave defaults out.

    default: the model type where none is given. ValueError for what draft layers here cannot express.
    """
    kind = given.get("model_type", default)
    if kind not in KINDS:
        raise refuse(checkpoint, "model_type", kind, f"draft layers are known of {' and '.join(KINDS)}")
    try:
        config: PretrainedConfig = CONFIG_MAPPING[kind](**{k: v for k, v in given.items() if k != "model_type"})
    except (StrictDataclassError, TypeError, ValueError) as error:
        raise ValueError(f"config.json of {checkpoint.name!r} is no configuration of {kind}: {error}") from error
    _check(checkpoint, config)
    return config


def shape_of(config: Any) -> dict[str, Any]:
    """The sizes of a NetConfig."""
    return {
        "hidden_size": config.hidden_size,
        "vocab_size": config.vocab_size,
        "intermediate_size": config.intermediate_size,
        "num_layers": config.num_hidden_layers,
        "num_heads": config.num_attention_heads,
        "num_kv_heads": config.num_key_value_heads,
        "head_dim": config.head_dim,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_theta": float(config.rope_parameters["rope_theta"]),
    } | _scaled(config)


def layer_sources(ours: str, theirs: str, *, qk_norm: bool) -> dict[str, Source]:
    """Sources of a layer's tensors, but for the norm before attention, which is not called the same everywhere."""
    attention, mlp = f"{theirs}self_attn.", f"{theirs}mlp."
    sources = {
        "q.weight": rows(f"{attention}q_proj.weight"),
        "kv.weight": rows(f"{attention}k_proj.weight", f"{attention}v_proj.weight"),
        "out.weight": rows(f"{attention}o_proj.weight"),
        "post_norm.weight": rows(f"{theirs}post_attention_layernorm.weight"),
        "gate_up.weight": rows(f"{mlp}gate_proj.weight", f"{mlp}up_proj.weight"),
        "down.weight": rows(f"{mlp}down_proj.weight"),
    }
    if qk_norm:
        sources |= {f"{part}_norm.weight": rows(f"{attention}{part}_norm.weight") for part in "qk"}
    return {ours + name: source for name, source in sources.items()}


def _check(checkpoint: Checkpoint, config: Any) -> None:
    wanted = {"hidden_act": "silu", "attention_bias": False, "mlp_bias": False, "quantization_config": None}
    for key, value in wanted.items():
        if getattr(config, key, value) != value:
            raise refuse(checkpoint, key, getattr(config, key), f"draft layers here have {value!r}")
    types = set(getattr(config, "layer_types", None) or ()) - {"full_attention"}
    if types:
        raise refuse(checkpoint, "layer_types", sorted(types), "draft layers here look at the whole text")
    rope = config.rope_parameters or {}
    known = rope.get("rope_type") in ("default", *STATIC_ROPE) and "rope_theta" in rope
    if not known or rope.get("partial_rotary_factor", 1) != 1:
        why = f"draft layers here rotate whole heads, by RoPE of type default, {', '.join(STATIC_ROPE)}"
        raise refuse(checkpoint, "rope_parameters", rope, why)


def _scaled(config: Any) -> dict[str, Any]:
    """Frequencies that depend on no text's length, as transformers computes them."""
    kind = config.rope_parameters["rope_type"]
    if kind == "default":
        return {}
    frequencies, scale = ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"))
    return {"rope_frequencies": tuple(frequencies.tolist()), "rope_scale": float(scale)}
