"""The cached drafter: what draft files say is drafted, late answers hold up no step, texts are added at their end."""

from __future__ import annotations

from array import array
from typing import ClassVar

import numpy as np
import pytest

from drafters.cached import CachedDrafter
from drafters.cached_config import CachedConfig
from drafters.context import DrafterContext
from drafters.landmarks import Landmarks, is_landmark
from drafters.prefix_features import WIDTH, build_prefix_fusion
from protos.arrays import BFLOAT16
from protos.draft_files import Path
from protos.interfaces import AsyncDrafter, Drafter
from protos.messages import DraftChunk, DraftQuery
from tests.drafters.contract import DrafterContract
from tests.fakes.queries import query, with_prompt
from tests.fakes.scripted_draft_files import ScriptedDraftFiles

CONTEXT = DrafterContext(
    target="tiny", vocab_size=100, hidden_size=8, num_layers=3, fingerprint="f", tokenizer="t", max_num_seqs=2
)
PROMPT = tuple(range(10, 22))
ANSWER = tuple(range(30, 70))


def make(files: ScriptedDraftFiles, **keys: object) -> CachedDrafter:
    config = CachedConfig(**({"draft_files": "somewhere", "pooling": "none"} | keys))  # type: ignore[arg-type]
    return CachedDrafter(config, CONTEXT, files)


def ask(drafter: Drafter, one: DraftQuery) -> DraftChunk:
    (chunk,) = drafter.draft([with_prompt(one, len(PROMPT))])
    return chunk


class Primed(DrafterContract):
    keys: ClassVar[dict[str, object]] = {}

    def make_drafter(self) -> Drafter:
        files = ScriptedDraftFiles()
        for length in range(4, len(self.prompt + self.answer)):
            text = self.prompt + self.answer
            files.remember(text[:length][-32:], Path(tokens=text[length : length + 8]))
        return make(files, **self.keys)

    def ask(self, drafter: AsyncDrafter, *queries: DraftQuery) -> dict[str, list[DraftChunk]]:
        """Every query says where the prompt ends: there draft files are asked."""
        prompt_len = len(self.prompt)
        return super().ask(drafter, *(with_prompt(each, min(each.base_len, prompt_len)) for each in queries))


class TestCached(Primed):
    pass


class TestCachedTree(Primed):
    keys: ClassVar = {"num_branches": 4}


@pytest.fixture
def files() -> ScriptedDraftFiles:
    return ScriptedDraftFiles()


def test_a_path_is_drafted_as_far_as_the_budget_goes(files: ScriptedDraftFiles) -> None:
    files.remember(PROMPT, Path(tokens=ANSWER))
    drafter = make(files, min_survival=0.0)
    assert ask(drafter, query(PROMPT, budget=5)).tokens == ANSWER[:5]
    chunk = ask(drafter, query(PROMPT + ANSWER[:3], seen=len(PROMPT), budget=64))
    assert chunk.tokens == ANSWER[3 : 3 + len(chunk.tokens)]
    assert len(chunk.tokens) == 16
    assert chunk.source == "cached"
    assert list(chunk.survival) == sorted(chunk.survival, reverse=True)


def test_a_late_answer_is_used_by_the_next_query(files: ScriptedDraftFiles) -> None:
    files.remember(PROMPT, Path(tokens=ANSWER))
    files.held_back = True
    drafter = make(files)
    assert ask(drafter, query(PROMPT)).tokens == ()
    assert ask(drafter, query(PROMPT + ANSWER[:2], seen=len(PROMPT))).tokens == ()
    files.held_back = False
    assert ask(drafter, query(PROMPT + ANSWER[:5], seen=len(PROMPT) + 2, budget=4)).tokens == ANSWER[5:9]


