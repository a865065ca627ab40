"""Tiny random checkpoints in transformers' own format, with the byte tokenizer, made in a test's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig, PhiConfig, Qwen2Config, Qwen3Config

from tests.fakes.byte_tokenizer import byte_tokenizer

SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "vocab_size": 258,
    "bos_token_id": None,
    "eos_token_id": 257,
    "initializer_range": 0.3,
}

CONFIGS: dict[str, Any] = {
    "llama": LlamaConfig(**SIZES),
    "llama-tied-scaled-rope": LlamaConfig(
        **SIZES,
        tie_word_embeddings=True,
        rope_parameters={
            "rope_type": "llama3",
            "rope_theta": 10000.0,
            "factor": 4.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 128,
        },
    ),
    "llama-biased": LlamaConfig(**SIZES, attention_bias=True, mlp_bias=True),
    "mistral": MistralConfig(**SIZES, sliding_window=None),
    "qwen2": Qwen2Config(**SIZES),
    "qwen3": Qwen3Config(**SIZES, head_dim=32),
    "phi": PhiConfig(**(SIZES | {"num_key_value_heads": 4}), partial_rotary_factor=0.5),
}


def save_tiny(directory: Path, config: Any, *, seed: int = 0) -> Path:
    """A random checkpoint with tokenizer; returns the directory."""
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):  # random ones: a zero bias would hide a forgotten one
            torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(directory)
    byte_tokenizer().save_pretrained(directory)
    return directory
