"""Options are the schemas' keys: none is missing, and what is given arrives."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
import typer

from protos.sampling_params import SamplingParams
from services.cli.help_texts import APP_HELP, ENGINE_HELP, SAMPLING_HELP
from services.cli.options import app_flags, sampling_flags
from services.cli.values import SUFFIX, merged, parse_mapping, parse_speculation
from services.config import AppArgs, EngineArgs

# Of several answers, or of what a terminal does not show.
NOT_ON_THE_COMMAND_LINE = {"n", "logprobs", "logit_bias", "stop_token_ids", "ignore_eos", "include_stop_str_in_output"}


def test_every_key_of_the_schemas_is_an_option() -> None:
    assert {"model", *ENGINE_HELP} == set(EngineArgs.model_fields)
    assert {"model", *ENGINE_HELP, *APP_HELP} == set(AppArgs.model_fields)
    assert {flag.name for flag in app_flags()} == set(AppArgs.model_fields) - {"model"}


def test_every_sampling_parameter_is_an_option_or_left_out_on_purpose() -> None:
    assert set(SAMPLING_HELP) | NOT_ON_THE_COMMAND_LINE == {field.name for field in fields(SamplingParams)}
    assert {flag.name for flag in sampling_flags({})} == set(SAMPLING_HELP)


def test_the_help_tells_the_commands_own_defaults() -> None:
    shown = {flag.name: flag.default for flag in sampling_flags({"temperature": 0.0})}
    assert (shown["temperature"], shown["top_p"], shown["seed"]) == ("0.0", "1.0", None)


def test_speculation_is_json_or_none_or_the_name_of_a_method() -> None:
    for word in ("suffix", "none", "dspark"):
        assert parse_speculation(f" {word} ") == word
    assert parse_speculation('{"method": "suffix"}') == {"method": "suffix"}
    with pytest.raises(typer.BadParameter, match="not JSON"):
        parse_speculation("{suffix")


def test_a_mapping_is_json_or_none() -> None:
    assert parse_mapping('{"method": "suffix"}') == {"method": "suffix"}
    assert parse_mapping("none") == {}
    for wrong in ("suffix", "[1]", "3", "{"):
        with pytest.raises(typer.BadParameter, match="JSON"):
            parse_mapping(wrong)


def test_the_default_drafter_gives_way_to_any_other_and_to_none() -> None:
    other = {"method": "draft_model", "model": "m"}
    assert merged("m", {"port": None, "stop": []}) == {"model": "m", "speculative_config": SUFFIX}
    assert merged(None, {"speculative_config": other}) == {"speculative_config": other}
    for off in ("none", dict[str, object]()):
        assert AppArgs.model_validate(merged(None, {"speculative_config": off})).speculative_config is None


@pytest.mark.parametrize(
    ("line", "method"), [("suffix", "suffix"), ("none", None), ("null", None), ("eagle3", "eagle3")]
)
def test_a_file_may_give_the_name_of_a_method_too(tmp_path: Path, line: str, method: str | None) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(f"speculative_config: {line}\n")
    found = AppArgs.model_validate(merged(None, {}, file)).speculative_config
    assert (found and found.method) == method


def test_the_default_drafter_is_valid() -> None:
    args = EngineArgs.model_validate(merged(None, {}))
    assert args.engine_config().num_speculative_tokens == SUFFIX["num_speculative_tokens"]


def test_the_built_in_model_has_a_learned_drafter_beside_suffix() -> None:
    for values in (merged(None, {}), merged("smollm2-135m", {})):
        config = values["speculative_config"]
        assert config["method"] == "mixed"
        assert [each["method"] for each in config["drafters"]] == ["suffix", "eagle3"]
