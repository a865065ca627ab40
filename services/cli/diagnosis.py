"""likely_cause: why drafts are seldom accepted, from the figures alone."""

from __future__ import annotations

from dataclasses import dataclass

from protos.messages import RequestStats

LOW = 0.3
RARE = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a run over several prompts showed. stats: of all answers together.

    answers_ended: share that reached an end token by themselves. failures: times the drafter failed or came too late.
    """

    method: str
    temperature: float
    stats: RequestStats
    answers_ended: float
    failures: int = 0

    @property
    def first(self) -> float:
        """Acceptance of a draft's first token."""
        return next(iter(self.stats.speculation.acceptance_by_position), 0.0)


def likely_cause(evidence: Evidence) -> str | None:
    """One sentence on the likeliest cause of low acceptance, with what to do; None where acceptance is fine."""
    return next((cause for holds, cause in _rules(evidence) if holds), None)


def _rules(seen: Evidence) -> list[tuple[bool, str | None]]:
    """What explains the figures, most certain first."""
    suffix, steps, drafts = seen.method == "suffix", seen.stats.steps, seen.stats.speculation
    return [
        (seen.failures > 0, f"the drafter failed or came too late {seen.failures} times; the log says why"),
        (
            not drafts.num_drafts and suffix,
            "the text does not repeat itself, and suffix guesses nothing but repetitions",
        ),
        (not drafts.num_drafts, f"{seen.method} drafted nothing in {steps} steps; the log may say why"),
        (
            seen.first >= LOW and drafts.num_drafts < RARE * steps,
            f"guesses are good but rare: a draft in {drafts.num_drafts} of {steps} steps",
        ),
        (seen.first >= LOW, None),
        (
            not drafts.accepted and not suffix,
            "not one token was accepted: the drafter's tokenizer or vocabulary is another than the model's",
        ),
        (
            seen.temperature > 0,
            f"at temperature {seen.temperature:g} the text is harder to guess; compare with --temperature 0",
        ),
        (suffix, "text seldom goes on as it did before; suffix pays on code edits, quotes and repeated answers"),
        (
            not seen.answers_ended,
            "no answer came to an end: perhaps the chat template is not the model's; compare with --raw",
        ),
        (True, "the drafter writes another text than the model: it was made for another model or kind of text"),
    ]
