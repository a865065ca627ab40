"""Options: one schema, and errors that name the key, the value and what was probably meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from drafters.draft_model_config import DraftModelConfig
from services.config import AppArgs, EngineArgs
from services.draft_building.build_config import BuildConfig


def test_defaults_are_complete() -> None:
    args = AppArgs()
    assert args.public_name == args.model == "smollm2-135m"
    assert args.engine_config().num_speculative_tokens == 0


def test_an_engine_is_told_what_was_given() -> None:
    args = EngineArgs(
        max_num_batched_tokens=64,
        max_waiting=3,
        acceptance="ratio",
        speculative_config={"method": "suffix", "num_speculative_tokens": 5, "draft_timeout_s": 0.5},  # type: ignore[arg-type]
    )
    config = args.engine_config()
    assert (config.max_num_batched_tokens, config.max_waiting, config.acceptance) == (64, 3, "ratio")
    assert (config.num_speculative_tokens, config.draft_timeout_s) == (5, 0.5)


def test_a_model_alone_means_draft_model() -> None:
    args = EngineArgs.model_validate({"speculative_config": {"model": "some/model", "num_speculative_tokens": 2}})
    assert args.speculative_config is not None
    assert args.speculative_config.method == "draft_model"
    assert isinstance(args.speculative_config.drafter, DraftModelConfig)


def test_the_name_of_a_method_means_its_defaults() -> None:
    for name in ("suffix", "eagle3"):
        for given in (name, {"method": "mixed", "drafters": [name]}):
            found = EngineArgs.model_validate({"speculative_config": given}).speculative_config
            assert found is not None
            assert found.methods == (name,)
    assert EngineArgs.model_validate({"speculative_config": "none"}).speculative_config is None


CACHED = {"method": "cached", "draft_files": "/drafts"}


@pytest.mark.parametrize(
    ("given", "methods", "transport"),
    [
        (None, ("cached",), None),
        ("none", ("cached",), None),
        ("suffix", ("suffix", "cached"), None),
        ({"method": "suffix", "num_speculative_tokens": 5, "transport": "local"}, ("suffix", "cached"), "local"),
        (
            {"method": "mixed", "transport": "grpc", "drafters": ["suffix", "eagle3"]},
            ("suffix", "eagle3", "cached"),
            "grpc",
        ),
    ],
)
def test_draft_files_compete_with_the_drafters_there_are(
    given: object, methods: tuple[str, ...], transport: str | None
) -> None:
    args = EngineArgs.model_validate({"draft_files": "/drafts", "speculative_config": given})
    again = EngineArgs.model_validate(args.model_dump())
    for each in (args.speculative_config, again.speculative_config):
        assert each is not None
        assert (each.methods, each.transport) == (methods, transport)
    assert args.speculative_config == again.speculative_config


@pytest.mark.parametrize("directory", ["a\0b", "~nobody-of-that-name/drafts"])
def test_what_is_no_directory_is_named(directory: str) -> None:
    with pytest.raises(ValidationError, match="give a directory"):
        EngineArgs.model_validate({"draft_files": directory})


def test_draft_files_beside_mixed_do_not_stand_in_for_its_drafters() -> None:
    with pytest.raises(ValidationError, match="drafters"):
        EngineArgs.model_validate({"draft_files": "/drafts", "speculative_config": {"method": "mixed"}})


def test_draft_files_are_given_in_one_place() -> None:
    for given in (CACHED, {"method": "mixed", "drafters": ["suffix", CACHED]}):
        with pytest.raises(ValidationError, match=r"'/other'.*in one place"):
            EngineArgs.model_validate({"draft_files": "/other", "speculative_config": given})


@pytest.mark.parametrize("drafters", ["suffix", 5, None, {"method": "suffix"}, [5]])
def test_drafters_that_are_no_list_are_named_beside_draft_files_too(drafters: object) -> None:
    with pytest.raises(ValidationError, match=r"drafters is .*; it must be a list of speculative_configs"):
        EngineArgs.model_validate(
            {"draft_files": "/drafts", "speculative_config": {"method": "mixed", "drafters": drafters}}
        )


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ([1], r"speculative_config is \[1\]; it must be keys"),
        ({"method": "mixed", "drafters": 5}, "drafters is 5; it must be a list"),
        ({"method": "mixed", "drafters": ["suffix", {"method": "suffix"}]}, "stands twice among the drafters"),
    ],
)
def test_a_build_names_what_is_no_configuration(given: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        BuildConfig.of({"speculative_config": given}, directory=Path("/drafts"), author="target", budget_bytes=None)


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"max_num_seq": 4}, ["'max_num_seq'", "'max_num_seqs'"]),
        ({"gpu_memory_utilization": 0.9}, ["'gpu_memory_utilization'", "known keys"]),
        ({"threads": 100_000}, ["threads", "100000", "1024"]),
        ({"max_num_seqs": 0}, ["max_num_seqs", "0", "greater than or equal to 1"]),
        ({"dtype": "fp64"}, ["dtype", "'fp64'", "bf16"]),
        ({"device": "tpu"}, ["device", "'tpu'", "cuda"]),
        ({"port": 70000}, ["port", "70000"]),
        ({"limits": {"max_N": 3}}, ["limits", "max_N", "max_n"]),
        ({"limits": 3}, ["limits", "mapping"]),
        ({"speculative_config": {"method": "sufix"}}, ["sufix", "suffix"]),
        ({"speculative_config": {"num_speculative_tokens": 3}}, ["method", "required"]),
        ({"speculative_config": {"method": "suffix", "num_speculative_token": 3}}, ["num_speculative_tokens"]),
        ({"speculative_config": {"method": "suffix", "num_speculative_tokens": 0}}, ["num_speculative_tokens", "0"]),
        ({"speculative_config": {"method": "suffix", "transport": "tcp"}}, ["transport", "'tcp'", "grpc"]),
        (
            {"speculative_config": {"method": "suffix", "transport": "local", "socket": "tcp"}},
            ["socket", "'tcp'", "leave socket out"],
        ),
        (
            {"speculative_config": "sufix"},
            ["speculative_config", "'sufix' is no method; there are ", ", suffix and none"],
        ),
        ({"speculative_config": ["suffix"]}, ["speculative_config", "mapping"]),
    ],
)
def test_a_wrong_option_is_explained(options: dict[str, Any], parts: list[str]) -> None:
    with pytest.raises(ValidationError) as caught:
        AppArgs.model_validate(options)
    for part in parts:
        assert part in str(caught.value)


def test_keys_from_a_file_join_those_given(tmp_path: Path) -> None:
    listed = tmp_path / "keys.yaml"
    listed.write_text("key-b: b\n")
    assert AppArgs(api_keys={"key-a": "a"}, api_keys_file=str(listed)).tenants() == {"key-a": "a", "key-b": "b"}


@pytest.mark.parametrize("text", ["", "{}", "key-b\n", "- key-b\n", "key-b: 3\n", "'': b\n", "{key-b"])
def test_a_file_that_holds_no_keys_is_refused_by_name_and_without_its_text(tmp_path: Path, text: str) -> None:
    listed = tmp_path / "keys.yaml"
    listed.write_text(text)
    with pytest.raises(ValueError, match=r"keys\.yaml") as caught:
        AppArgs(api_keys_file=str(listed)).tenants()
    assert "key-b" not in str(caught.value)
    with pytest.raises(ValueError, match=r"none\.yaml"):
        AppArgs(api_keys_file=str(tmp_path / "none.yaml")).tenants()


def test_whether_a_key_is_needed_is_known_without_its_file() -> None:
    assert AppArgs(api_keys_file="/nowhere/keys.yaml").needs_key
    assert AppArgs(api_keys={"key-a": "a"}).needs_key
    assert not AppArgs().needs_key


def test_keys_are_secret() -> None:
    options: dict[str, Any] = {"api_keys": {"very-secret": "t"}}
    assert "very-secret" not in repr(AppArgs.model_validate(options))
    for wrong in ({"max_num_seq": 1}, {"port": -1}, {"api_keys": {"very-secret": 3}}, {"api_keys": {"": "t"}}):
        with pytest.raises(ValidationError) as caught:
            AppArgs.model_validate(options | wrong)
        assert "very-secret" not in str(caught.value)
