"""StatedText: a text that the target wrote, with its states in several layers, and the prefixes that a drafter has."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.harness.repeating import Visit
from benchmarks.harness.session import Session
from drafters.landmarks import Landmarks
from drafters.prefix_features import WIDTH, PrefixFeatures
from modeling.state_fusion import StateFusion
from modeling.target import Target
from modeling.work import Work
from protos.arrays import BFLOAT16
from protos.draft_files import MAX_PATH, MIN_PATH, Continuation, Namespace
from protos.messages import DraftQuery, Tokens
from protos.sampling_params import SamplingParams

TOGETHER = 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StatedText:
    """visit: what the text answers. tokens: those of prompt and answer. states: by layer, bf16 [tokens, WIDTH]."""

    visit: Visit
    tokens: Tokens
    prompt_len: int
    states: Mapping[int, NDArray[np.generic]]

    def continuations(self, layer: int, pooling: str) -> list[Continuation]:
        """How it goes on after each of its landmarks, as a cached drafter would store it."""
        landmarks, features = Landmarks(self.prompt_len), PrefixFeatures(pooling)
        landmarks.extend(array("i", self.tokens))
        features.write(
            DraftQuery(
                request_id="",
                base_len=len(self.tokens) + 1,
                tail=(*self.tokens, 0),
                budget=0,
                params=SamplingParams(seed=0),
                features=self.states[layer],
            )
        )
        return [
            Continuation(
                namespace=namespace_of(layer, pooling),
                prefix=landmarks.prefix(place, self.tokens, features.before(place)),
                tokens=self.tokens[place : place + MAX_PATH],
            )
            for place in landmarks.places
            if len(self.tokens) - place >= MIN_PATH
        ]


def namespace_of(layer: int, pooling: str) -> Namespace:
    """Where the prefixes of one kind of feature lie."""
    feature = f"layer {layer}, {pooling}"
    return Namespace(tenant="ranking", fingerprint="", tokenizer="", feature=feature, width=WIDTH)


def write_texts(
    target: Target, session: Session, visits: Sequence[Visit], layers: Sequence[int], *, max_tokens: int
) -> list[StatedText]:
    """The target's answers, TOGETHER at a time, then one forward over each text. In the visits' order."""
    prompts = [visit.prompt.encode(target.tokenizer) for visit in visits]
    answers: dict[int, Tokens] = {}
    for temperature in sorted({visit.temperature for visit in visits}):
        places = [place for place, visit in enumerate(visits) if visit.temperature == temperature]
        params = SamplingParams(temperature=temperature, seed=visits[places[0]].seed, max_tokens=max_tokens)
        run = session.run([prompts[place] for place in places], params, concurrency=TOGETHER)
        answers |= dict(zip(places, run.answers, strict=True))
    fusions = {layer: StateFusion(layer, target.config.hidden_size, WIDTH) for layer in layers}
    return [
        StatedText(
            visit=visit,
            tokens=(text := prompts[place] + answers[place]),
            prompt_len=len(prompts[place]),
            states=_states(target, text, fusions),
        )
        for place, visit in enumerate(visits)
    ]


@torch.inference_mode()
def _states(target: Target, text: Tokens, fusions: Mapping[int, StateFusion]) -> dict[int, NDArray[np.generic]]:
    """In one forward, which taps all layers, counted from the first; kept as an engine keeps them."""
    layers = tuple(sorted(fusions))
    taps = target.runner.forward([Work(slot=0, start=0, tokens=text, num_logits=1)], taps=layers).taps
    fused = {layer: fusions[layer]([tap]).to(torch.bfloat16).cpu() for layer, tap in zip(layers, taps, strict=True)}
    return {layer: rows.view(torch.uint16).numpy().view(BFLOAT16) for layer, rows in fused.items()}
