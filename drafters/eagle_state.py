"""EagleState: a request's text, and how much of it an EAGLE net has read; elements: batches of what it is to read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from drafters.agreement import agreeing
from drafters.featured import Features, joined
from drafters.net_model import NetModel
from modeling.eagle_net import EagleNet
from protos.arrays import BFLOAT16
from protos.messages import Tokens


@dataclass(slots=True)
class EagleState:
    """A request's text of L tokens has L - 1 elements (see EagleNet), of which the first `rows` lie in the slot.

    features: of the last elements: all that are not in the slot, and once all are, of the last one still, with whose
    output a draft begins. What else is in the slot is left from a text that was cut.
    """

    slot: int
    tenant: str
    text: list[int] = field(default_factory=list)
    rows: int = 0
    features: Features = field(default_factory=lambda: np.empty((0, 0), BFLOAT16))

    @property
    def unread(self) -> int:
        """Elements that are not in the slot."""
        return max(len(self.text) - 1, 0) - self.rows

    def synchronise(self, tail_start: int, tail: Tokens, features: Features) -> None:
        """Truncates the text to `tail_start`, appends the tail, and notes its features (see DraftQuery).

        The last element is to be read anew. Where a text was cut behind it and nothing follows, its feature is gone;
        the text is then cut by one token more, which the drafter has to ask for.
        """
        same, before = agreeing(self.text, tail_start, tail), max(len(self.text) - 1, 0) - len(self.features)
        self.text[tail_start:] = tail
        first, last = max(tail_start - 1, 0), len(self.text) - 2
        if before > last and first > last >= 0:
            self.text.pop()
            self.rows, self.features = min(self.rows, last), features
            return
        self.rows = min(self.rows, max(same - 1, 0), max(last, 0))
        held, news = self.features[self.rows - before : max(first - before, 0)], features[max(self.rows - first, 0) :]
        self.features = np.concatenate((held, news)) if self.rows < first else news


@dataclass(frozen=True, slots=True, kw_only=True)
class Elements:
    """The next elements of b states, those of a state with fewer than q behind padding.

    embeds, hidden: [b, q, d]; positions: [b, q]; own: bool [b, q], False where padded.
    """

    embeds: torch.Tensor
    hidden: torch.Tensor
    positions: torch.Tensor
    own: torch.Tensor

    def mask(self, seen: torch.Tensor) -> torch.Tensor:
        """What each may look at, bool [b, q, n + q], where of n rows before them `seen` [b, n] are their state's own.
        Padding sees itself, as it must see something."""
        q = self.own.shape[1]
        places = torch.arange(q, device=seen.device)
        among = (self.own[:, None] & (places <= places[:, None])) | (places == places[:, None])
        return torch.cat((seen[:, None].expand(-1, q, -1), among), dim=-1)


def next_elements(model: NetModel[EagleNet], states: Sequence[EagleState], counts: Sequence[int]) -> Elements:
    """The first `counts` unread elements of each state."""
    device, longest = model.device, max(counts)
    parts = list(zip(states, counts, strict=True))
    tokens = [[0] * (longest - n) + state.text[state.rows + 1 : state.rows + 1 + n] for state, n in parts]
    starts = [len(state.features) - state.unread for state in states]
    features = joined([state.features[i : i + n] for i, (state, n) in zip(starts, parts, strict=True)])
    place = torch.arange(longest, device=device)
    own = place >= torch.tensor([[longest - n] for n in counts], device=device)
    embeds = model.embed(torch.tensor(tokens, device=device))
    hidden = torch.zeros_like(embeds)
    hidden[own] = features.to(device, hidden.dtype)
    firsts = torch.tensor([[state.rows + 1 - longest + n] for state, n in parts], device=device)
    return Elements(embeds=embeds, hidden=hidden, positions=(firsts + place).clamp(min=0), own=own)
