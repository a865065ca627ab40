"""The draft model: same weights, same draws; slots kept straight; another tokenizer refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from drafters.context import DrafterContext
from drafters.draft_model import MAX_WORK_TOKENS, DraftModel
from drafters.draft_model_config import DraftModelConfig
from drafters.registry import build_drafter
from modeling.sampling import TokenSampler
from modeling.target import Target, TargetSpec, load_target
from modeling.work import Forward, Work
from protos.interfaces import Drafter
from protos.messages import Tokens
from protos.sampling_params import SamplingParams
from tests.drafters.contract import DrafterContract
from tests.fakes.queries import GREEDY, query
from tests.fakes.tiny_llama import VOCAB_SIZE, save_tiny_llama


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_llama(tmp_path_factory.mktemp("tiny"))


def build(checkpoint: Path, *, vocab_size: int = VOCAB_SIZE, seqs: int = 4, **config: Any) -> DraftModel:
    context = DrafterContext(target=str(checkpoint), vocab_size=vocab_size, max_num_seqs=seqs, dtype="fp32", threads=1)
    drafter = build_drafter(DraftModelConfig(model=str(checkpoint), **config), context)
    assert isinstance(drafter, DraftModel)
    return drafter


def target_text(target: Target, prompt: Tokens, params: SamplingParams, count: int) -> Tokens:
    """Plain decoding: the tokens that the target itself draws."""
    sampler = TokenSampler(params, prompt_ids=prompt, stop_ids=target.eos_ids, vocab_size=target.vocab_size)
    text = list(prompt)
    for _ in range(count):
        logits = target.runner.forward([Work(slot=0, start=0, tokens=tuple(text), num_logits=1)]).logits[0]
        token = sampler.draw(logits.float(), len(text))
        sampler.commit(token)
        text.append(token)
    return tuple(text[len(prompt) :])


def spied(drafter: DraftModel) -> list[Work]:
    """The works that the drafter's runner gets from now on."""
    works: list[Work] = []
    forward = drafter._runner.forward

    def spying(given: Sequence[Work], **taps: Any) -> Forward:
        works.extend(given)
        return forward(given, **taps)

    drafter._runner.forward = spying  # type: ignore[method-assign]
    return works


