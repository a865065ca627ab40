"""likely_cause: why drafts are seldom accepted, or do not pay, from the figures alone."""

from __future__ import annotations

from dataclasses import dataclass

from protos.messages import RequestStats

LOW = 0.3
RARE = 0.2
NEAR_ZERO = 0.05
FADING = 0.4
SURE = 0.8
OFTEN = 0.1
TRAIN = "train one on this model's answers, or this one longer (docs/training.md)"

Rules = list[tuple[bool, str | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a run over several prompts showed. stats: of all answers together.

    answers_ended: share that reached an end token by themselves. failures: times the drafter failed or came too late.
    draft_share: of the engine's time, what it waited for drafts. longest, min_survival: as configured. made_for: the
    target that the drafter's weights were trained for, where that is known to be another one.
    """

    method: str
    temperature: float
    stats: RequestStats
    answers_ended: float
    failures: int = 0
    draft_share: float = 0.0
    longest: int = 1
    min_survival: float = 0.0
    made_for: str = ""

    @property
    def first(self) -> float:
        """Acceptance of a draft's first token."""
        return next(iter(self.stats.speculation.acceptance_by_position), 0.0)

    @property
    def tokens_per_step(self) -> float:
        """Tokens emitted by a verification, those without a draft included."""
        return 1 + self.stats.speculation.accepted / max(self.stats.steps, 1)

    @property
    def needed_per_step(self) -> float:
        """tokens_per_step from which drafting pays for the time it takes, if to verify a draft cost nothing."""
        return 1 / max(1 - self.draft_share, 0.01)


def likely_cause(evidence: Evidence) -> str | None:
    """One sentence on the likeliest cause of what is wrong, with what to do; None where nothing is."""
    further = _of_good_guesses if evidence.first >= LOW else _of_bad_guesses
    return next((cause for holds, cause in (*_of_no_guesses(evidence), *further(evidence)) if holds), None)


def _of_no_guesses(seen: Evidence) -> Rules:
    """What explains that drafts are missing, most certain first, as in the others."""
    drafts = seen.stats.speculation.num_drafts
    silent = not drafts
    return [
        (
            seen.failures > 0 and seen.failures >= OFTEN * (seen.failures + drafts),
            f"the drafter failed or came too late {seen.failures} times, beside {drafts} drafts; if a warning "
            "above names an error, that is the cause, else it is too slow: raise draft_timeout_s, lower "
            "num_speculative_tokens, or shrink the drafter",
        ),
        (
            silent and seen.method == "suffix",
            "the text does not repeat itself, and suffix guesses nothing but repetitions",
        ),
        (
            silent and seen.min_survival > 0,
            f"{seen.method} was never as sure of a token as min_survival {seen.min_survival:g} asks; lower it",
        ),
        (silent, f"{seen.method} drafted nothing in {seen.stats.steps} steps; the log may say why"),
    ]


def _of_good_guesses(seen: Evidence) -> Rules:
    """What keeps them from paying, where first tokens are accepted."""
    steps, drafts, cut = seen.stats.steps, seen.stats.speculation, seen.min_survival > 0
    second = next(iter(drafts.acceptance_by_position[1:]), 0.0) / seen.first
    lower = f"; min_survival {seen.min_survival:g} cuts the others: lower it" if cut else ""
    return [
        (
            drafts.num_drafts < RARE * steps,
            f"guesses are good but rare: a draft in {drafts.num_drafts} of {steps} steps{lower}",
        ),
        (
            seen.tokens_per_step < seen.needed_per_step,
            f"drafting takes {seen.draft_share:.0%} of the time, for which {seen.tokens_per_step:.2f} tokens a step "
            f"are too few (it needs {seen.needed_per_step:.2f}); lower num_speculative_tokens, or shrink the drafter",
        ),
        (
            cut and drafts.drafted < seen.longest / 2 * drafts.num_drafts and drafts.accepted > SURE * drafts.drafted,
            f"{drafts.accepted} of {drafts.drafted} guesses are right, but drafts are short{lower}",
        ),
        (
            drafts.verified >= 2 * drafts.num_drafts and second < FADING,
            f"guesses fade: {seen.first:.0%} of first tokens are right, and {second:.0%} of the second ones after "
            "them; lower num_speculative_tokens, train longer, or take eagle3 or dspark, which see the tokens before",
        ),
    ]


def _of_bad_guesses(seen: Evidence) -> Rules:
    """What explains that first tokens are refused."""
    suffix, reads_features = seen.method == "suffix", seen.method not in {"suffix", "draft_model"}
    return [
        (bool(seen.made_for), f"the drafter was trained for {seen.made_for}, which has other weights; {TRAIN}"),
        (
            not seen.stats.speculation.accepted and seen.method == "draft_model",
            "not one token was accepted, though tokenizer and vocabulary fit: the drafter is hardly trained, or for "
            f"another model; {TRAIN}",
        ),
        (
            seen.temperature > 0,
            f"at temperature {seen.temperature:g} the text is harder to guess; compare with --temperature 0",
        ),
        (suffix, "text seldom goes on as it did before; suffix pays on code edits, quotes and repeated answers"),
        (
            seen.first < NEAR_ZERO and reads_features,
            f"hardly a first token is right ({seen.first:.0%}): the drafter was trained for another model, or hardly "
            f"at all; {TRAIN}",
        ),
        (
            not seen.answers_ended,
            "no answer came to an end: perhaps the chat template is not the model's; compare with --raw",
        ),
        (True, f"the drafter writes another text than the model, which it knows too little; {TRAIN}"),
    ]
