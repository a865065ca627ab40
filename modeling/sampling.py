"""TokenSampler: the target's own draw, a function of the logits, the committed tokens, the seed and the position.

Order of processing, as in vLLM: logit_bias, min_tokens, repetition, frequency and presence penalties, temperature,
min_p, top_k, top_p. All on the host, one row at a time, in float32: rows are drawn lazily along a draft's surviving
path, and every device gives the same token for the same logits.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from modeling.noise import NOISE_MAX, NoiseKey, gumbel_of_bits, gumbel_scalar, may_exceed, noise_bits, noise_key
from modeling.ranking import Ids, Row, best_ids, cut, host_row, windows
from protos.sampling_params import SamplingParams


class TokenSampler:
    """Draws the tokens of one request.

    For logits of one row, `draw` over all seeds follows `distribution` exactly. Both look at the tokens committed so
    far and change nothing; `commit` appends a token that was emitted.
    """

    def __init__(
        self, params: SamplingParams, *, prompt_ids: Sequence[int], stop_ids: Collection[int], vocab_size: int
    ) -> None:
        """`stop_ids`: end tokens, masked while fewer than `params.min_tokens` tokens were committed."""
        if params.seed is None and not params.greedy:
            raise ValueError("seed is None; give the request a seed before it is sampled (protos.seeds.expand)")
        self._params = params
        self._seed = params.seed or 0
        self._emitted = 0
        self._bias_ids = np.fromiter(params.logit_bias.keys(), np.int64)
        self._bias = np.fromiter(params.logit_bias.values(), np.float32)
        self._stop_ids = np.array(sorted(stop_ids), np.int64)
        self._seen: NDArray[np.bool_] | None = None
        self._counts: Counter[int] = Counter()
        self._penalty: Row | None = None
        if params.repetition_penalty != 1:
            self._seen = np.zeros(vocab_size, np.bool_)
            self._seen[np.array(prompt_ids, np.int64)] = True
        if params.frequency_penalty or params.presence_penalty:
            self._penalty = np.zeros(vocab_size, np.float32)
        self._adjusts = bool(params.logit_bias) or self._seen is not None or self._penalty is not None

    @property
    def greedy_raw(self) -> bool:
        """True where the argmax of the raw logits is the draw, here and at every later position of the request."""
        return self._params.greedy and not self._adjusts and not self._stops_masked

    def draw(self, logits: torch.Tensor, position: int) -> int:
        """The target's own token for absolute `position` (index in prompt + output), from its logits [V]."""
        row = self._adjusted(host_row(logits))
        if self._params.greedy:
            return int(row.argmax())
        scores = self._scaled(row)
        return gumbel_argmax(scores, noise_key(self._seed, position), ids=truncate(scores, self._params))

    def distribution(self, logits: torch.Tensor) -> Row:
        """Probabilities float32 [V] that `draw` draws from; one-hot where greedy."""
        row = self._adjusted(host_row(logits))
        probs = np.zeros_like(row)
        if self._params.greedy:
            probs[row.argmax()] = 1
            return probs
        scores = self._scaled(row)
        ids = truncate(scores, self._params)
        kept: Ids | slice = slice(None) if ids is None else ids
        weights = np.exp(scores[kept])
        probs[kept] = weights / weights.sum(dtype=np.float64)
        return probs

    def commit(self, token: int) -> None:
        """Appends an emitted token."""
        self._emitted += 1
        if self._seen is not None:
            self._seen[token] = True
        if self._penalty is not None:
            self._counts[token] += 1
            self._penalty[token] = self._params.presence_penalty + self._params.frequency_penalty * self._counts[token]

    @property
    def _stops_masked(self) -> bool:
        return self._emitted < self._params.min_tokens

    def _adjusted(self, row: Row) -> Row:
        """Bias, min_tokens and penalties applied; the row itself where there are none."""
        if not self._adjusts and not self._stops_masked:
            return row
        row = row.copy()
        row[self._bias_ids] += self._bias
        if self._stops_masked:
            row[self._stop_ids] = -np.inf
        if self._seen is not None:
            ids = np.flatnonzero(self._seen)
            values = row[ids]
            factor = np.float32(self._params.repetition_penalty)
            row[ids] = np.where(values > 0, values / factor, values * factor)
        if self._penalty is not None:
            row -= self._penalty
        return row

    def _scaled(self, row: Row) -> Row:
        """Scores at the temperature, shifted so that the best is 0 (which keeps their differences precise)."""
        temperature = np.float32(max(self._params.temperature, float(np.finfo(np.float32).tiny)))
        scores: Row = row - row.max()
        with np.errstate(over="ignore"):
            scores /= temperature
        return scores


def gumbel_argmax(scores: Row, key: NoiseKey, *, ids: Ids | None = None) -> int:
    """argmax of scores + Gumbel noise over `ids` (ascending; None: all). The best score must be 0, and among `ids`.

    Noise is bounded, so a token can only win with a score within that bound of what the best token already has, and
    most of those are ruled out by their bits before a logarithm is taken. Exact: equal to the noise of all of them.
    """
    values = scores if ids is None else scores[ids]
    best = values.argmax()
    lead = gumbel_scalar(key, int(best if ids is None else ids[best]))
    near = np.flatnonzero(values >= lead - NOISE_MAX - 1e-4)
    tokens = near if ids is None else ids[near]
    bits = noise_bits(key, tokens.astype(np.uint32))
    rivals = np.flatnonzero(may_exceed(bits, lead - values[near]))
    totals = values[near[rivals]].astype(np.float64) + gumbel_of_bits(bits[rivals])
    return int(tokens[rivals[totals.argmax()]])


def truncate(scores: Row, params: SamplingParams) -> Ids | None:
    """Token ids that min_p, top_k and top_p leave, ascending; None for all. The best score must be 0."""
    ids: Ids | None = None
    if params.min_p > 0:
        ids = np.flatnonzero(scores >= math.log(params.min_p))
    if params.top_k > 0:
        ids = best_ids(scores, params.top_k) if ids is None else ids[best_ids(scores[ids], params.top_k)]
    if params.top_p < 1:
        ids = _nucleus(scores, params.top_p) if ids is None else ids[_nucleus(scores[ids], params.top_p)]
    return ids


def validate_for_vocab(params: SamplingParams, vocab_size: int) -> None:
    """Raises ValueError where the parameters name a token id that the model does not have."""
    for name, ids in (("logit_bias", params.logit_bias), ("stop_token_ids", params.stop_token_ids)):
        for token in ids:
            if not 0 <= token < vocab_size:
                raise ValueError(f"{name} names token id {token}; this model's ids are 0 to {vocab_size - 1}")


def _nucleus(scores: Row, top_p: float) -> Ids:
    """Positions of the fewest best scores that hold `top_p` of the mass, ascending; only as many as needed sorted."""
    weights = np.exp(scores)
    needed = top_p * weights.sum(dtype=np.float64)
    for ids in windows(scores):
        if weights[ids].sum(dtype=np.float64) >= needed:
            break
    values = scores[ids]
    ordered = np.sort(values)[::-1]
    mass = np.cumsum(np.exp(ordered), dtype=np.float64)
    count = min(int(np.searchsorted(mass, needed)) + 1, len(ids))
    return ids[cut(values, count, threshold=ordered[count - 1])]