class TestDraftModel(DrafterContract):
    @pytest.fixture(autouse=True)
    def _checkpoint(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint

    def make_drafter(self) -> Drafter:
        return build(self.checkpoint)


@pytest.mark.parametrize(
    "params",
    [
        GREEDY,
        SamplingParams(temperature=0.7, top_p=0.9, seed=3),
        SamplingParams(temperature=1.3, seed=4, presence_penalty=1, frequency_penalty=1, repetition_penalty=1.2),
    ],
)
def test_same_weights_draw_the_target_s_own_tokens(checkpoint: Path, params: SamplingParams) -> None:
    target = load_target(TargetSpec(model=str(checkpoint), dtype="fp32", threads=1, max_num_seqs=1))
    prompt = (10, 20, 30, 40, 50)
    truth = target_text(target, prompt, params, 32)
    drafter = build(checkpoint, num_speculative_tokens=6)
    done, seen = 0, 0
    for kept in (6, 0, 3, 6, 1):  # accepted of each draft, then one token of the target's own
        text = prompt + truth[:done]
        (chunk,) = drafter.draft([query(text, seen=seen, params=params)])
        assert chunk.tokens == truth[done : done + 6]
        assert all(0 < p <= 1 for p in chunk.survival)
        seen, done = len(text), done + kept + 1
    assert done < len(truth)


@pytest.mark.parametrize("accepted", range(5))
def test_rows_after_partial_and_full_acceptance(checkpoint: Path, accepted: int) -> None:
    """The last guess is never processed: with all accepted, the cache lacks one row and is fed it."""
    drafter = build(checkpoint, num_speculative_tokens=4)
    prompt = (1, 2, 3)
    (chunk,) = drafter.draft([query(prompt)])
    assert len(chunk.tokens) == 4
    works = spied(drafter)
    own = (chunk.tokens[accepted] + 1) % 200 if accepted < 4 else 7
    (after,) = drafter.draft([query(prompt + chunk.tokens[:accepted] + (own,), seen=3)])
    assert works[0].start == 3 + min(accepted, 3)
    assert works[0].tokens == (chunk.tokens[3:4] if accepted == 4 else ()) + (own,)
    (fresh,) = build(checkpoint, num_speculative_tokens=4).draft([query(prompt + chunk.tokens[:accepted] + (own,))])
    assert after.tokens == fresh.tokens


def test_long_prompt_is_ingested_in_pieces(checkpoint: Path) -> None:
    text = tuple(i % 250 for i in range(MAX_WORK_TOKENS + 100))
    drafter = build(checkpoint)
    works = spied(drafter)
    (long,) = drafter.draft([query(text)])
    assert [len(work.tokens) for work in works[:2]] == [MAX_WORK_TOKENS, 100]
    (rest,) = drafter.draft([query(text, seen=len(text) - 1)])
    assert rest.tokens == long.tokens


def test_text_up_to_the_last_row_and_beyond(checkpoint: Path) -> None:
    drafter = build(checkpoint, num_speculative_tokens=5)
    text = tuple(i % 250 for i in range(1030))
    (near,) = drafter.draft([query(text[:1022])])
    assert len(near.tokens) == 2
    (full,) = drafter.draft([query(text[:1024], seen=1022)])
    assert (full.tokens, full.need_from) == ((), None)
    (beyond,) = drafter.draft([query(text[:1030], seen=1024)])
    assert (beyond.tokens, beyond.need_from) == ((), None)


def test_more_requests_than_slots(checkpoint: Path) -> None:
    drafter = build(checkpoint, seqs=2)
    texts = {name: (ord(name), 5, 6) for name in "abc"}
    chunks = {c.request_id: c for c in drafter.draft([query(t, request_id=n) for n, t in texts.items()])}
    assert [len(chunks[name].tokens) for name in "abc"] == [5, 5, 0]
    assert chunks["c"].need_from is None
    list(drafter.draft([query(texts["c"], request_id="c")]))  # takes the slot of a, the least recently used
    longer = {name: query((*text, 9), seen=3, request_id=name) for name, text in texts.items()}
    (a,) = drafter.draft([longer["a"]])
    assert (a.tokens, a.need_from) == ((), 0)
    assert all(chunk.tokens for chunk in drafter.draft([longer["b"], longer["c"]]))
    drafter.close("b")
    (again,) = drafter.draft([query((*texts["a"], 9), request_id="a")])
    (c,) = drafter.draft([longer["c"]])
    assert len(again.tokens) == len(c.tokens) == 5


def test_batch_draws_what_each_draws_alone(checkpoint: Path) -> None:
    queries = [
        query((3, 4, 5 + i), request_id=str(i), budget=i, params=SamplingParams(temperature=1, seed=i))
        for i in range(4)
    ]
    together = {chunk.request_id: chunk for chunk in build(checkpoint).draft(queries)}
    drafter = build(checkpoint)
    for one in queries:
        (alone,) = drafter.draft([one])
        assert together[one.request_id].tokens == alone.tokens
        assert len(alone.tokens) == min(one.budget, 5)


def test_same_request_twice_in_one_call(checkpoint: Path) -> None:
    text = (1, 2, 3, 4)
    one, two = build(checkpoint).draft([query(text), query((*text, 9), seen=4)])
    (alone,) = build(checkpoint).draft([query((*text, 9))])
    assert len(one.tokens) == 5
    assert two.tokens == alone.tokens


def test_survival_threshold_ends_a_draft(checkpoint: Path) -> None:
    (whole,) = build(checkpoint).draft([query((1, 2, 3))])
    (cut,) = build(checkpoint, min_survival=whole.survival[2]).draft([query((1, 2, 3))])
    assert cut.tokens == whole.tokens[:3]


def test_vocabulary_padding_is_tolerated_and_never_proposed(checkpoint: Path, tmp_path: Path) -> None:
    padded = save_tiny_llama(tmp_path, vocab_size=320)
    context = DrafterContext(target=str(checkpoint), vocab_size=VOCAB_SIZE, max_num_seqs=2, dtype="fp32", threads=1)
    drafter = build_drafter(DraftModelConfig(model=str(padded)), context)
    params = [SamplingParams(temperature=2, seed=i) for i in range(30)]
    for i, one in enumerate(params):
        (chunk,) = drafter.draft([query((1, 2, 3), request_id=str(i), params=one)])
        assert max(chunk.tokens) < VOCAB_SIZE
        drafter.close(str(i))
    larger = DrafterContext(target=str(padded), vocab_size=320, max_num_seqs=2, dtype="fp32", threads=1)
    (chunk,) = build_drafter(DraftModelConfig(model=str(checkpoint)), larger).draft([query((1, 2, 319))])
    assert max(chunk.tokens) < VOCAB_SIZE


def test_another_tokenizer_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    other = save_tiny_llama(tmp_path, vocab_size=259, extra_token="<extra>")
    context = DrafterContext(target=str(checkpoint), vocab_size=VOCAB_SIZE, max_num_seqs=1, threads=1)
    with pytest.raises(ValueError, match="259 tokens, the target 258; the first difference is id 258: '<extra>'"):
        build_drafter(DraftModelConfig(model=str(other)), context)


@pytest.mark.parametrize("given", [{"model": "/no/such/model"}, {"draft_device": "tpu"}])
def test_wrong_path_or_device_fails_at_start(checkpoint: Path, given: dict[str, Any]) -> None:
    context = DrafterContext(target=str(checkpoint), vocab_size=VOCAB_SIZE)
    with pytest.raises(ValueError, match=r"no/such/model|tpu"):
        build_drafter(DraftModelConfig(**({"model": str(checkpoint)} | given)), context)


def test_a_tokenizer_that_adds_a_mark_does_not_stutter(checkpoint: Path) -> None:
    """Ids cross, not text: what the draft model reads is what the target read, with nothing put in front."""
    drafter = build(checkpoint)
    works = spied(drafter)
    (chunk,) = drafter.draft([query((256, 1, 2))])
    assert works[0].tokens == (256, 1, 2)
    assert torch.tensor(chunk.tokens).max() < VOCAB_SIZE


def test_context_length_is_the_shorter_of_both(checkpoint: Path) -> None:
    for wanted, own in ((100, 100), (5000, 1024)):
        context = DrafterContext(
            target=str(checkpoint), vocab_size=VOCAB_SIZE, max_num_seqs=1, max_model_len=wanted, threads=1
        )
        drafter = build_drafter(DraftModelConfig(model=str(checkpoint)), context)
        (fits,) = drafter.draft([query([5] * (own - 1), request_id="fits")])
        drafter.close("fits")
        (full,) = drafter.draft([query([5] * own, request_id="full")])
        assert (len(fits.tokens), len(full.tokens)) == (1, 0)
