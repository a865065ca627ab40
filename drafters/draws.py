"""Draws: how a batch of requests turns draft logits into tokens, all rows of it at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from modeling.block_net import BlockNet
from modeling.eagle_net import EagleNet
from modeling.noise import gumbel_rows, noise_key
from modeling.ranking import argmax_lowest, best_few
from protos.messages import DraftQuery

CANDIDATES = 256


class Draws:
    """For b queries: the best token where a request is greedy, else argmax(logits / temperature + noise).

    The noise is the one that the target will draw with (arXiv 2408.07978), and the argmax is over what min_p, top_k and
    top_p leave of the CANDIDATES best.
    Penalties and biases are left to the target: drafts of a request that has some live shorter.
    """

    def __init__(self, queries: Sequence[DraftQuery], net: BlockNet | EagleNet, steps: int) -> None:
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
        self._min_p = self._column([0.0 if each.greedy else each.min_p for each in params])
        self._top_k = self._column(
            [each.top_k if each.top_k > 0 and not each.greedy else CANDIDATES for each in params]
        )
        self._top_p = self._column([1.0 if each.greedy else each.top_p for each in params])
        self._truncates = any(
            not each.greedy and (each.min_p > 0 or 0 < each.top_k < CANDIDATES or each.top_p < 1) for each in params
        )

    def tokens(self, logits: torch.Tensor, first: int) -> torch.Tensor:
        """Draft ids [b, m] of steps first .. first + m - 1, from logits [b, m, V'] in float32."""
        if self._greedy:
            return argmax_lowest(logits)
        totals, ids = self._totals(logits, self._keys[:, first : first + logits.shape[1]])
        return ids.gather(-1, totals.argmax(-1, keepdim=True)).squeeze(-1)

    def chances(self, logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """Probabilities [b, m] of draft ids [b, m], from logits [b, m, V'], at each temperature (1 where greedy)."""
        return self._log_chances(logits, ids.unsqueeze(-1)).squeeze(-1).exp()

    def children(self, logits: torch.Tensor, step: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The `count` best draft ids [b, m, count] of one step, the best first, and the chance of each, in float64.

        logits: [b, m, V'] of m alternatives for the text before. A single child has the chance that `chances` gives.
        Of several, a noisy request's have their shares of what the noise makes of the candidates: by probability alone
        a sibling that the noise speaks against could rank above the one that it picks. 0: ruled out.
        """
        if count == 1:
            ids = self.tokens(logits, step).unsqueeze(-1)
            return ids, self._log_chances(logits, ids).double().exp()
        count = min(count, logits.shape[-1])
        if self._greedy:
            best, ids = logits.topk(count, dim=-1)
            return ids, (best - logits.logsumexp(dim=-1, keepdim=True)).double().exp()
        totals, candidates = self._totals(logits, self._keys[:, step : step + 1])
        best, places = totals.topk(min(count, totals.shape[-1]), dim=-1)
        ids = candidates.gather(-1, places)
        shares = best - totals.logsumexp(dim=-1, keepdim=True)
        return ids, torch.where(self._noisy > 0, shares, self._log_chances(logits, ids)).double().exp()

    def _log_chances(self, logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """Logarithms of the probabilities of draft ids [b, m, c]."""
        scores = (logits - logits.amax(dim=-1, keepdim=True)) / self._temperature
        return scores.log_softmax(dim=-1).gather(-1, ids)

    def _totals(self, logits: torch.Tensor, keys: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What is drawn by, and the draft ids, of the best candidates [b, m, n] by logit; -inf where ruled out."""
        scores, ids = best_few(logits, min(CANDIDATES, logits.shape[-1]))
        scores = (scores - scores[..., :1]) / self._temperature
        totals = scores + gumbel_rows(keys, self._net.target_ids(ids)) * self._noisy
        if self._truncates:
            totals.masked_fill_(self._truncated(scores.exp()) == 0, -torch.inf)
        return totals, ids

    def _truncated(self, weights: torch.Tensor) -> torch.Tensor:
        """Weights [b, m, n], the best first and 1, with 0 for what min_p, top_k and top_p rule out."""
        rank = torch.arange(weights.shape[-1], device=weights.device)
        weights = weights * ((weights >= self._min_p) & (rank < self._top_k))
        mass = weights.cumsum(-1)
        return weights * (mass - weights < self._top_p * mass[..., -1:])

    def _column(self, values: Sequence[float]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float32, device=self._device)[:, None, None]
