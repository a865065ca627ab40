"""ToyTarget: a tiny language model behind the real TokenSampler, with the rows of a draft as a verifier has them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from modeling.sampling import TokenSampler
from protos.draft import ANCHOR, Draft
from protos.sampling_params import SamplingParams


def draft_of(tokens: Sequence[int], parents: Sequence[int] | None = None) -> Draft:
    parents = range(-1, len(tokens) - 1) if parents is None else parents
    return Draft(
        request_id="r",
        base_len=0,
        tokens=tuple(tokens),
        parents=tuple(parents),
        survival=(1.0,) * len(tokens),
        sources=("toy",) * len(tokens),
    )


def random_tree(rng: np.random.Generator, *, nodes: int, vocab: int) -> Draft:
    parents = [int(rng.integers(-1, i)) for i in range(nodes)]
    return draft_of(rng.integers(vocab, size=nodes).tolist(), parents)


class ToyTarget:
    """The next token's logits depend on the two tokens before it. `emit` ends the text at a stop id or max_tokens."""

    def __init__(self, params: SamplingParams, *, vocab: int = 6, stop_ids: frozenset[int] = frozenset()) -> None:
        self.vocab = vocab
        self.params = params
        self.stop_ids = stop_ids
        self.text = [1, 2]
        self.prompt_len = len(self.text)
        self.sampler = TokenSampler(params, prompt_ids=self.text, stop_ids=stop_ids, vocab_size=vocab)
        self.table = torch.randn(vocab, vocab, vocab, generator=torch.Generator().manual_seed(7)) * 1.5
        self.finished = False
        self.drawn_rows: list[int] = []
        self.base = len(self.text)
        self.draft = draft_of([])

    @property
    def output(self) -> list[int]:
        return self.text[self.prompt_len :]

    def verify(self, draft: Draft) -> None:
        """Stands for the forward over anchor and draft: from here on rows are those of `draft`."""
        self.draft, self.base, self.drawn_rows = draft, len(self.text), []

    def logits(self, row: int) -> torch.Tensor:
        context: list[int] = []
        node = row - 1
        while node != ANCHOR:
            context.insert(0, self.draft.tokens[node])
            node = self.draft.parents[node]
        before = self.text[: self.base] + context
        return self.table[before[-2], before[-1]]

    def draw(self, row: int) -> int:
        self.drawn_rows.append(row)
        return self.sampler.draw(self.logits(row), len(self.text))

    def distribution(self, row: int) -> np.ndarray:
        self.drawn_rows.append(row)
        return self.sampler.distribution(self.logits(row))

    def emit(self, token: int) -> bool:
        assert not self.finished, "a token after the end"
        self.sampler.commit(token)
        self.text.append(token)
        self.finished = token in self.stop_ids or len(self.output) == self.params.max_tokens
        return not self.finished
