"""The draft model: same weights, same draws, at any temperature, after any acceptance."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks.harness.tiny import VOCAB_SIZE
from drafters.context import DrafterContext
from drafters.draft_model_config import DraftModelConfig
from drafters.registry import build_drafter
from modeling.sampling import TokenSampler
from modeling.target import TargetSpec, load_target
from protos.interfaces import Drafter
from protos.sampling_params import SamplingParams
from tests.drafters.contract import DrafterContract
from tests.drafters.draft_models import build, spied, target_text
from tests.fakes.queries import GREEDY, query, with_prompt


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
        SamplingParams(temperature=0, seed=5, presence_penalty=2, frequency_penalty=2, min_tokens=9),
    ],
)
def test_same_weights_draw_the_target_s_own_tokens(checkpoint: Path, params: SamplingParams) -> None:
    """The first query comes after the target's first token, as from an engine: that token is the answer's."""
    target = load_target(TargetSpec(model=str(checkpoint), dtype="fp32", threads=1, max_num_seqs=1))
    prompt = (10, 20, 30, 40, 50)
    truth = target_text(target, prompt, params, 32)
    drafter = build(checkpoint, num_speculative_tokens=6)
    done, seen = 1, 0
    for kept in (6, 0, 3, 6, 1):  # accepted of each draft, then one token of the target's own
        text = prompt + truth[:done]
        (chunk,) = drafter.draft([with_prompt(query(text, seen=seen, params=params), len(prompt))])
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


def test_the_sampler_reads_each_token_once(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    committed: list[int] = []
    commit = TokenSampler.commit

    def counting(sampler: TokenSampler, token: int) -> None:
        committed.append(token)
        commit(sampler, token)

    monkeypatch.setattr(TokenSampler, "commit", counting)
    drafter = build(checkpoint, num_speculative_tokens=1)
    text = tuple(range(60))
    list(drafter.draft([with_prompt(query(text[:50]), 10)]))
    committed.clear()
    for length in range(51, 60):
        list(drafter.draft([with_prompt(query(text[:length], seen=length - 1), 10)]))
    assert len(committed) == 9 * 2  # the new token and the guess
    committed.clear()
    list(drafter.draft([with_prompt(query(text[:40], seen=39), 10)]))  # truncated: from the prompt again
    assert committed[:30] == list(range(10, 40))


def test_a_bias_beyond_the_draft_model_s_vocabulary(checkpoint: Path) -> None:
    context = DrafterContext(target=str(checkpoint), vocab_size=400, max_num_seqs=2, dtype="fp32", threads=1)
    drafter = build_drafter(DraftModelConfig(model=str(checkpoint)), context)
    (plain,) = drafter.draft([query((1, 2, 3))])
    wanted = (plain.tokens[0] + 1) % 250
    params = SamplingParams(temperature=0, seed=1, logit_bias={399: 100.0, wanted: 100.0})
    (biased,) = drafter.draft([query((1, 2, 3), request_id="b", params=params)])
    assert biased.tokens == (wanted,) * 5


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


def test_a_tokenizer_that_adds_a_mark_does_not_stutter(checkpoint: Path) -> None:
    """Case M2. Ids cross, not text: what the draft model reads is what the target read, with nothing put in front."""
    drafter = build(checkpoint)
    works = spied(drafter)
    (chunk,) = drafter.draft([query((256, 1, 2))])
    assert works[0].tokens == (256, 1, 2)
    assert torch.tensor(chunk.tokens).max() < VOCAB_SIZE
