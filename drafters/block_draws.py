"""Draws: how a batch of requests turns draft logits into tokens, all rows of it at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from modeling.block_net import BlockNet
from modeling.noise import gumbel_rows, noise_key
from modeling.ranking import argmax_lowest
from protos.messages import DraftQuery

CANDIDATES = 256


class Draws:
    """For b queries: the best token where a request is greedy, else argmax(logits / temperature + noise).

    The noise is the one that the target will draw with (arXiv 2408.07978), and the argmax is over what min_p, top_k and
    top_p leave of the CANDIDATES best.
    Penalties and biases are left to the target: drafts of a request that has some live shorter.
    """

    def __init__(self, queries: Sequence[DraftQuery], net: BlockNet, steps: int) -> None:
        params = [query.params for query in queries]
        self._net = net
        self._device = net.norm.weight.device
        tiny = torch.finfo(torch.float32).tiny
        self._temperature = self._column([1.0 if each.greedy else max(each.temperature, tiny) for each in params])
        self._greedy = all(each.greedy for each in params)
        if self._greedy:
            return
        keys = [
            [noise_key(each.seed or 0, query.base_len + k) for k in range(steps)]
            for query, each in zip(queries, params, strict=True)
        ]
        self._keys = torch.tensor(keys, device=self._device)
        self._noisy = self._column([float(not each.greedy) for each in params])
        self._min_p = self._column([each.min_p for each in params])
        self._top_k = self._column([each.top_k if each.top_k > 0 else CANDIDATES for each in params])
        self._top_p = self._column([each.top_p for each in params])

    def tokens(self, logits: torch.Tensor, first: int) -> torch.Tensor:
        """Draft ids [b, m] of steps first .. first + m - 1, from logits [b, m, V'] in float32."""
        if self._greedy:
            return argmax_lowest(logits)
        scores, ids = logits.topk(min(CANDIDATES, logits.shape[-1]), dim=-1)
        scores = (scores - scores[..., :1]) / self._temperature
        noise = gumbel_rows(self._keys[:, first : first + logits.shape[1]], self._net.target_ids(ids))
        totals = (scores + noise * self._noisy).masked_fill_(self._truncated(scores.exp()) == 0, -torch.inf)
        return ids.gather(-1, totals.argmax(-1, keepdim=True)).squeeze(-1)

    def chances(self, logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """Probabilities [b, m] of draft ids [b, m], from logits [b, m, V'], at each temperature (1 where greedy)."""
        scores = (logits - logits.amax(dim=-1, keepdim=True)) / self._temperature
        log_probs = scores.log_softmax(dim=-1)
        return log_probs.gather(-1, ids.unsqueeze(-1)).squeeze(-1).exp()

    def _truncated(self, weights: torch.Tensor) -> torch.Tensor:
        """Weights [b, m, n], the best first and 1, with 0 for what min_p, top_k and top_p rule out."""
        rank = torch.arange(weights.shape[-1], device=weights.device)
        weights = weights * ((weights >= self._min_p) & (rank < self._top_k))
        mass = weights.cumsum(-1)
        return weights * (mass - weights < self._top_p * mass[..., -1:])

    def _column(self, values: Sequence[float]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float32, device=self._device)[:, None, None]
