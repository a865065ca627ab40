"""Sequence: one request on its way: its tokens, how many the target has processed, and what is known of its drafts."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modeling.logprobs import token_logprob
from modeling.sampling import TokenSampler
from modeling.target import Target
from protos.draft import Draft
from protos.messages import DraftChunk, DraftQuery, Finish, Request, RequestStats, TokenLogprob, Tokens
from verifier.detokenizer import Detokenizer
from verifier.slot_pool import Lease


class Sequence:
    """`tokens` are all committed ones, prompt first; the first `computed` of them have rows in the slot.

    In decoding exactly the last token, the anchor, is not computed yet. `drafter_len` is the length up to which the
    drafter is known to have seen the tokens. `announced`: the drafter has been asked about this request, or told of it.
    """

    def __init__(self, request: Request, target: Target) -> None:
        params = request.params
        assert params.max_tokens is not None, "admission sets max_tokens"
        self.request = request
        self.arrived = time.monotonic()
        self.tokens = list(request.prompt_ids)
        self.slot = -1
        self.computed = 0
        self.max_len = len(self.tokens) + params.max_tokens
        self.finish: Finish | None = None
        self.stop_reason: int | str | None = None
        self.error: str | None = None
        self.text = ""
        self.logprobs: list[TokenLogprob] = []
        self.stats = RequestStats()
        self.drafter_len = 0
        self.announced = False
        self._budget = 0
        self.draft = Draft(request_id=request.request_id, base_len=0)
        self._vocab_size = target.vocab_size
        self._stops = frozenset(params.stop_token_ids) | (frozenset() if params.ignore_eos else target.eos_ids)
        self.sampler = TokenSampler(
            params,
            prompt_ids=request.prompt_ids,
            stop_ids=target.eos_ids | frozenset(params.stop_token_ids),
            vocab_size=target.vocab_size,
        )
        self._detokenizer = Detokenizer(target.tokenizer, request.prompt_ids, params)

    @property
    def request_id(self) -> str:
        """The request's own id."""
        return self.request.request_id

    @property
    def pending(self) -> list[int]:
        """Committed tokens that the target has not processed."""
        return self.tokens[self.computed :]

    @property
    def decoding(self) -> bool:
        """True once only the anchor is pending and at least one token was generated."""
        return self.computed == len(self.tokens) - 1 and len(self.tokens) > len(self.request.prompt_ids)

    def start(self, lease: Lease) -> None:
        """Starts in a slot whose first rows need not be computed."""
        self.slot, self.computed = lease.slot, lease.shared
        self.stats += RequestStats(cached_prompt_tokens=lease.shared, queue_seconds=time.monotonic() - self.arrived)

    @property
    def looks_at_logits(self) -> bool:
        """True where settling needs more of a row than its best token."""
        return not self.sampler.greedy_raw or self.request.params.logprobs is not None

    def draft_room(self, limit: int) -> int:
        """Most draft tokens worth verifying: the target's own token always comes on top."""
        own = self.request.speculative
        if not own.enabled:
            return 0
        asked = limit if own.num_speculative_tokens is None else min(limit, own.num_speculative_tokens)
        return max(min(asked, self.max_len - len(self.tokens) - 1), 0)

    def query(
        self, budget: int, *, features: NDArray[np.generic] | None = None, until: int | None = None
    ) -> DraftQuery:
        """Asks the drafter for what follows the committed tokens, or the first `until` of them."""
        base_len = len(self.tokens) if until is None else until
        self.forget_draft()
        self.announced = True
        self._budget = budget
        return DraftQuery(
            request_id=self.request_id,
            base_len=base_len,
            tail=tuple(self.tokens[self.drafter_len : base_len]),
            budget=budget,
            params=self.request.params,
            tenant=self.request.tenant,
            prompt_len=len(self.request.prompt_ids),
            features=features,
            method=self.request.speculative.method,
        )

    @property
    def ending(self) -> Tokens:
        """Committed tokens that the drafter is not known to have seen, once the text has ended.

        Nothing where it was never asked, and after an error, which may have left tokens that nobody gets.
        """
        told = self.announced and self.finish is not Finish.ERROR
        return tuple(self.tokens[self.drafter_len :]) if told else ()

    def receive(self, chunk: DraftChunk) -> None:
        """Takes a chunk as a hint: what fits neither the committed tokens, the vocabulary nor the budget is dropped."""
        if chunk.need_from is not None:
            self.drafter_len = min(max(chunk.need_from, 0), self.drafter_len)
            return
        unknown = any(not 0 <= token < self._vocab_size for token in chunk.tokens)
        if unknown or chunk.base_len > len(self.tokens):
            return
        self.drafter_len = max(self.drafter_len, chunk.base_len)
        if chunk.base_len == self.draft.base_len:
            self.draft = self.draft.extend(chunk).take(self._budget)
        elif not self.draft.tokens:
            late = Draft(request_id=self.request_id, base_len=chunk.base_len).extend(chunk)
            self.draft = late.after(self.tokens[chunk.base_len :]).take(self._budget)

    def forget_draft(self) -> None:
        """After a verification: what was drafted has been used or refuted."""
        self.draft = Draft(request_id=self.request_id, base_len=len(self.tokens))

    def emit(self, token: int, logits: Any) -> bool:
        """Commits a token; `logits` [V] is the row it was drawn from. False where the text ends with it."""
        self.tokens.append(token)
        self.sampler.commit(token)
        wanted = self.request.params.logprobs
        if wanted is not None:
            self.logprobs.append(token_logprob(logits, token, wanted))
        self._end_on(token)
        return self.finish is None

    def take_news(self) -> tuple[str, tuple[TokenLogprob, ...]]:
        """Text and logprobs since the last call."""
        news = self.text, tuple(self.logprobs)
        self.text, self.logprobs = "", []
        return news

    def _end_on(self, token: int) -> None:
        if token in self._stops:
            self.finish = Finish.STOP
            self.stop_reason = token if token in self.request.params.stop_token_ids else None
        else:
            piece = self._detokenizer.push(token)
            self.text += piece.text
            if piece.stop is not None:
                self.finish, self.stop_reason = Finish.STOP, piece.stop
                return
            if len(self.tokens) == self.max_len:
                self.finish = Finish.LENGTH
        if self.finish is not None:
            self.text += self._detokenizer.flush().text
