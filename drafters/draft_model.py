"""DraftModel: a small causal LM with the target's tokenizer guesses token by token, for all requests at once.

The classical drafter (arXiv 2211.17192, 2302.01318). It draws with the target's own noise, so that where both models
agree about the distribution they draw the same token at any temperature (arXiv 2408.07978).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace

import torch

from drafters.chains import chain, no_draft, waves
from drafters.checkpoints import check_same_tokenizer, fitting_max_len, load_tokenizer
from drafters.context import DrafterContext
from drafters.draft_model_config import DraftModelConfig
from drafters.draft_model_state import SlotState
from drafters.net_methods import naming_method
from drafters.slots import SlotTable
from modeling.sampling import TokenSampler
from modeling.target import TargetSpec, load_target
from modeling.work import Runner, Work
from protos.messages import DraftChunk, DraftQuery, Tokens

logger = logging.getLogger(__name__)

INGEST_ROWS = 128


@dataclass(slots=True, kw_only=True)
class _Growing:
    """A draft while it grows."""

    query: DraftQuery
    state: SlotState
    sampler: TokenSampler
    limit: int
    tokens: list[int] = field(default_factory=list)
    survival: list[float] = field(default_factory=list)

    @property
    def unread(self) -> int:
        """Tokens of the text that the model has yet to process; at least the last one, for its logits."""
        return max(len(self.state.text) - self.state.rows, 1)

    def work(self, rows: int) -> Work:
        """The last guess, or before there is one at most `rows` tokens of the text."""
        state = self.state
        if self.tokens:
            start = len(state.text) + len(state.guessed)
            return Work(slot=state.slot, start=start, tokens=(self.tokens[-1],), num_logits=1)
        start = len(state.text) - self.unread
        return Work(slot=state.slot, start=start, tokens=tuple(state.text[start : start + rows]), num_logits=1)

    def processed(self, work: Work) -> bool:
        """Notes the rows that a forward of `work` has written; True where its logits are those of the last token."""
        if self.tokens:
            self.state.guessed.append(self.tokens[-1])
            return True
        self.state.rows = work.start + len(work.tokens)
        return self.state.rows == len(self.state.text)

    def chunk(self) -> DraftChunk:
        """The finished draft, a chain."""
        return chain(self.query, self.tokens, self.survival, source="draft_model")


class DraftModel:
    """A Drafter over a `Runner`, with one KV slot a request.

    More requests than slots: those of one call that find no slot get empty drafts, and one that could have a slot now
    answers `need_from=0`. Ids at and above `vocab_size` are never proposed. A text longer than the runner's `max_len`
    gets empty drafts. One call reads INGEST_ROWS tokens of long tails, first come first served; what the last draft and
    the target's token added to a text does not count.
    """

    def __init__(
        self, runner: Runner, config: DraftModelConfig, *, vocab_size: int, stop_ids: Collection[int] = ()
    ) -> None:
        self._runner = runner
        self._config = config
        self._vocab_size = min(vocab_size, runner.vocab_size)
        self._stop_ids = frozenset(token for token in stop_ids if token < self._vocab_size)
        self._slots = SlotTable(SlotState, num_slots=runner.num_slots, max_len=runner.max_len)

    def draft(self, queries: Sequence[DraftQuery]) -> Iterator[DraftChunk]:
        asking = {query.request_id for query in queries}
        for wave in waves(queries):
            growing: list[_Growing] = []
            for query in wave:
                state = self._slots.find(query, keep=asking)
                if state is not None and len(state.text) >= query.tail_start:
                    growing.append(self._started(query, state))
                else:
                    yield no_draft(query, need_from=self._slots.need_from(query, state, keep=asking))
            yield from self._grow(growing)

    def close(self, request_id: str, *, tail_start: int = 0, tail: Tokens = ()) -> None:  # noqa: ARG002
        self._slots.release(request_id)

    def _started(self, query: DraftQuery, state: SlotState) -> _Growing:
        # An id that only the target has is padding there, without a meaning that the draft model could miss.
        last_id = self._vocab_size - 1
        state.synchronise(query.tail_start, [min(token, last_id) for token in query.tail])
        room = self._runner.max_len - query.base_len
        limit = min(query.budget, self._config.num_speculative_tokens, room)
        # Guesses are committed to a copy: those that do not come true leave nothing behind.
        sampler = deepcopy(self._sampler(query, state))
        return _Growing(query=query, state=state, sampler=sampler, limit=limit)

    def _sampler(self, query: DraftQuery, state: SlotState) -> TokenSampler:
        """The request's sampler, which has committed the answer so far."""
        if state.sampler is None:
            biases = {token: bias for token, bias in query.params.logit_bias.items() if token < self._vocab_size}
            state.sampled = min(query.prompt_len, query.base_len)
            state.sampler = TokenSampler(
                replace(query.params, logit_bias=biases),
                prompt_ids=state.text[: state.sampled],
                stop_ids=self._stop_ids,
                vocab_size=self._vocab_size,
            )
        for token in state.text[state.sampled :]:
            state.sampler.commit(token)
        state.sampled = len(state.text)
        return state.sampler

    def _grow(self, growing: Sequence[_Growing]) -> Iterator[DraftChunk]:
        """One packed forward a round for all drafts that still grow; each is given out as soon as it is finished."""
        unfinished: list[_Growing] = []
        works: list[Work] = []
        left = INGEST_ROWS
        for drawing in growing:
            ordinary = drawing.unread <= self._config.num_speculative_tokens + 1
            rows = drawing.unread if ordinary else min(drawing.unread, left)
            nothing_to_do = drawing.limit <= 0 and ordinary
            if nothing_to_do or not drawing.state.text or rows == 0:
                yield drawing.chunk()
                continue
            left -= 0 if ordinary else rows
            unfinished.append(drawing)
            works.append(drawing.work(rows))
        while unfinished:
            logits = self._runner.forward(works).logits[:, : self._vocab_size].float()
            log_probs = torch.log_softmax(logits, dim=-1)
            still = []
            for row, (drawing, work) in enumerate(zip(unfinished, works, strict=True)):
                if drawing.processed(work) and drawing.limit > 0 and self._draw(drawing, logits[row], log_probs[row]):
                    still.append(drawing)
                else:
                    yield drawing.chunk()
            unfinished = still
            works = [drawing.work(1) for drawing in unfinished]

    def _draw(self, drawing: _Growing, logits: torch.Tensor, log_probs: torch.Tensor) -> bool:
        """Draws the next token as the target would; False where the draft is finished."""
        token = drawing.sampler.draw(logits, drawing.query.base_len + len(drawing.tokens))
        survival = (drawing.survival[-1] if drawing.survival else 1.0) * float(log_probs[token].exp())
        if survival < self._config.min_survival:
            return False
        drawing.sampler.commit(token)
        drawing.tokens.append(token)
        drawing.survival.append(survival)
        return len(drawing.tokens) < drawing.limit and token not in self._stop_ids


def build_draft_model(config: DraftModelConfig, context: DrafterContext) -> DraftModel:
    """Loads the draft model; ValueError where it is none, or its tokenizer is not the target's."""
    with naming_method(config, context):
        spec = TargetSpec(
            model=config.weights,
            revision=config.revision,
            dtype=config.draft_dtype or context.dtype,
            device=config.draft_device or context.device,
            threads=config.draft_threads or context.threads,
            max_num_seqs=context.max_num_seqs,
            max_model_len=fitting_max_len(config.weights, config.revision, context.max_model_len),
            kv_cache_gib=config.draft_kv_cache_gib,
        )
        draft = load_target(spec)
    check_same_tokenizer(load_tokenizer(context.target, context.revision), draft.tokenizer)
    if draft.runner.num_slots < context.max_num_seqs:
        logger.warning(
            "the draft model holds %d of %d sequences, the others get no drafts; raise draft_kv_cache_gib (%s)",
            draft.runner.num_slots,
            context.max_num_seqs,
            config.draft_kv_cache_gib,
        )
    return DraftModel(draft.runner, config, vocab_size=context.vocab_size, stop_ids=draft.eos_ids)
