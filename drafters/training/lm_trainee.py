"""LmTrainee: a small causal LM with the target's tokenizer as it is trained, token by token over the answers."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from drafters.training.blocks import Batch
from drafters.training.features import feature_layers
from drafters.training.losses import Scores, Truth, score
from drafters.training.reading import read
from drafters.training.recipe import HEAD_DIM, Recipe
from drafters.training.trainee import Trainee
from modeling.target import Target
from modeling.target_ends import TargetEnds


class LmTrainee(Trainee):
    """`bf16` computes products in bf16; weights stay fp32. Of a batch it reads no taps, whatever `layers` they are of:
    they can be those of features that are kept for another drafter."""

    net: LlamaForCausalLM

    def __init__(
        self, net: LlamaForCausalLM, tokenizer: Any, *, predictions: int, layers: tuple[int, ...], bf16: bool
    ) -> None:
        super().__init__()
        self.net = net
        self._tokenizer = tokenizer
        self._predictions = predictions
        self._layers = layers
        self._bf16 = bf16

    @property
    def feature_layers(self) -> tuple[int, ...]:
        return self._layers

    @property
    def num_predictions(self) -> int:
        return self._predictions

    def publish(self, folder: Path) -> None:
        deepcopy(self.net).bfloat16().save_pretrained(folder)
        self._tokenizer.save_pretrained(folder)

    def forward(self, batch: Batch) -> Scores:
        """An LM predicts the same at a place whichever block it counts in, so each place is scored once."""
        places = _places(batch)[batch.valid]
        unique, place_of = torch.unique(places, return_inverse=True)
        one_of = torch.empty_like(unique).scatter_(0, place_of, torch.arange(len(places), device=places.device))
        truth = Truth(
            labels=batch.labels[batch.valid][one_of, None],
            law_ids=batch.law_ids[batch.valid][one_of, None],
            law_probs=batch.law_probs[batch.valid][one_of, None],
            valid=torch.ones_like(unique, dtype=torch.bool)[:, None],
        )
        with torch.autocast(batch.tokens.device.type, torch.bfloat16, enabled=self._bf16):
            states = self.net.model(input_ids=batch.tokens[:, :-1], use_cache=False).last_hidden_state
        head = self.net.lm_head.weight
        hidden = states.flatten(0, 1)[unique, None]
        reading = read(hidden, head.to(torch.bfloat16) if self._bf16 else head, truth.labels, truth.law_ids)
        return _spread(score(reading, None, truth), place_of, batch.valid)


def make_lm_trainee(recipe: Recipe, target: Target, ends: TargetEnds) -> LmTrainee:
    """A random LM whose embedding, which is its head as well, tells tokens apart as the target's head does."""
    config = lm_config(recipe, target.config)
    net = LlamaForCausalLM(config)
    with torch.no_grad():
        net.lm_head.weight.copy_(projected(ends.lm_head, recipe.width) * config.initializer_range)
    return LmTrainee(
        net.to(target.runner.device),  # type: ignore[arg-type]
        target.tokenizer,
        predictions=recipe.block_size,
        layers=feature_layers(target.config.num_hidden_layers, recipe.taps),
        bf16=recipe.precision == "bf16",
    )


def lm_config(recipe: Recipe, target: Any) -> LlamaConfig:
    """`target` is its transformers configuration, of which only what a token means is taken over."""
    return LlamaConfig(
        vocab_size=target.vocab_size,
        hidden_size=recipe.width,
        intermediate_size=HEAD_DIM * round(recipe.width * 8 / 3 / HEAD_DIM),
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.width // HEAD_DIM,
        max_position_embeddings=target.max_position_embeddings,
        bos_token_id=target.bos_token_id,
        eos_token_id=target.eos_token_id,
        pad_token_id=target.pad_token_id,
        tie_word_embeddings=True,
    )


def projected(table: torch.Tensor, width: int) -> torch.Tensor:
    """Rows of `table` [V, d] on their `width` principal axes, scaled to a standard deviation of 1; ValueError beyond d.

    Centred: what all tokens share changes no choice among them.
    """
    if width > table.shape[1]:
        raise ValueError(f"width is {width}, but the target's own is {table.shape[1]}; a draft model is smaller")
    centred = table.double() - table.double().mean(dim=0)
    _, axes = torch.linalg.eigh(centred.T @ centred)  # ascending
    rows: torch.Tensor = centred @ axes[:, -width:]
    return (rows / rows.std()).float()


def _places(batch: Batch) -> torch.Tensor:
    """Where in the flattened batch each prediction is made, [B, A, P]; beyond the end where it is not valid."""
    rows, context = batch.tokens.shape[0], batch.tokens.shape[1] - 1
    predictions = torch.arange(batch.labels.shape[-1], device=batch.anchors.device)
    starts = torch.arange(rows, device=batch.anchors.device) * context
    return starts[:, None, None] + batch.anchors[:, :, None] + predictions


def _spread(scores: Scores, place_of: torch.Tensor, valid: torch.Tensor) -> Scores:
    """Scores [U, 1] of places as those of the predictions [B, A, P] made there; nothing where none is valid."""
    spread = {}
    for each in fields(scores):
        values = getattr(scores, each.name)
        spread[each.name] = values.new_zeros(valid.shape).masked_scatter(valid, values[place_of, 0])
    return Scores(**spread)
