"""Questions: what the drafter is asked in a step, with the features that it lacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from modeling.features import FeatureSlots
from protos.messages import DraftQuery
from verifier.sequence import Sequence

PORTION_BYTES = 32 * 2**20  # half of what a transport's frame may hold (protos.codec.MAX_BODY_BYTES)
BYTES = 2  # of a number of a feature, in bf16


class Questions:
    """Makes a query for each sequence of a step.

    Features of long texts go to the drafter in portions, at most `portion_bytes` a step, first come first served: a
    query of a part of the text asks for no tokens, and a sequence for which nothing is left is not asked. So no round
    outgrows a frame, however long the prompts, and a drafter that starts anew is not flooded.

    A prompt is announced as soon as the target begins to process it, so that a drafter can look around meanwhile.
    """

    def __init__(self, features: FeatureSlots | None, *, limit: int, portion_bytes: int = PORTION_BYTES) -> None:
        """limit: most tokens of a draft. features: None where the drafter reads none."""
        self._features = features
        self._limit = limit
        self._portion = 0 if features is None else max(portion_bytes // (BYTES * features.width), 1)

    def wanted(self, sequence: Sequence) -> bool:
        """Whether a draft could be of use, now or soon."""
        return sequence.draft_room(self._limit) > 0 and (sequence.decoding or not sequence.announced)

    def of(self, sequences: Iterable[Sequence]) -> Iterator[tuple[Sequence, DraftQuery]]:
        """Those that are asked, each with its query."""
        left = self._portion
        for sequence in sequences:
            if not sequence.decoding:
                yield sequence, sequence.query(0)
                continue
            budget = sequence.draft_room(self._limit)
            if self._features is None:
                yield sequence, sequence.query(budget)
                continue
            known, end = max(sequence.drafter_len - 1, 0), len(sequence.tokens) - 1
            stop = min(end, known + left)
            left -= stop - known
            features = self._features.read(sequence.slot, known, stop)
            if stop == end:
                yield sequence, sequence.query(budget, features=features)
            elif stop > known:
                yield sequence, sequence.query(0, features=features, until=stop + 1)
            else:
                sequence.forget_draft()
