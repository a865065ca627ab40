"""The doctor's checks: what must hold of a model, a tokenizer and this machine before speculation can pay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch

from modeling.target import Target
from modeling.work import Work
from services.cli.drafter_origin import DrafterOrigin, drafter_origins
from services.config import EngineArgs
from services.in_process import local_drafter

SAMPLES = (
    "The quick brown fox jumps over the lazy dog.",
    "def add(a, b):\n    return a + b\n",
    "  two spaces,\ttab,\n\nblank line",
    "naïve café, Ελλάδα, 東京, 🙂👩‍🔬",
)
NUM_ROWS = 24


class State(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The outcome of one check, in a sentence."""

    name: str
    state: State
    detail: str


def check_target(target: Target) -> Iterator[Check]:
    """Every check that needs the target alone, in the order a reader wants them."""
    for check in (
        check_load,
        check_tokenizer,
        check_vocabulary,
        check_end_tokens,
        check_chat_template,
        check_row_invariance,
    ):
        yield check(target)


def check_drafter(args: EngineArgs, target: Target) -> Iterator[Check]:
    """Whether the drafter can be built for this target; a drafter refuses another tokenizer or vocabulary itself."""
    if args.speculative_config is None:
        yield Check(name="drafter", state=State.WARN, detail="none configured; every token costs a whole step")
        return
    method = args.speculative_config.method
    try:
        drafter = local_drafter(args, target)
        origins = list(drafter_origins(args.speculative_config.drafter, target))
    except (ValueError, OSError) as error:
        yield Check(name="drafter", state=State.FAIL, detail=f"{method}: {error}")
        return
    if drafter is not None:
        drafter.shutdown()
    yield Check(name="drafter", state=State.OK, detail=f"{method} fits the model's tokenizer and vocabulary")
    for origin in origins:
        yield check_origin(origin, target)


def check_origin(origin: DrafterOrigin, target: Target) -> Check:
    """Weights that were trained on another model's answers fit by their shapes, and guess badly."""
    name, made = "drafter's target", f"{origin.weights} was trained for {origin.model} in {origin.dtype}"
    foreign = origin.is_foreign_to(target)
    if foreign:
        prints = f"of fingerprint {origin.fingerprint}, not {target.fingerprint}"
        detail = f"{made}, {prints}: few drafts will be accepted; train a drafter for this model (docs/training.md)"
        return Check(name=name, state=State.WARN, detail=detail)
    doubt = f"; whether with these weights cannot be told in {target.dtype}" if foreign is None else ", as it is here"
    return Check(name=name, state=State.OK, detail=made + doubt)


def check_load(target: Target) -> Check:
    """What was loaded. A KV cache that cannot be cut back (sliding window, recurrent) was refused by now."""
    dtype = str(target.dtype).removeprefix("torch.")
    detail = (
        f"{target.config.model_type}, {target.config.num_hidden_layers} layers, {dtype} on {target.runner.device}, "
        f"{torch.get_num_threads()} threads, {target.runner.num_slots} slots of {target.max_model_len} tokens, "
        "KV cache can be cut back"
    )
    return Check(name="loads", state=State.OK, detail=detail)


def check_tokenizer(target: Target) -> Check:
    """Text that does not survive encoding and decoding is answered from a prompt that the user did not write."""
    name, tokenizer = "tokenizer round trip", target.tokenizer
    for sample in SAMPLES:
        back = tokenizer.decode(tokenizer(sample, add_special_tokens=False)["input_ids"])
        if back.strip() != sample.strip():
            return Check(name=name, state=State.FAIL, detail=f"{sample!r} comes back as {back!r}")
        if back != sample:
            return Check(name=name, state=State.WARN, detail=f"outer spaces change: {sample!r} comes back as {back!r}")
    return Check(name=name, state=State.OK, detail=f"{len(SAMPLES)} texts come back as they were")


