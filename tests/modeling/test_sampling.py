"""TokenSampler against plain references: processing, exactness of the shortcut, law, seeds."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from modeling import sampling
from modeling.noise import gumbel, gumbel_of_bits
from modeling.sampling import TokenSampler, validate_for_vocab
from protos.sampling_params import SamplingParams


def sampler(params: SamplingParams, *, prompt=(), stop=(), vocab=64) -> TokenSampler:
    return TokenSampler(params, prompt_ids=prompt, stop_ids=frozenset(stop), vocab_size=vocab)


@st.composite
def rows(draw):
    """Logits as models give them: any spread, sometimes bf16, so that ties are common."""
    vocab = draw(st.sampled_from([2, 3, 17, 300, 2000]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    row = torch.randn(vocab, generator=generator) * draw(st.sampled_from([0.0, 0.5, 3.0, 20.0]))
    return row.to(draw(st.sampled_from([torch.float32, torch.bfloat16])))


@st.composite
def drawing_params(draw):
    return SamplingParams(
        temperature=draw(st.sampled_from([1e-40, 0.01, 0.5, 1.0, 1.7, 100.0])),
        top_k=draw(st.sampled_from([-1, 0, 1, 2, 50, 5000])),
        top_p=draw(st.sampled_from([1e-6, 0.3, 0.9, 0.999999, 1.0])),
        min_p=draw(st.sampled_from([0.0, 0.01, 0.5, 1.0])),
        seed=draw(st.integers(0, 2**63 - 1)),
    )


def full_draw(row: torch.Tensor, params: SamplingParams, position: int) -> int:
    """The same draw with the noise of every token, the vocabulary sorted, nothing skipped."""
    scores = row.float().numpy()
    with np.errstate(over="ignore"):
        scores = (scores - scores.max()) / np.float32(max(params.temperature, np.finfo(np.float32).tiny))
    noise = gumbel(params.seed, position, torch.arange(len(row))).double().numpy()
    totals = scores.astype(np.float64) + noise
    kept = list(kept_by_sorting(scores, params))
    return max(kept, key=lambda token: (totals[token], -token))


def kept_by_sorting(scores: np.ndarray, params: SamplingParams) -> list[int]:
    order = [i for i in sorted(range(len(scores)), key=lambda i: (-scores[i], i)) if scores[i] > -np.inf]
    if params.min_p > 0:
        order = [i for i in order if scores[i] >= np.float32(np.log(params.min_p))]
    if params.top_k > 0:
        order = order[: params.top_k]
    if params.top_p < 1:
        mass = np.cumsum(np.exp(scores[order]), dtype=np.float64)
        needed = params.top_p * np.exp(scores[sorted(order)]).sum(dtype=np.float64)
        order = [token for i, token in enumerate(order) if i == 0 or mass[i - 1] < needed]
    return order


@settings(max_examples=300, deadline=None)
@given(rows(), drawing_params(), st.integers(0, 2**31))
def test_draw_equals_the_full_computation(row, params, position):
    assert sampler(params, vocab=len(row)).draw(row, position) == full_draw(row, params, position)


@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.5, 5.0])
@pytest.mark.parametrize("limits", [{}, {"top_p": 0.95}, {"top_k": 40, "top_p": 0.8}])
def test_draw_equals_the_full_computation_on_a_large_vocabulary(temperature, limits):
    row = torch.randn(49152, generator=torch.Generator().manual_seed(1)) * 2.5
    for seed in range(5):
        params = SamplingParams(temperature=temperature, seed=seed, **limits)
        assert sampler(params, vocab=len(row)).draw(row, 77) == full_draw(row, params, 77)


def test_few_tokens_of_a_large_vocabulary_need_their_noise(monkeypatch):
    """The shortcut is one: logarithms are taken for some hundred of 49152 tokens."""
    taken = []
    monkeypatch.setattr(sampling, "gumbel_of_bits", lambda bits: taken.append(len(bits)) or gumbel_of_bits(bits))
    row = torch.randn(49152, generator=torch.Generator().manual_seed(1)) * 2.5
    for seed in range(20):
        sampler(SamplingParams(seed=seed), vocab=len(row)).draw(row, 3)
    assert len(taken) == 20
    assert sum(taken) < 20 * 1000


@settings(max_examples=200, deadline=None)
@given(rows(), drawing_params())
def test_distribution_is_the_softmax_over_what_the_limits_leave(row, params):
    probs = sampler(params, vocab=len(row)).distribution(row)
    with np.errstate(over="ignore"):
        scores = (row.float().numpy() - row.float().numpy().max()) / np.float32(max(params.temperature, 1.2e-38))
    expected = np.zeros(len(row))
    kept = kept_by_sorting(scores, params)
    expected[kept] = np.exp(scores[kept].astype(np.float64)) / np.exp(scores[kept].astype(np.float64)).sum()
    assert probs.dtype == np.float32
    np.testing.assert_allclose(probs, expected, atol=1e-6)


def test_processing_order_and_formulae_are_vllms():
    """Bias, then penalties (repetition first, over prompt and output; the others over output), then temperature."""
    row = torch.tensor([2.0, -1.0, 0.5, 1.0, 3.0])
    params = SamplingParams(
        temperature=0.5,
        repetition_penalty=2.0,
        frequency_penalty=0.25,
        presence_penalty=0.5,
        logit_bias={0: -4.0, 4: -1.0},
        seed=0,
    )
    drawing = sampler(params, prompt=(1, 3, 3), vocab=5)
    for token in (0, 0, 2):
        drawing.commit(token)
    adjusted = torch.tensor([(2 - 4) * 2 - 2 * 0.25 - 0.5, -1 * 2, 0.5 / 2 - 0.25 - 0.5, 1 / 2, 3 - 1])
    torch.testing.assert_close(torch.from_numpy(drawing.distribution(row)), (adjusted / 0.5).softmax(0))
    torch.testing.assert_close(row, torch.tensor([2.0, -1.0, 0.5, 1.0, 3.0]))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 9), max_size=30), st.lists(st.integers(0, 9), max_size=10), st.integers(0, 2**32))
def test_penalties_count_what_was_committed(output, prompt, seed):
    """S3: the parameters act, on every committed token exactly once."""
    params = SamplingParams(
        temperature=0, presence_penalty=0.7, frequency_penalty=-0.3, repetition_penalty=1.3, seed=seed
    )
    row = torch.randn(10, generator=torch.Generator().manual_seed(seed))
    drawing, counts = sampler(params, prompt=prompt, vocab=10), Counter(output)
    for token in output:
        drawing.commit(token)
    value = [float(x) for x in row]
    for token in set(prompt) | set(output):
        value[token] *= 1.3 if value[token] < 0 else 1 / 1.3
        value[token] -= 0.7 * (counts[token] > 0) - 0.3 * counts[token]
    drawn = drawing.draw(row, 0)
    assert value[drawn] == pytest.approx(max(value), abs=1e-5)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_bias_holds_on_every_draw(temperature):
    """S4: a token biased by -100 never appears, however likely it was."""
    row = torch.zeros(8)
    row[3] = 50.0
    params = SamplingParams(temperature=temperature, logit_bias={3: -100.0}, seed=5)
    drawing = sampler(params, vocab=8)
    assert 3 not in {drawing.draw(row, position) for position in range(500)}


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_min_tokens_masks_the_end_until_enough_were_emitted(temperature):
    row = torch.zeros(8)
    row[2] = 60.0
    drawing = sampler(SamplingParams(temperature=temperature, min_tokens=3, seed=5), stop=(2,), vocab=8)
    text = []
    for position in range(5):
        text.append(drawing.draw(row, position))
        drawing.commit(text[-1])
    assert [token == 2 for token in text] == [False, False, False, True, True]


def test_greedy_raw_tells_when_plain_argmax_will_do():
    assert sampler(SamplingParams(temperature=0)).greedy_raw
    assert not sampler(SamplingParams(temperature=0.1, seed=1)).greedy_raw
    for adjusting in ({"presence_penalty": 0.1}, {"frequency_penalty": 0.1}, {"repetition_penalty": 1.1}):
        assert not sampler(SamplingParams(temperature=0, **adjusting)).greedy_raw
    assert not sampler(SamplingParams(temperature=0, logit_bias={1: 1.0})).greedy_raw
    pending = sampler(SamplingParams(temperature=0, min_tokens=1), stop=(2,))
    assert not pending.greedy_raw
    pending.commit(7)
    assert pending.greedy_raw


def test_greedy_takes_the_lowest_of_the_best():
    """C2, where a row is looked at on the host; where it is not, argmax_lowest decides."""
    row, greedy = torch.tensor([0.0, 5.0, 5.0, 1.0]), sampler(SamplingParams(temperature=0), vocab=4)
    assert greedy.draw(row, 4) == 1
    assert greedy.distribution(row).tolist() == [0, 1, 0, 0]


def test_ties_at_top_k_go_to_the_lowest_ids():
    row = torch.tensor([1.0, 2.0, 1.0, 1.0, 2.0])
    kept = sampler(SamplingParams(top_k=3, seed=0), vocab=5).distribution(row) > 0
    assert kept.tolist() == [True, True, False, False, True]


@pytest.mark.parametrize("limits", [{}, {"top_p": 0.9}, {"top_k": 4}, {"min_p": 0.2}])
@pytest.mark.parametrize("temperature", [0.5, 1.5])
def test_draws_over_seeds_follow_the_distribution(temperature, limits):
    """C9: the temperature that the text is drawn at is the request's."""
    row = torch.tensor([1.0, 0.3, -0.5, 2.0, 1.9, 0.0, -2.0, 1.0])
    drawn, trials = Counter(), 5000
    for seed in range(trials):
        params = SamplingParams(temperature=temperature, seed=seed * 2**40 + 1, **limits)
        drawing = sampler(params, vocab=8)
        drawn[drawing.draw(row, 6)] += 1
    probs = drawing.distribution(row).astype(np.float64)
    if not limits:
        np.testing.assert_allclose(probs, (row / temperature).softmax(0), atol=1e-6)
    kept = np.flatnonzero(probs)
    assert set(drawn) <= set(kept.tolist())
    expected = probs[kept] / probs[kept].sum() * trials
    assert stats.chisquare([drawn[i] for i in kept], expected).pvalue > 1e-4


def test_seed_decides_the_text():
    """S6, S8: the same seed gives the same tokens, another seed others; positions of one seed are independent."""
    row = torch.zeros(1000)

    def text(seed: int) -> list[int]:
        drawing = sampler(SamplingParams(seed=seed), vocab=1000)
        return [drawing.draw(row, position) for position in range(50)]

    assert text(3) == text(3)
    assert len({tuple(text(seed)) for seed in (3, 4, 3 + 2**62)}) == 3
    assert len(set(text(3))) > 40


def test_a_seed_is_required_unless_greedy():
    with pytest.raises(ValueError, match="seed"):
        sampler(SamplingParams(temperature=1.0))


@pytest.mark.parametrize("params", [{"logit_bias": {64: 1.0}}, {"stop_token_ids": (99,)}])
def test_ids_outside_the_vocabulary_are_refused(params):
    """Z2: by name, before they reach an index."""
    with pytest.raises(ValueError, match=r"(logit_bias|stop_token_ids) names token id \d+"):
        validate_for_vocab(SamplingParams(**params), 64)
    validate_for_vocab(SamplingParams(logit_bias={63: 1.0}, stop_token_ids=(0,)), 64)
