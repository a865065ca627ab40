"""A workload whose prompts come back: what was asked in the past, and traffic with an exact share of repeats."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from itertools import islice
from random import Random

from benchmarks.harness.prompts import FOLDER, Prompt, load_prompts

TEMPLATES = FOLDER / "templates.json"
SLOT_SETS = 5
PAST_SLOT_SETS = 2  # of each template, that were asked in the past
AGAIN = 1000  # added to a seed where a prompt is sampled again


class Kind(StrEnum):
    """What a prompt is to the past: new; the same, at T=0; the same, at T=1 and with another seed; the same question in
    other words, or the same words with other names and numbers (T=0)."""

    FRESH = "fresh"
    SAME = "same"
    SAMPLED = "sampled again"
    REWORDED = "reworded"


REPEATS = (Kind.SAME, Kind.SAMPLED, Kind.REWORDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A prompt as it is asked once. Those of the past that are asked at one temperature have seeds that count up."""

    kind: Kind
    prompt: Prompt
    temperature: float
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """past: each of its prompts is asked once, before everything. traffic: by percentage of repeats, in random order;
    no prompt of the traffic comes twice in it."""

    past: tuple[Visit, ...]
    traffic: Mapping[int, tuple[Visit, ...]]


def make_workload(percentages: Sequence[int], count: int) -> Workload:
    """`count` visits for each percentage, the kinds of repeats in turns; always the same for the same arguments.

    ValueError where a percentage of `count` is no whole number, or there are too few prompts.
    """
    repeats, fresh = _repeats(), _fresh()
    traffic = {}
    for percent in percentages:
        if not 0 <= percent <= 100 or count * percent % 100:
            raise ValueError(f"{percent} % of {count} prompts is no whole number of them; choose another count")
        again = count * percent // 100
        visits = [*islice(repeats, again), *islice(fresh, count - again)]
        if len(visits) < count:
            raise ValueError(
                f"{count} prompts for each of {', '.join(map(str, percentages))} % of repeats are more than there are: "
                f"{len(list(_repeats()))} repeats and {len(list(_fresh()))} fresh ones; ask for fewer"
            )
        Random(percent).shuffle(visits)
        traffic[percent] = tuple(visits)
    return Workload(past=tuple(visit for visit, _ in _asked()), traffic=traffic)


def repeating_prompts() -> list[Prompt]:
    """All of them: those of the past, and those that are like one of the past."""
    return [prompt for visit, variant in _asked() for prompt in (visit.prompt, variant)]


def reworded_visits() -> list[Visit]:
    """For each prompt of the past one that is like it."""
    return [replace(visit, kind=Kind.REWORDED, prompt=variant, temperature=0.0) for visit, variant in _asked()]


def fresh_visits() -> list[Visit]:
    """Prompts that are like none of the past; of three of them one is asked at T=1, as of the repeats."""
    return list(_fresh())


@cache
def _asked() -> tuple[tuple[Visit, Prompt], ...]:
    """The past, and beside each prompt one that is like it. A visit's kind: how it comes back."""
    asked: list[tuple[Visit, Prompt]] = []
    for slots in range(PAST_SLOT_SETS):
        for place, template in enumerate(json.loads(TEMPLATES.read_text())):
            prompt = _filled(template, "asked", slots)
            variant = _filled(template, "reworded", slots) if slots == 0 else _filled(template, "asked", slots + 1)
            kind = REPEATS[(place + slots) % len(REPEATS)]
            temperature = _temperature(kind)
            seed = sum(earlier.temperature == temperature for earlier, _ in asked)
            visit = Visit(kind=kind, prompt=prompt, temperature=temperature, seed=seed)
            asked.append((visit, variant))
    return tuple(asked)


def _repeats() -> Iterator[Visit]:
    """The kinds in turns."""
    by_kind = {kind: [pair for pair in _asked() if pair[0].kind is kind] for kind in REPEATS}
    for pairs in zip(*by_kind.values(), strict=True):
        for visit, variant in pairs:
            prompt = variant if visit.kind is Kind.REWORDED else visit.prompt
            yield replace(visit, prompt=prompt, seed=visit.seed + AGAIN)


def _fresh() -> Iterator[Visit]:
    prompts = [*load_prompts("questions"), *load_prompts("chat")]
    Random(0).shuffle(prompts)
    for place, prompt in enumerate(prompts):
        as_of = REPEATS[place % len(REPEATS)]
        yield Visit(kind=Kind.FRESH, prompt=prompt, temperature=_temperature(as_of), seed=2 * AGAIN + place)


def _temperature(kind: Kind) -> float:
    return 1.0 if kind is Kind.SAMPLED else 0.0


def _filled(template: Mapping[str, object], wording: str, number: int) -> Prompt:
    """The template with one of SLOT_SETS values in each slot; each further slot is another step on for its number."""
    slots, text = template["slots"], template[wording]
    assert isinstance(slots, dict)
    assert isinstance(text, str)
    values = {name: given[(number * (place + 1)) % SLOT_SETS] for place, (name, given) in enumerate(slots.items())}
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    kind = str(template["kind"])
    return Prompt(id=f"{template['id']}-{number}-{wording}", kind=kind, prompt=text)