def test_a_path_helps_on_behind_a_word_that_differs(files: ScriptedDraftFiles) -> None:
    files.remember(PROMPT, Path(tokens=ANSWER))
    drafter = make(files)
    ask(drafter, query(PROMPT))
    other = (*PROMPT, *ANSWER[:6], 99, 98, *ANSWER[6:10])
    assert ask(drafter, query(other, seen=len(PROMPT))).tokens[:2] == ANSWER[10:12]


def test_nothing_is_drafted_once_a_text_has_left_all_paths(files: ScriptedDraftFiles) -> None:
    files.remember(PROMPT, Path(tokens=ANSWER))
    drafter = make(files)
    ask(drafter, query(PROMPT))
    assert ask(drafter, query((*PROMPT, 99, 98, 97), seen=len(PROMPT))).tokens == ()


def test_other_paths_join_as_branches(files: ScriptedDraftFiles) -> None:
    files.remember(PROMPT, Path(tokens=ANSWER), Path(tokens=(80, 81, 82, 83, 84)))
    chain = ask(make(files), query(PROMPT))
    assert set(chain.tokens) <= set(ANSWER)
    tree = ask(make(files, num_branches=2), query(PROMPT))
    roots = {token for token, parent in zip(tree.tokens, tree.parents, strict=True) if parent == -1}
    assert roots == {ANSWER[0], 80}


def test_the_path_that_most_texts_took_goes_first(files: ScriptedDraftFiles) -> None:
    files.remember(PROMPT, Path(tokens=(80, 81, 82, 83), count=1), Path(tokens=ANSWER, count=3))
    assert ask(make(files), query(PROMPT)).tokens[0] == ANSWER[0]


def test_a_tenant_s_question_names_the_tenant(files: ScriptedDraftFiles) -> None:
    files.remember(PROMPT, Path(tokens=ANSWER), tenant="a")
    drafter = make(files)
    assert ask(drafter, query(PROMPT, tenant="a", request_id="1")).tokens
    assert ask(drafter, query(PROMPT, tenant="b", request_id="2")).tokens == ()
    assert [question.namespace.tenant for question in files.asked] == ["a", "b"]


def test_questions_stop_while_a_path_goes_on(files: ScriptedDraftFiles) -> None:
    files.remember(PROMPT, Path(tokens=tuple(range(30, 94))))
    drafter = make(files)
    text, seen = PROMPT, 0
    for token in range(30, 70):
        ask(drafter, query(text, seen=seen))
        text, seen = (*text, token), len(text)
    assert [question.prefix.length for question in files.asked] == [len(PROMPT)]


def test_continuations_are_added_at_the_end_and_only_then(files: ScriptedDraftFiles) -> None:
    drafter = make(files)
    ask(drafter, query(PROMPT))
    ask(drafter, query(PROMPT + ANSWER, seen=len(PROMPT)))
    assert files.added == []
    ending = (71, 72, 73)
    drafter.close("r", tail_start=len(PROMPT + ANSWER), tail=ending)
    text = PROMPT + ANSWER + ending
    places = [each.prefix.length for each in files.added]
    assert places[0] == len(PROMPT)
    assert all(is_landmark(text, place) for place in places[1:])
    for each in files.added:
        assert each.tokens == text[each.prefix.length : each.prefix.length + 64]
        assert each.prefix.tokens == text[: each.prefix.length][-32:]
    drafter.close("r")
    assert len(files.added) == len(places)


def test_a_short_answer_is_not_worth_a_path(files: ScriptedDraftFiles) -> None:
    drafter = make(files)
    ask(drafter, query((*PROMPT, 1, 2, 3)))
    drafter.close("r")
    assert files.added == []


def test_what_the_target_agreed_to_is_credited(files: ScriptedDraftFiles) -> None:
    files.remember(PROMPT, Path(tokens=ANSWER))
    drafter = make(files)
    ask(drafter, query(PROMPT, budget=4))
    ask(drafter, query((*PROMPT, *ANSWER[:2], 99), seen=len(PROMPT)))
    assert [each.accepted for each in files.credited] == [2]
    ask(drafter, query(PROMPT, budget=4, request_id="ends"))
    drafter.close("ends", tail_start=len(PROMPT), tail=ANSWER[:3])
    assert [each.accepted for each in files.credited] == [2, 3]


