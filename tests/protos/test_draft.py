"""Draft: whatever chunks arrive and however it is cut, a draft stays well-formed and means what it meant."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.draft import ANCHOR, Draft
from protos.messages import DraftChunk

TOKENS = st.integers(0, 4)  # few ids, so that siblings and repeats happen


@st.composite
def drafts(draw: st.DrawFn, *, chain: bool = False) -> Draft:
    size = draw(st.integers(0, 12))
    parents = tuple(i - 1 if chain else draw(st.integers(ANCHOR, i - 1)) for i in range(size))
    survival: list[float] = []
    for parent in parents:
        survival.append(draw(st.floats(0.0, 1.0)) * (1.0 if parent == ANCHOR else survival[parent]))
    return Draft(
        request_id="r",
        base_len=draw(st.integers(0, 100)),
        tokens=tuple(draw(TOKENS) for _ in range(size)),
        parents=parents,
        survival=tuple(survival),
        sources=tuple(draw(st.sampled_from(["suffix", "draft_model"])) for _ in range(size)),
    )


def well_formed(draft: Draft) -> bool:
    lengths = {len(draft.tokens), len(draft.parents), len(draft.survival), len(draft.sources)}
    return (
        lengths == {len(draft)}
        and all(ANCHOR <= parent < i for i, parent in enumerate(draft.parents))
        and all(
            0.0 <= own <= (1.0 if parent == ANCHOR else draft.survival[parent])
            for own, parent in zip(draft.survival, draft.parents, strict=True)
        )
    )


def paths(draft: Draft) -> list[tuple[int, ...]]:
    """Tokens from the anchor to each node, by node."""
    found: list[tuple[int, ...]] = []
    for token, parent in zip(draft.tokens, draft.parents, strict=True):
        found.append((() if parent == ANCHOR else found[parent]) + (token,))
    return found


def chunk_of(draft: Draft, start: int, stop: int) -> DraftChunk:
    return DraftChunk(
        request_id=draft.request_id,
        base_len=draft.base_len,
        offset=start,
        tokens=draft.tokens[start:stop],
        parents=draft.parents[start:stop],
        survival=draft.survival[start:stop],
        source="suffix",
    )


@given(drafts(), st.lists(st.integers(0, 12), max_size=4))
def test_chunks_in_order_make_the_whole(draft: Draft, cuts: Sequence[int]) -> None:
    bounds = sorted({0, len(draft), *(cut for cut in cuts if cut < len(draft))})
    built = Draft(request_id="r", base_len=draft.base_len)
    for start, stop in itertools.pairwise(bounds):
        built = built.extend(chunk_of(draft, start, stop))
    assert built == replace(draft, sources=("suffix",) * len(draft))


@given(drafts(), drafts())
def test_extend_takes_any_chunk_and_stays_well_formed(draft: Draft, other: Draft) -> None:
    """Whatever a drafter sends, also another base, another offset or a repeat."""
    for offset in (0, len(draft), len(draft) + 1):
        for base_len in (draft.base_len, other.base_len):
            chunk = replace(chunk_of(other, 0, len(other)), offset=offset, base_len=base_len)
            assert well_formed(draft.extend(chunk))


GOOD = DraftChunk(request_id="r", base_len=5, offset=1, tokens=(8, 9), parents=(0, 1), survival=(0.4, 0.2))


@pytest.mark.parametrize(
    "wrong",
    [
        {"request_id": "other"},
        {"base_len": 4},
        {"offset": 0},
        {"offset": 2},
        {"parents": (0,)},
        {"survival": (0.4,)},
        {"tokens": (8,)},
        {"parents": (1, 1)},
        {"parents": (0, 2)},
        {"parents": (-2, 0)},
        {"survival": (0.6, 0.2)},
        {"survival": (0.4, 0.5)},
        {"survival": (float("nan"), 0.2)},
        {"survival": (0.4, float("nan"))},
        {"survival": (0.4, -0.1)},
        {"survival": (float("inf"), 0.2)},
    ],
    ids=str,
)
def test_extend_drops_what_does_not_fit(wrong: dict[str, object]) -> None:
    draft = Draft(request_id="r", base_len=5, tokens=(7,), parents=(ANCHOR,), survival=(0.5,), sources=("s",))
    assert len(draft.extend(GOOD)) == 3
    assert draft.extend(replace(GOOD, **wrong)) is draft  # type: ignore[arg-type]


@given(drafts(), st.integers(-2, 14))
def test_take_keeps_the_first_nodes(draft: Draft, n: int) -> None:
    taken = draft.take(n)
    assert well_formed(taken)
    assert paths(taken) == paths(draft)[: max(n, 0)]
    assert taken.base_len == draft.base_len


@given(drafts(), st.integers(-2, 14))
def test_best_prefix_keeps_the_likeliest_nodes_with_their_ancestors(draft: Draft, n: int) -> None:
    best = draft.best_prefix(n)
    assert well_formed(best)
    assert len(best) == max(0, min(n, len(draft)))
    assert sorted(best.survival, reverse=True) == sorted(draft.survival, reverse=True)[: len(best)]
    assert set(paths(best)) <= set(paths(draft))


@given(drafts(), st.integers(0, 12), st.integers(0, 12))
def test_cutting_twice_is_cutting_once(draft: Draft, n: int, m: int) -> None:
    assert draft.take(n).take(m) == draft.take(min(n, m))
    assert draft.best_prefix(n).best_prefix(m) == draft.best_prefix(min(n, m))


@given(drafts(), st.lists(TOKENS, max_size=4))
def test_after_keeps_only_what_still_fits(draft: Draft, committed: list[int]) -> None:
    rest = draft.after(committed)
    assert well_formed(rest)
    assert rest.base_len == draft.base_len + len(committed)
    whole = set(paths(draft))
    assert all((*committed, *path) in whole for path in paths(rest))


@given(drafts(chain=True), st.integers(0, 12))
def test_after_an_accepted_chain_leaves_its_tail(draft: Draft, accepted: int) -> None:
    committed = draft.tokens[:accepted]
    rest = draft.after(committed)
    assert rest.is_chain
    assert rest.tokens == draft.tokens[len(committed) :]
    assert rest.sources == draft.sources[len(committed) :]


@given(drafts(), st.lists(TOKENS, max_size=3), st.lists(TOKENS, max_size=3))
def test_after_in_two_steps_is_after_in_one(draft: Draft, first: list[int], second: list[int]) -> None:
    stepwise, at_once = draft.after(first).after(second), draft.after(first + second)
    assert (stepwise.base_len, stepwise.tokens, stepwise.parents) == (at_once.base_len, at_once.tokens, at_once.parents)


def test_after_a_disagreement_is_empty() -> None:
    draft = Draft(request_id="r", base_len=5, tokens=(1, 2), parents=(-1, 0), survival=(0.9, 0.8), sources=("s", "s"))
    assert draft.after([3]) == Draft(request_id="r", base_len=6)
    assert draft.after([1, 2, 9]) == Draft(request_id="r", base_len=8)


def test_after_scales_survival_by_what_has_come_true() -> None:
    draft = Draft(request_id="r", base_len=5, tokens=(1, 2), parents=(-1, 0), survival=(0.5, 0.25), sources=("s", "s"))
    assert draft.after([1]).survival == (0.5,)
    assert replace(draft, survival=(0.0, 0.0)).after([1]).survival == (0.0,)


def test_a_tree_keeps_the_branch_that_was_taken() -> None:
    draft = Draft(
        request_id="r",
        base_len=0,
        tokens=(1, 2, 3, 4, 5),
        parents=(-1, -1, 0, 1, 3),
        survival=(0.6, 0.4, 0.5, 0.3, 0.2),
        sources=("a", "b", "a", "b", "b"),
    )
    taken = draft.after([2])
    assert (taken.tokens, taken.parents, taken.sources) == ((4, 5), (-1, 0), ("b", "b"))
    assert draft.depths() == (1, 1, 2, 2, 3)
    assert not draft.is_chain
    assert taken.is_chain
