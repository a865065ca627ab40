"""Configurations of tiny models: one of each family and each way in which a family's weights may be laid out."""

from __future__ import annotations

from typing import Any

from transformers import LlamaConfig, MistralConfig, PhiConfig, Qwen2Config, Qwen3Config

from benchmarks.harness.tiny import VOCAB_SIZE

SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "vocab_size": VOCAB_SIZE,
    "bos_token_id": None,
    "eos_token_id": VOCAB_SIZE - 1,
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