def test_a_feature_is_pooled_over_what_stands_before_the_place(files: ScriptedDraftFiles) -> None:
    drafter = make(files, pooling="mean", feature_layer=1)
    rows = np.arange(1, len(PROMPT) + 1, dtype=np.float32)
    features = np.repeat(rows[:, None], WIDTH, axis=1)
    words = (features.view(np.uint32) >> 16).astype(np.uint16).view(BFLOAT16)
    one = query((*PROMPT, 30))
    ask(drafter, DraftQuery(**{**_fields(one), "features": words}))
    (question,) = files.asked
    assert question.prefix.feature is not None
    np.testing.assert_allclose(question.prefix.feature, rows.mean(), rtol=1e-2)
    assert question.namespace.feature == "layer 1, mean"


def test_an_announced_prompt_is_asked_about_without_and_then_with_its_feature(files: ScriptedDraftFiles) -> None:
    drafter = make(files, pooling="last", feature_layer=1)
    assert ask(drafter, query(PROMPT, budget=0)).need_from == 0
    words = np.full((len(PROMPT), WIDTH), 0x3F80, np.uint16).view(BFLOAT16)  # ones
    told = DraftQuery(**{**_fields(query((*PROMPT, 30))), "features": words})
    assert ask(drafter, told).need_from is None
    assert [question.prefix.length for question in files.asked] == [len(PROMPT)] * 2
    first, second = (question.prefix.feature for question in files.asked)
    assert first is None
    assert second is not None
    np.testing.assert_array_equal(second, np.ones(WIDTH))


def test_landmarks_are_where_the_words_say_so() -> None:
    shared = tuple(np.random.default_rng(0).integers(0, 100, 400).tolist())
    one, other = (1, 2, 3, *shared), (9, 8, 7, 6, 5, *shared)
    in_one = {place - 3 for place in range(8, len(one)) if is_landmark(one, place)}
    in_other = {place - 5 for place in range(10, len(other)) if is_landmark(other, place)}
    assert in_one == in_other
    assert 10 < len(in_one) < 50


def test_landmarks_read_bit_by_bit_are_those_read_at_once() -> None:
    text = array("i", np.random.default_rng(1).integers(0, 9, 300).tolist())
    whole, bitwise = Landmarks(20), Landmarks(20)
    whole.extend(text)
    for length in range(1, len(text) + 1, 7):
        bitwise.extend(text[:length])
    bitwise.extend(text)
    assert whole.places == bitwise.places
    assert [whole.digest(place) for place in whole.places] == [bitwise.digest(place) for place in bitwise.places]
    bitwise.truncate(text, 100)
    assert bitwise.places == [place for place in whole.places if place <= 100]


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({}, "draft_files"),
        ({"draft_files": "a", "address": "b"}, "not both"),
        ({"draft_files": ""}, "''"),
        ({"draft_files": "a", "pooling": "max"}, "'max'"),
        ({"draft_files": "a", "budget_bytes": 10}, "budget_bytes"),
        ({"draft_files": "a", "min_similarity": 2}, "min_similarity"),
        ({"draft_files": "a", "pooling": "none", "feature_layer": 3}, "pooling 'none' makes no features"),
        ({"address": "a:1", "min_similarity": 0.5}, "the service at 'a:1' has its own"),
    ],
)
def test_refused_values_are_named(keys: dict[str, object], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        CachedConfig(**keys)  # type: ignore[arg-type]


def _fields(one: DraftQuery) -> dict[str, object]:
    return {name: getattr(one, name) for name in one.__dataclass_fields__} | {"prompt_len": len(PROMPT)}


def test_a_layer_that_the_target_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="feature_layer is 7"):
        build_prefix_fusion(CachedConfig(draft_files="a", feature_layer=7), CONTEXT)
