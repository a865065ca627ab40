"""run_training: a training run from names and paths: target, answers and net are made of them, then it trains."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from drafters.training.answers import Answer, digest, read_answers, split_answers
from drafters.training.assembly import make_trainee
from drafters.training.evaluation_prompts import is_evaluation
from drafters.training.feature_store import FeatureStore
from drafters.training.features import TargetFeatures
from drafters.training.folder import RunFolder
from drafters.training.ranks import joined_ranks, local_device
from drafters.training.recipe import Recipe
from drafters.training.run import Material, Observer, Run, Sitting
from modeling.provenance import provenance
from modeling.refusals import check_device
from modeling.target import Target, TargetSpec, load_target
from protos.messages import Tokens
from services.prompts import encode_chat

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOrder:
    """What to train, on which answers, for which target, and where it goes. features: a folder that keeps what the
    target computes, None for none. command: what the user typed, for the provenance."""

    recipe: Recipe
    target: TargetSpec
    data: Path
    out: Path
    features: Path | None
    resume: bool
    command: Sequence[str]


def run_training(order: TrainingOrder, sitting: Sitting, observer: Observer) -> None:
    """Blocks until the schedule or the sitting is over. ValueError before anything long where something cannot be."""
    folder, answers = RunFolder(order.out), _answers(order.data)
    spec = replace(order.target, device=local_device(order.target.device))
    with joined_ranks(check_device(spec.device)) as ranks, folder.held() if ranks.leads else nullcontext():
        state = folder.open(resume=order.resume)
        target = load_target(spec, progress=observer.prepares if ranks.leads else logger.info)
        material = _material(order, target, answers)
        if ranks.leads:
            train, held_out = len(material.split.train), len(material.split.held_out)
            observer.prepares(f"{train} answers to train on, {held_out} held out")
        Run(material, folder, ranks=ranks, state=state).train(sitting, observer)


def _answers(path: Path) -> list[Answer]:
    """Those that may be trained on; ValueError where the file has none at all."""
    found = read_answers(path)
    if not found:
        raise ValueError(f"{str(path)!r} holds no answers; paradraft data makes some")
    kept = [answer for answer in found if not is_evaluation(answer.prompt)]
    if len(kept) < len(found):
        logger.warning("%d answers left out: to prompts that drafters are evaluated on", len(found) - len(kept))
    return kept


def _material(order: TrainingOrder, target: Target, answers: Sequence[Answer]) -> Material:
    recipe = order.recipe
    encode = partial(_encode, target.tokenizer)
    split = split_answers(answers, encode, held_out=recipe.held_out, max_length=recipe.max_length)
    trainee = make_trainee(recipe, target, split, revision=order.target.revision)
    computed = TargetFeatures(target, trainee.feature_layers, law_size=recipe.law_size)
    return Material(
        recipe=recipe,
        split=split,
        source=computed if order.features is None else FeatureStore(order.features, computed),
        trainee=trainee,
        origin={
            "target": {"model": target.name, "fingerprint": target.fingerprint, "dtype": str(target.dtype)},
            "answers": {"file": order.data.name, "sha256": digest(order.data), "count": len(answers)},
        },
        made_by=provenance(order.command),
    )


def _encode(tokenizer: Any, prompt: str) -> Tokens:
    return encode_chat([{"role": "user", "content": prompt}], tokenizer).ids
