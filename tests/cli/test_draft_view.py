"""DraftView and SourceSpans: the shown text is the verdicts' text, each piece under its token's source."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

import pytest
from rich.console import Console
from transformers import AutoTokenizer

from protos.messages import Finish, RequestStats, Verdict
from protos.sampling_params import SamplingParams
from protos.speculation_counts import SpeculationCounts
from services.cli.draft_view import DraftView, SourceSpans
from verifier.detokenizer import Detokenizer

TEXT = "naïve 🙂 text, stop here"


def verdicts(model: str, *, step: int, stop: str = "") -> Iterator[Verdict]:
    """TEXT as an engine would show it, `step` tokens at a time, the first of each drafted."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    detokenizer = Detokenizer(tokenizer, (), SamplingParams(stop=[stop] if stop else []))
    ids = tuple(tokenizer(TEXT)["input_ids"])
    for start in range(0, len(ids), step):
        tokens, text, found = ids[start : start + step], "", False
        for token in tokens:
            piece = detokenizer.push(token)
            text += piece.text
            if piece.stop:
                found = True
                break
        last = found or start + step >= len(ids)
        if last and not found:
            text += detokenizer.flush().text
        sources = ("suffix",) + ("",) * (len(tokens) - 1)
        stats = RequestStats(
            speculation=SpeculationCounts(num_drafts=1, drafted=4, verified=4, accepted_per_pos=(1,)), steps=1
        )
        yield Verdict(
            request_id="r",
            tokens=tokens,
            sources=sources,
            text=text,
            finish=Finish.STOP if last else None,
            stats=stats,
        )
        if last:
            return


@pytest.mark.parametrize("step", [1, 2, 3, 7])
@pytest.mark.parametrize("stop", ["", "stop"])
def test_pieces_join_to_the_whole_text(model: str, step: int, stop: str) -> None:
    spans = SourceSpans(AutoTokenizer.from_pretrained(model), ())
    for verdict in verdicts(model, step=step, stop=stop):
        assert "".join(text for text, _ in spans.split(verdict)) == verdict.text


def test_each_byte_token_colours_its_own_character(model: str) -> None:
    """One token a byte, the first of each pair drafted: ASCII alternates, an emoji belongs to its last byte."""
    spans = SourceSpans(AutoTokenizer.from_pretrained(model), ())
    pieces = [piece for verdict in verdicts(model, step=2) for piece in spans.split(verdict)]
    assert pieces[:2] == [("n", "suffix"), ("a", "")]
    sources = dict.fromkeys(text for text, _ in pieces)
    assert "🙂" in sources
    byte = len("naïve 🙂".encode()) - 1
    assert dict(pieces)["🙂"] == ("suffix" if byte % 2 == 0 else "")


def show(model: str, console: Console) -> str:
    view = DraftView(console, AutoTokenizer.from_pretrained(model), ())
    for verdict in verdicts(model, step=3):
        view.show(verdict)
    view.sum_up(seconds=2.0)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_without_colour_guessed_text_is_in_brackets(model: str) -> None:
    shown = show(model, Console(file=io.StringIO(), width=20))
    assert "\x1b" not in shown
    assert shown.startswith("⟦n⟧a⟦ï⟧")
    assert shown.partition("\n")[0].replace("⟦", "").replace("⟧", "") == TEXT


def test_with_colour_there_are_no_brackets_and_no_line_breaks(model: str) -> None:
    shown = show(model, Console(file=io.StringIO(), width=20, force_terminal=True, color_system="truecolor"))
    assert "⟦" not in shown
    assert "\x1b[" in shown.partition("n")[0]
    assert re.sub("\x1b\\[[^m]*m", "", shown).partition("\n")[0] == TEXT


def test_the_sums_come_from_the_statistics(model: str) -> None:
    shown = show(model, Console(file=io.StringIO(), width=200))
    tokens = len(AutoTokenizer.from_pretrained(model)(TEXT)["input_ids"])
    assert f"{tokens} tokens in 2.0 s, {tokens / 2:.1f} tok/s, accepted length 2.00, 1 of 4 drafted" in shown


def test_line_breaks_have_no_colour(model: str) -> None:
    """A terminal that scrolls would fill the new line with the background."""
    console = Console(file=io.StringIO(), width=20, force_terminal=True, color_system="truecolor")
    tokens = tuple(AutoTokenizer.from_pretrained(model)("a\n\nb")["input_ids"])
    view = DraftView(console, AutoTokenizer.from_pretrained(model), ())
    view.show(Verdict(request_id="r", tokens=tokens, sources=("suffix",) * len(tokens), text="a\n\nb"))
    assert isinstance(console.file, io.StringIO)
    assert "a\x1b[0m\n" in console.file.getvalue()
    assert not re.search(r"\x1b\[[^m]*4\d[^m]*m\n", console.file.getvalue())
