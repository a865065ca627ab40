"""BlockTrainee: a block net as it is trained, many blocks of an example at once."""

from __future__ import annotations

from pathlib import Path

import torch

from drafters.training.blocks import Batch, block_mask, block_positions
from drafters.training.losses import Scores, Truth, score
from drafters.training.reading import Bias, read
from drafters.training.trainee import NetTrainee
from modeling.block_checkpoint import BLOCK_NETS
from modeling.block_net import BlockNet


class BlockTrainee(NetTrainee):
    """A block's places predict the tokens after its anchor (see BlockNet)."""

    net: BlockNet

    @property
    def num_predictions(self) -> int:
        return self.net.config.num_predictions

    def publish(self, folder: Path) -> None:
        BLOCK_NETS.save(self.net, folder)

    def forward(self, batch: Batch) -> Scores:
        with torch.autocast(batch.taps.device.type, torch.bfloat16, enabled=self._bf16):
            hidden = self._hidden(batch)
            previous = self.net.draft_ids(batch.previous)
            confidence, bias = None, None
            if self.net.markov is not None:
                mixed = self.net.markov.teacher_forced(previous.flatten(0, 1), hidden.flatten(0, 1))
                bias = Bias(mixed=mixed.view(*hidden.shape[:-1], -1), weight=self.net.markov.out.weight)
            if self.net.confidence is not None:
                confidence = self.net.confidence_logits(hidden, previous).float()
        truth = Truth.of(batch, self.net.draft_ids)
        return score(read(hidden, self._ends.lm_head, truth.labels, truth.law_ids, bias), confidence, truth)

    def _hidden(self, batch: Batch) -> torch.Tensor:
        """States [B, A, P, d] of the places that predict."""
        config, (rows, context) = self.net.config, batch.taps.shape[:2]
        features = self.net.fuse(batch.taps.to(self.net.dtype))
        contexts = self.net.context(features, torch.arange(context, device=features.device).expand(rows, -1))
        hidden = self.net.block(
            self.net.inputs(batch.anchor_ids, self._ends.embedding).flatten(1, 2),
            block_positions(batch.anchors, config.block_size),
            contexts,
            block_mask(batch.anchors, config.block_size, context),
        )
        blocks = hidden.view(rows, -1, config.block_size, config.hidden_size)
        return blocks[:, :, config.first_prediction :]
