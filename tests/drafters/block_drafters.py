"""Block drafters over tiny checkpoints, features for their queries, and the formula that their drafts follow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from drafters.dflash import DFlash
from drafters.registry import build_drafter, parse_config
from modeling.block_checkpoint import BLOCK_NETS
from modeling.checkpoint_files import Checkpoint
from modeling.noise import gumbel
from modeling.target_ends import read_ends
from protos.sampling_params import SamplingParams
from tests.drafters.featured import Expected, context, features_of


def build(method: str, net: Path, target: Path, *, seqs: int = 4, **keys: Any) -> DFlash:
    given = {"method": method, "model": str(net), "num_speculative_tokens": 5}
    drafter = build_drafter(parse_config(given | keys), context(target, max_num_seqs=seqs))
    assert isinstance(drafter, DFlash)
    return drafter


@torch.inference_mode()
def by_formula(net_folder: Path, target: Path, text: Sequence[int], params: SamplingParams, steps: int) -> Expected:
    """Tokens and survival of a draft after `text`: one block alone, then one position after the other."""
    checkpoint = Checkpoint(str(net_folder))
    net = BLOCK_NETS.load(checkpoint, BLOCK_NETS.read_config(checkpoint)).float()
    ends = read_ends(Checkpoint(str(target)), torch.float32)
    features = features_of(text[:-1]).float()
    contexts = [(k[None], v[None]) for k, v in net.context(features, torch.arange(len(features)))]
    size = net.config.block_size
    mask = torch.ones(1, 1, size, len(features) + size, dtype=torch.bool)
    places = len(text) - 1 + torch.arange(size)[None]
    hidden = net.block(net.inputs(torch.tensor([text[-1]]), ends.embedding), places, contexts, mask)[0]
    ids = net.target_ids(torch.arange(net.config.draft_vocab_size))
    previous, state, reached = net.draft_ids(torch.tensor([text[-1]])), None, 1.0
    tokens: list[int] = []
    survival: list[float] = []
    for k, h in enumerate(hidden[net.config.first_prediction :][:steps]):
        logits = ends.lm_head[ids] @ h
        if net.markov is not None:
            bias, state = net.markov(previous, h[None], state)
            logits = logits + bias[0]
        scores = logits / (params.temperature or 1.0)
        noise = 0.0 if params.greedy else gumbel(params.seed or 0, len(text) + k, ids)
        drawn = (scores + noise).argmax()
        chance = scores.softmax(0)[drawn]
        if net.confidence is not None:
            chance = net.confidence_logits(h[None], previous)[0].sigmoid()
        reached *= float(chance)
        tokens.append(int(ids[drawn]))
        survival.append(reached)
        previous = drawn[None]
    return tokens, survival
