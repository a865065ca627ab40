"""EagleTrainee, and of it Eagle3Trainee: an EAGLE net as it is trained, many rollouts of an example at once."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812

from drafters.training.blocks import Batch
from drafters.training.losses import Scores, Truth, score
from drafters.training.reading import read
from drafters.training.trainee import NetTrainee
from modeling.draft_attention import KeysValues
from modeling.eagle_checkpoint import EAGLE_NETS
from modeling.eagle_net import EagleNet
from modeling.target_ends import TargetEnds


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """What rollouts begin with. contexts: each layer's keys and values of all elements, [B, kv_heads, n, head_dim].
    seen: [B, A, n] bool, the elements before each anchor's last one, which the rollout brings along itself. embeds,
    features: [B, A, d], of that last element."""

    contexts: tuple[KeysValues, ...]
    seen: torch.Tensor
    embeds: torch.Tensor
    features: torch.Tensor


class EagleTrainee(NetTrainee):
    """A rollout goes on from the element of its anchor, whose output predicts the token after the anchor."""

    net: EagleNet

    def publish(self, folder: Path) -> None:
        EAGLE_NETS.save(self.net, folder)

    def forward(self, batch: Batch) -> Scores:
        with torch.autocast(batch.taps.device.type, torch.bfloat16, enabled=self._bf16):
            hidden = self.net.normed(self.states(batch))
        truth = Truth.of(batch, self.net.draft_ids)
        return score(read(hidden, self._ends.lm_head, truth.labels, truth.law_ids), None, truth)

    @abstractmethod
    def states(self, batch: Batch) -> torch.Tensor:
        """The net's states [B, A, P, d] of the places that predict."""

    def text(self, batch: Batch) -> Text:
        """Reads the examples once for all their rollouts."""
        rows, count = batch.taps.shape[:2]
        features = self.net.fusion(batch.taps.chunk(len(self.feature_layers), dim=-1))
        embeds = self.embed(batch.tokens[:, 1:], like=features)
        places = torch.arange(count, device=features.device)
        causal = (places <= places[:, None]).expand(rows, 1, -1, -1)
        contexts = self.net.context(embeds, features, (places + 1).expand(rows, -1), self._nothing(features), causal)
        last = batch.anchors - 1
        return Text(
            contexts=contexts,
            seen=places < last[..., None],
            embeds=self.embed(batch.anchor_ids, like=features),
            features=features.gather(1, last[..., None].expand(-1, -1, features.shape[-1])),
        )

    def embed(self, tokens: torch.Tensor, *, like: torch.Tensor) -> torch.Tensor:
        """[...] → [..., d], in the dtype of `like`."""
        return F.embedding(tokens, self._ends.embedding).to(like.dtype)

    def _nothing(self, features: torch.Tensor) -> list[KeysValues]:
        """Contexts of no elements."""
        config = self.net.config
        empty = features.new_empty(len(features), config.num_kv_heads, 0, config.head_dim)
        return [(empty, empty)] * config.num_layers


class Eagle3Trainee(EagleTrainee):
    """Unrolls `predictions` steps that feed on the net's own states, as in drafting (training-time test, arXiv
    2503.01840), but on the answer's tokens."""

    def __init__(self, net: EagleNet, ends: TargetEnds, *, predictions: int, bf16: bool) -> None:
        super().__init__(net, ends, bf16=bf16)
        self._predictions = predictions

    @property
    def num_predictions(self) -> int:
        return self._predictions

    def states(self, batch: Batch) -> torch.Tensor:
        """All rollouts of a row take a step together; each sees its own steps only."""
        text = self.text(batch)
        hidden, contexts, mask = text.features, text.contexts, text.seen
        alone = torch.eye(batch.anchors.shape[1], dtype=torch.bool, device=hidden.device).expand(len(hidden), -1, -1)
        states = []
        for k in range(self._predictions):
            embeds = self.embed(batch.previous[..., k], like=hidden)
            mask = torch.cat((mask, alone), dim=-1)
            hidden, own = self.net(embeds, hidden, batch.anchors + k, contexts, mask.unsqueeze(1))
            contexts = tuple(_joined(before, new) for before, new in zip(contexts, own, strict=True))
            states.append(hidden)
        return torch.stack(states, dim=2)


def _joined(before: KeysValues, new: KeysValues) -> KeysValues:
    keys, values = (torch.cat(pair, dim=-2) for pair in zip(before, new, strict=True))
    return keys, values
