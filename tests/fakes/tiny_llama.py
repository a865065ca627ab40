"""Tiny random Llama checkpoints on disk, with the byte tokenizer: what `load_target` loads, in milliseconds."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from tests.fakes.byte_tokenizer import byte_tokenizer

VOCAB_SIZE = 258


def save_tiny_llama(
    path: Path, *, seed: int = 0, vocab_size: int = VOCAB_SIZE, extra_token: str | None = None, max_len: int = 1024
) -> Path:
    """Writes a model of one layer, the same for the same seed. `vocab_size` above the tokenizer's is padding."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=max_len,
        bos_token_id=None,
        eos_token_id=VOCAB_SIZE - 1,
        initializer_range=0.5,
    )
    LlamaForCausalLM(config).save_pretrained(path)
    tokenizer = byte_tokenizer()
    if extra_token is not None:
        tokenizer.add_tokens([extra_token])
    tokenizer.save_pretrained(path)
    return path
