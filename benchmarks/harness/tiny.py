"""Tiny random checkpoints with a byte tokenizer, on disk: enough to run every line of a program in seconds."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, LlamaConfig, PretrainedConfig, PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import bytes_to_unicode

START, END = "<|im_start|>", "<|im_end|>"
VOCAB_SIZE = 258
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Token i is byte i; then START and END, which ends a turn."""
    vocabulary = {symbol: byte for byte, symbol in bytes_to_unicode().items()}  # type: ignore[no-untyped-call]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(mark, special=True) for mark in (START, END)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, chat_template=TEMPLATE)  # type: ignore[no-untyped-call]


def tiny_llama() -> LlamaConfig:
    """Two layers. With tied embeddings of little variance it repeats itself, so that there is something to guess."""
    return LlamaConfig(
        vocab_size=VOCAB_SIZE,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        bos_token_id=None,
        eos_token_id=VOCAB_SIZE - 1,
        tie_word_embeddings=True,
    )


def save_tiny(folder: Path, config: PretrainedConfig | None = None, *, seed: int = 0) -> Path:
    """Writes a model of `config` (else of `tiny_llama`) and the tokenizer; the same weights for the same seed."""
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config or tiny_llama())  # type: ignore[no-untyped-call]
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):  # a bias of zero would hide one that was forgotten
            torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return folder