def check_vocabulary(target: Target) -> Check:
    """Ids beyond the embedding would crash; rows beyond the tokenizer are padding and harmless."""
    known, rows = len(target.tokenizer), target.vocab_size
    detail = f"tokenizer has {known} ids, the model {rows} rows"
    if known > rows:
        return Check(name="vocabulary", state=State.FAIL, detail=f"{detail}; the tokenizer belongs to another model")
    return Check(
        name="vocabulary", state=State.OK, detail=detail + (f", {rows - known} of them padding" * (rows > known))
    )


def check_end_tokens(target: Target) -> Check:
    """Without an end token every answer runs to max_tokens."""
    ids = sorted(target.eos_ids)
    if not ids:
        return Check(name="end tokens", state=State.FAIL, detail="none; set eos_token_id in generation_config.json")
    outside = [token for token in ids if not 0 <= token < target.vocab_size]
    if outside:
        return Check(name="end tokens", state=State.FAIL, detail=f"{outside} are outside the vocabulary")
    shown = ", ".join(f"{target.tokenizer.convert_ids_to_tokens(token)} ({token})" for token in ids)
    return Check(name="end tokens", state=State.OK, detail=shown)


def check_chat_template(target: Target) -> Check:
    """The template must open the assistant's turn, and close it with an end token, or answers never stop."""
    name, tokenizer = "chat template", target.tokenizer
    if not tokenizer.chat_template:
        return Check(name=name, state=State.WARN, detail="none: plain completion only")
    ask: list[dict[str, str]] = [{"role": "user", "content": "Hi"}]
    closed = tokenizer.apply_chat_template(ask, tokenize=False)
    opened = tokenizer.apply_chat_template(ask, tokenize=False, add_generation_prompt=True)
    if opened == closed:
        return Check(name=name, state=State.WARN, detail="does not open the assistant's turn")
    answered = tokenizer.apply_chat_template([*ask, {"role": "assistant", "content": "Hello"}], tokenize=False)
    after = tokenizer(answered.rpartition("Hello")[2], add_special_tokens=False)["input_ids"]
    if not set(after) & target.eos_ids:
        shown = tokenizer.decode(after)
        return Check(name=name, state=State.WARN, detail=f"closes a turn with {shown!r}, which is no end token")
    return Check(name=name, state=State.OK, detail=f"opens with {opened.removeprefix(closed)!r}")


def check_row_invariance(target: Target) -> Check:
    """Whether a token's logits have the same bits alone and verified among others: exactness rests on it."""
    ids = _some_ids(target.tokenizer)
    alone = _logits_one_by_one(target, ids)
    together = target.runner.forward([Work(slot=0, start=0, tokens=ids, num_logits=len(ids))]).logits
    differing = int((alone != together).any(dim=-1).sum())
    if differing == 0:
        detail = f"{len(ids)} rows have the same bits one by one and together: text with drafts equals text without"
        return Check(name="row invariance", state=State.OK, detail=detail)
    detail = f"{differing} of {len(ids)} rows differ by up to {(alone - together).abs().max().item():.2g}"
    on_cpu = target.runner.device.type == "cpu"
    if on_cpu:
        return Check(name="row invariance", state=State.FAIL, detail=f"{detail}; drafts may change the text")
    return Check(name="row invariance", state=State.WARN, detail=f"{detail}: near-ties can flip on this device")


def _some_ids(tokenizer: Any) -> tuple[int, ...]:
    ids = [token for sample in SAMPLES for token in tokenizer(sample, add_special_tokens=False)["input_ids"]]
    return tuple(ids[:NUM_ROWS])


def _logits_one_by_one(target: Target, ids: tuple[int, ...]) -> torch.Tensor:
    rows = [
        target.runner.forward([Work(slot=0, start=start, tokens=(token,), num_logits=1)]).logits.clone()
        for start, token in enumerate(ids)
    ]
    return torch.cat(rows)
