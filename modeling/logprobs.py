"""token_logprob: how likely the target found an emitted token, before any sampling parameter."""

from __future__ import annotations

import numpy as np
import torch

from modeling.ranking import best_ids, host_row
from protos.messages import TokenLogprob


def token_logprob(logits: torch.Tensor, token: int, num_top: int) -> TokenLogprob:
    """Log-probability of `token` under the softmax of raw logits [V], with the `num_top` likeliest (id, logprob).

    rank 1 is the likeliest token; equal logits rank by id. Computed in float32.
    """
    row = host_row(logits)
    scores = row - row.max()
    logprobs = scores - np.float32(np.log(np.exp(scores).sum(dtype=np.float64)))
    better = np.count_nonzero(scores > scores[token]) + np.count_nonzero(scores[:token] == scores[token])
    top = best_ids(scores, num_top) if num_top else np.empty(0, np.int64)
    top = top[np.argsort(-scores[top], kind="stable")]
    return TokenLogprob(
        logprob=float(logprobs[token]),
        rank=int(better) + 1,
        top=tuple((int(i), float(logprobs[i])) for i in top),
    )
