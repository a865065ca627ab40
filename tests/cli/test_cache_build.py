"""paradraft cache build: what is stored for each prompt, what a second call does, and which prompts are read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.harness.tiny import save_tiny
from cache_service.storage.namespace import directory_name
from cache_service.transfer.survey import survey
from modeling.eagle_checkpoint import EAGLE_NETS
from protos.messages import Tokens
from protos.sampling_params import SamplingParams
from services.draft_building.builder import prompt_digest
from services.offline import LLM
from tests.cli.conftest import Call, said
from tests.cli.drafts import ENGINE, SMALL, ids_of, records
from tests.fakes.eagle_nets import random_net

QUESTIONS = ["What is rain?", "Why is the sky blue?", "Who are you?"]


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.txt"
    path.write_text("\n".join(QUESTIONS) + "\n")
    return path


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return tmp_path / "drafts"


def answers(model: str, questions: Sequence[str]) -> list[Tokens]:
    with LLM(model, dtype="fp32", device="cpu", threads=1, max_model_len=512) as llm:
        outputs = llm.generate(
            [ids_of(question) for question in questions],
            SamplingParams(temperature=0.0, max_tokens=24),
            use_tqdm=False,
        )
    return [output.outputs[0].token_ids for output in outputs]


def test_the_targets_own_answers_stand_at_the_end_of_each_prompt(
    paradraft: Call, model: str, prompts: Path, files: Path
) -> None:
    command = ["cache", "build", model, "--draft-files", str(files), "--prompts", str(prompts), *SMALL]
    result = paradraft(*command, "--tenant", "anna")
    assert result.exit_code == 0, result.output
    namespace, found = records(files)
    assert (namespace.tenant, namespace.feature, namespace.width) == ("anna", "layer 1, last", 128)
    for question, answer in zip(QUESTIONS, answers(model, QUESTIONS), strict=True):
        record = found[prompt_digest(ids_of(question))]
        assert [path.tokens for path in record.paths] == [answer]
        assert record.feature is not None


def test_a_second_call_does_only_what_is_new(paradraft: Call, model: str, prompts: Path, files: Path) -> None:
    command = ["cache", "build", model, "--draft-files", str(files), "--prompts", str(prompts), *SMALL]
    assert paradraft(*command).exit_code == 0
    before = records(files)[1]
    again = paradraft(*command)
    assert "3 of 3 are done already, by an earlier build" in said(again.stderr)
    assert {digest: each.paths for digest, each in records(files)[1].items()} == {
        digest: each.paths for digest, each in before.items()
    }
    more = paradraft(*command, "--paths", "3")
    assert "3 of 9 are done already" in said(more.stderr)
    found = records(files)[1]
    for question in QUESTIONS:
        paths = found[prompt_digest(ids_of(question))].paths
        assert paths[0] == before[prompt_digest(ids_of(question))].paths[0]
        assert 1 < sum(path.count for path in paths) <= 3


def test_pruned_drafts_are_written_again(paradraft: Call, model: str, prompts: Path, files: Path) -> None:
    command = ["cache", "build", model, "--draft-files", str(files), "--prompts", str(prompts), *SMALL]
    assert paradraft(*command).exit_code == 0
    (found,) = survey(files)
    assert paradraft("cache", "prune", str(files), "--namespace", found.id, "--yes").exit_code == 0
    assert "done already" not in paradraft(*command).stderr
    assert survey(files)[0].records == found.records


@pytest.mark.parametrize(
    "speculation",
    ["none", "suffix", '{"method": "mixed", "drafters": ["suffix", {"method": "cached", "draft_files": "DIR"}]}'],
)
def test_whatever_speeds_it_up_the_drafts_are_the_same(
    paradraft: Call, model: str, prompts: Path, files: Path, speculation: str
) -> None:
    given = ["--speculative-config", speculation.replace("DIR", str(files))]
    result = paradraft("cache", "build", model, "--draft-files", str(files), "--prompts", str(prompts), *SMALL, *given)
    assert result.exit_code == 0, result.output
    _, found = records(files)
    stored = [found[prompt_digest(ids_of(question))].paths[0].tokens for question in QUESTIONS]
    assert stored == answers(model, QUESTIONS)


def test_a_drafters_own_guesses_are_stored_without_an_answer(
    paradraft: Call, model: str, prompts: Path, files: Path
) -> None:
    own = json.dumps({"method": "draft_model", "model": model, "num_speculative_tokens": 6, "draft_dtype": "fp32"})
    command = ["cache", "build", model, "--draft-files", str(files), "--prompts", str(prompts), *ENGINE]
    result = paradraft(*command, "--author", "draft_model", "--speculative-config", own)
    assert result.exit_code == 0, result.output
    _, found = records(files)
    assert len(found) == len(QUESTIONS)
    for question, answer in zip(QUESTIONS, answers(model, QUESTIONS), strict=True):
        record = found[prompt_digest(ids_of(question))]
        assert [path.tokens for path in record.paths] == [answer[:7]]  # the target's token and six guesses
        assert record.feature is not None
    again = paradraft(*command, "--author", "draft_model", "--speculative-config", own)
    assert "3 of 3 are done already" in said(again.stderr)


def test_a_tree_of_guesses_gives_a_path_for_each_leaf(
    paradraft: Call, model: str, prompts: Path, files: Path, tmp_path: Path
) -> None:
    net = random_net(hidden_size=64, feature_layers=(0,))
    EAGLE_NETS.save(net, tmp_path / "eagle")
    own = json.dumps({"method": "eagle3", "model": str(tmp_path / "eagle"), "num_speculative_tokens": 8, "topk": 2})
    command = ["cache", "build", model, "--draft-files", str(files), "--prompts", str(prompts), *ENGINE]
    result = paradraft(*command, "--author", "eagle3", "--speculative-config", own)
    assert result.exit_code == 0, result.output
    _, found = records(files)
    for question, answer in zip(QUESTIONS, answers(model, QUESTIONS), strict=True):
        paths = found[prompt_digest(ids_of(question))].paths
        assert {path.tokens[0] for path in paths} == {answer[0]}
        assert len(paths) == len({path.tokens for path in paths}) > 0


def test_a_long_prompt_is_read_before_guesses_are_stored(
    paradraft: Call, model: str, prompts: Path, files: Path, tmp_path: Path
) -> None:
    question = "Is this long? " * 230
    prompts.write_text(question)
    EAGLE_NETS.save(random_net(hidden_size=64, feature_layers=(0,)), tmp_path / "eagle")
    own = json.dumps({"method": "eagle3", "model": str(tmp_path / "eagle")})
    command = ["cache", "build", model, "--draft-files", str(files), "--prompts", str(prompts), *ENGINE]
    result = paradraft(*command, "--author", "eagle3", "--speculative-config", own)
    assert result.exit_code == 0, result.output
    (record,) = records(files)[1].values()
    assert record.digest == prompt_digest(ids_of(question))
    assert record.feature is not None


def test_a_new_version_of_the_model_is_warmed_from_the_old_one(
    paradraft: Call, model: str, prompts: Path, files: Path, tmp_path: Path
) -> None:
    assert (
        paradraft("cache", "build", model, "--draft-files", str(files), "--prompts", str(prompts), *SMALL).exit_code
        == 0
    )
    (old,) = survey(files)
    newer = str(save_tiny(tmp_path / "newer", seed=1))
    command = ["cache", "build", newer, "--draft-files", str(files), *SMALL, "--warm-from", old.id[:10]]
    result = paradraft(*command)
    assert result.exit_code == 0, result.output
    assert f"{old.records} records taken over, 0 known already" in said(result.stderr)
    both = {each.id: each for each in survey(files)}
    assert both.pop(old.id).records == old.records
    (new,) = both.values()
    assert (new.records, new.paths, new.totals.hits) == (old.records, old.paths, 0)
    assert new.namespace.fingerprint != old.namespace.fingerprint
    assert f"0 records taken over, {old.records} known already" in said(paradraft(*command).stderr)
    itself = paradraft(
        "cache", "build", model, "--draft-files", str(files), *SMALL, "--warm-from", directory_name(old.namespace)
    )
    assert itself.exit_code == 2
    assert "is this model's own namespace already" in said(itself.stderr)


MISTAKES = [
    ([], "there is nothing to build from; give --prompts FILE"),
    (["--prompts", "nowhere"], "prompts in nowhere cannot be read"),
    (["--prompts", "PROMPTS", "--paths", "9"], "paths is 9; a prefix has 1 to 8"),
    (["--prompts", "PROMPTS", "--paths", "2", "--temperature", "0"], "2 paths at temperature 0 are all the same"),
    (
        ["--prompts", "PROMPTS", "--author", "suffix"],
        "--author 'suffix' cannot write drafts; it must be target or one of",
    ),
    (
        ["--prompts", "PROMPTS", "--author", "eagle3", "--speculative-config", "suffix"],
        "suffix would draft too, but --author eagle3 writes alone",
    ),
    (
        ["--prompts", "PROMPTS", "--speculative-config", '{"method": "cached", "draft_files": "elsewhere"}'],
        "cached names 'elsewhere', but --draft-files is",
    ),
    (["--prompts", "PROMPTS", "--budget-bytes", "7"], "budget_bytes is 7"),
    (["--prompts", "PROMPTS", "--budget-bytes", "0"], "budget_bytes is 0"),
    (["--prompts", "PROMPTS", "--author", "eagle3", "--max-tokens", "9"], "--max-tokens is of answers"),
    (["--prompts", "PROMPTS", "--temperature", "0.5"], "--temperature is 0.5, but the first path is the likeliest"),
    (["--warm-from", "ab"], "give a directory of draft files"),
]


@pytest.mark.parametrize(("args", "reason"), MISTAKES, ids=lambda v: " ".join(v) if isinstance(v, list) else "")
def test_a_mistake_is_answered_before_the_model_is_loaded(
    paradraft: Call, prompts: Path, files: Path, args: list[str], reason: str
) -> None:
    given = [str(prompts) if arg == "PROMPTS" else arg for arg in args]
    result = paradraft("cache", "build", "--draft-files", str(files), *given)
    assert result.exit_code == 2
    assert reason in said(result.stderr)
