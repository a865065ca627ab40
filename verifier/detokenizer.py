"""Detokenizer: tokens of one request to text as they come, with stop strings found token by token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from protos.sampling_params import SamplingParams

CONTEXT = 8
UNFINISHED = "\ufffd"
LONGEST_CHARACTER = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Text that can be shown now, and the stop string that ended it, if one did."""

    text: str
    stop: str | None = None


class Detokenizer:
    """Holds back what may still change: an unfinished character, or the beginning of a stop string."""

    def __init__(self, tokenizer: Any, prompt_ids: tuple[int, ...], params: SamplingParams) -> None:
        self._tokenizer = tokenizer
        self._params = params
        self._window = list(prompt_ids[-CONTEXT:])
        self._known = len(self._window)
        self._held = ""
        self._pushed = 0

    def push(self, token: int) -> Piece:
        """Adds one token. After a stop string nothing more may be pushed."""
        self._pushed += 1
        self._held += self._new_text(token)
        if not self._params.stop or self._pushed <= self._params.min_tokens:
            return self._show(len(self._held))
        found = self._first_stop()
        if found is not None:
            at, stop = found
            end = at + len(stop) if self._params.include_stop_str_in_output else at
            return Piece(text=self._show(end).text, stop=stop)
        return self._show(len(self._held) - self._undecided())

    def flush(self) -> Piece:
        """The rest, once the text has ended without a stop string; an unfinished character shows as U+FFFD."""
        known = self._decode(self._window[: self._known])
        self._held += self._decode(self._window)[len(known) :]
        return self._show(len(self._held))

    def _new_text(self, token: int) -> str:
        """What the token adds to the text of the window; nothing yet while its last character is unfinished.

        Tokens are decoded in a window of the last few, because some change the text of those beside them.
        """
        self._window.append(token)
        known, now = self._decode(self._window[: self._known]), self._decode(self._window)
        if now == known:  # a token without text of its own, such as an end token
            self._window.pop()
            return ""
        if now.endswith(UNFINISHED) and len(self._window) - self._known < LONGEST_CHARACTER:
            return ""
        self._window = self._window[self._known :]
        self._known = len(self._window)
        return now[len(known) :]

    def _decode(self, ids: list[int]) -> str:
        text: str = self._tokenizer.decode(ids, skip_special_tokens=True)
        return text

    def _show(self, end: int) -> Piece:
        text, self._held = self._held[:end], self._held[end:]
        return Piece(text=text)

    def _first_stop(self) -> tuple[int, str] | None:
        found = [(self._held.find(stop), stop) for stop in self._params.stop]
        return min(((at, stop) for at, stop in found if at >= 0), default=None)

    def _undecided(self) -> int:
        """Length of the longest end of the held text that begins a stop string."""
        longest = max(len(stop) for stop in self._params.stop) - 1
        for size in range(min(longest, len(self._held)), 0, -1):
            if any(stop.startswith(self._held[-size:]) for stop in self._params.stop):
                return size
        return 0
