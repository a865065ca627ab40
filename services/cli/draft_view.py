"""DraftView: an answer on the terminal, each token in the colour of whoever guessed it, and the sums below."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.text import Text

from protos.messages import Tokens, Verdict
from protos.sampling_params import SamplingParams
from protos.speculation_counts import SpeculationCounts
from verifier.detokenizer import Detokenizer

TARGET = ""
STYLES = ("black on green3", "black on deep_sky_blue1", "black on gold1", "black on orchid1", "black on cyan1")


class DraftView:
    """Prints verdicts as they come. Where the output has no colour, guessed text stands between ⟦ and ⟧."""

    def __init__(self, console: Console, tokenizer: Any, prompt_ids: Tokens) -> None:
        self._console = console
        self._spans = SourceSpans(tokenizer, prompt_ids)
        self._coloured = console.is_terminal and not console.no_color
        self._styles: dict[str, str] = {}
        self._marked = False
        self._by_source: Counter[str] = Counter()
        self._drafts = SpeculationCounts()

    def show(self, verdict: Verdict) -> None:
        """Prints what the verdict lets be shown."""
        self._by_source.update(verdict.sources)
        self._drafts = verdict.stats.speculation
        for text, source in self._spans.split(verdict):
            self._print(text, source)
        if verdict.finish is not None:
            self._mark(drafted=False)

    def sum_up(self, *, seconds: float) -> None:
        """The legend, and the figures of the whole answer."""
        tokens = self._by_source.total()
        drafts, by_source = self._drafts, self._by_source
        legend = Text("\n")
        for source in sorted(by_source.keys() - {TARGET}):
            legend.append(f" {source} ", style=self._style(source)).append(f" guessed {by_source[source]}, ")
        legend.append(f"the model drew {by_source[TARGET]} unaided")
        self._console.print(legend, soft_wrap=True)
        self._console.print(
            f"{tokens} tokens in {seconds:.1f} s, {tokens / seconds:.1f} tok/s, "
            f"accepted length {drafts.accepted_length:.2f}, "
            f"{drafts.accepted} of {drafts.drafted} drafted tokens accepted ({drafts.num_drafts} drafts)",
            style="dim",
            highlight=False,
            soft_wrap=True,
        )

    def _print(self, text: str, source: str) -> None:
        self._mark(drafted=source != TARGET)
        shown = Text(text)
        if self._coloured:
            # A line break with a background would paint the whole next line where the terminal scrolls.
            shown.highlight_regex(r"[^\n]+", self._style(source))
        self._console.print(shown, end="", soft_wrap=True, highlight=False)

    def _mark(self, *, drafted: bool) -> None:
        if not self._coloured and drafted != self._marked:
            self._console.print(Text("⟦" if drafted else "⟧"), end="")
            self._marked = drafted

    def _style(self, source: str) -> str:
        if source == TARGET:
            return ""
        return self._styles.setdefault(source, STYLES[len(self._styles) % len(STYLES)])


class SourceSpans:
    """Divides shown text by the source of its tokens: text may come later than its token (unfinished character)."""

    def __init__(self, tokenizer: Any, prompt_ids: Tokens) -> None:
        self._texts = Detokenizer(tokenizer, prompt_ids, SamplingParams())
        self._spans: deque[tuple[int, str]] = deque()

    def split(self, verdict: Verdict) -> Iterator[tuple[str, str]]:
        """Pieces of `verdict.text` with the source of each; together they are the whole text."""
        for token, source in zip(verdict.tokens, verdict.sources, strict=True):
            if text := self._texts.push(token).text:
                self._spans.append((len(text), source))
        rest = verdict.text
        while rest:
            size, source = self._spans.popleft() if self._spans else (len(rest), TARGET)
            if size > len(rest):
                self._spans.appendleft((size - len(rest), source))
            yield rest[:size], source
            rest = rest[size:]
