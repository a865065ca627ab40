"""EngineArgs and AppArgs: the options of an engine and of the served application, the same for YAML, CLI and Python."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import yaml
from pydantic import Field, field_validator, model_validator

from drafters.registry import METHODS, resolved
from services.speculative_config import SpeculativeConfig, joined_by_cached
from services.strict_model import StrictModel
from verifier.engine_config import EngineConfig

if TYPE_CHECKING:
    from modeling.target import TargetSpec

_DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?")


class Limits(StrictModel):
    """What one HTTP request may ask for. Beyond it: 413 for the body, 400 that names the field for the others."""

    max_body_bytes: int = Field(default=4 * 2**20, ge=1024)
    max_n: int = Field(default=16, ge=1, le=128)
    max_prompts: int = Field(default=64, ge=1)
    max_stop: int = Field(default=4, ge=1)


class EngineArgs(StrictModel):
    """One engine: the model, its memory and how it speculates. Names are vLLM's where it has the option.

    model: `smollm2-135m` (built in), a local directory, or a name on the hub. kv_cache_gib: upper bound of the KV
    cache; what does not fit waits, at most `max_waiting` requests, then 429. speculative_config: keys, the name of a
    method or `none`. draft_files: a directory, whose draft files compete with what speculative_config names.
    """

    model: str = Field(default="smollm2-135m", min_length=1)
    revision: str | None = None
    dtype: Literal["auto", "fp32", "bf16", "fp16", "float32", "bfloat16", "float16"] = "auto"
    device: str = "auto"
    threads: int | None = Field(default=None, ge=1, le=1024)
    max_model_len: int | None = Field(default=None, ge=2)
    max_num_seqs: int = Field(default=16, ge=1)
    max_num_batched_tokens: int = Field(default=128, ge=1)
    max_waiting: int = Field(default=256, ge=0)
    kv_cache_gib: float = Field(default=4.0, gt=0, allow_inf_nan=False)
    acceptance: Literal["match", "ratio"] = "match"
    speculative_config: SpeculativeConfig | None = None
    draft_files: str | None = Field(default=None, min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _with_draft_files(cls, data: Any) -> Any:
        """Draft files are one more drafter; said once, they are not said again to whoever copies the options."""
        if not isinstance(data, dict) or not isinstance(data.get("draft_files"), str) or not data["draft_files"]:
            return data
        config = joined_by_cached(data.get("speculative_config"), data["draft_files"])
        return data | {"speculative_config": config, "draft_files": None}

    @field_validator("speculative_config", mode="before")
    @classmethod
    def _named(cls, given: Any) -> Any:
        """The name of a method means its defaults; `none`, or no key at all, plain decoding."""
        if given in ("none", "null", {}):
            return None
        if not isinstance(given, str):
            return given
        if given not in METHODS:
            raise ValueError(f"{given!r} is no method; there are {', '.join(sorted(METHODS))} and none")
        return {"method": given}

    @field_validator("device")
    @classmethod
    def _known_device(cls, device: str) -> str:
        if not _DEVICE.fullmatch(device):
            raise ValueError(f"{device!r} is no device; use 'auto', 'cpu', 'cuda' or 'cuda:<index>'")
        return device

    @model_validator(mode="after")
    def _weights_are_there(self) -> Self:
        """What a drafter lacks is said before anything is downloaded or loaded."""
        if self.speculative_config is not None:
            resolved(self.speculative_config.drafter, self.model)
        return self

    def target_spec(self) -> TargetSpec:
        """What `modeling.target.load_target` needs."""
        from modeling.target import TargetSpec  # torch: the command line and the gateway read options without it

        return TargetSpec(
            model=self.model,
            dtype=self.dtype,
            device=self.device,
            threads=self.threads,
            max_num_seqs=self.max_num_seqs,
            max_model_len=self.max_model_len,
            kv_cache_gib=self.kv_cache_gib,
            revision=self.revision,
        )

    def engine_config(self) -> EngineConfig:
        """Limits of the engine; without speculative_config it decodes plainly."""
        config = EngineConfig(
            max_num_batched_tokens=self.max_num_batched_tokens,
            max_waiting=self.max_waiting,
            acceptance=self.acceptance,
        )
        if self.speculative_config is None:
            return config
        return replace(
            config,
            num_speculative_tokens=self.speculative_config.num_speculative_tokens,
            draft_timeout_s=self.speculative_config.draft_timeout_s,
        )


class AppArgs(EngineArgs):
    """The served application: engines, their number, and the HTTP front.

    served_model_name: the name clients use, `model` where absent. replicas: verifiers, each with its own drafter.
    api_keys: key → tenant; with any key, every route but /health needs one, and caches are shared within a tenant only.
    api_keys_file: a YAML file of such pairs, read where the gateway runs: Ray logs the arguments of an application.
    host, port: read by `paradraft serve`; under `serve run` the `http_options` of the YAML decide.
    """

    served_model_name: str | None = Field(default=None, min_length=1)
    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    replicas: int = Field(default=1, ge=1)
    api_keys: dict[str, str] = Field(default_factory=dict, repr=False)
    api_keys_file: str | None = None
    limits: Limits = Limits()

    @field_validator("api_keys")
    @classmethod
    def _no_empty_key(cls, api_keys: dict[str, str]) -> dict[str, str]:
        if "" in api_keys:
            raise ValueError("an API key is empty; remove it, or give it at least one character")
        return api_keys

    @property
    def needs_key(self) -> bool:
        """True where clients must give a key."""
        return bool(self.api_keys or self.api_keys_file)

    def tenants(self) -> dict[str, str]:
        """Tenant of each key, the file's included. ValueError where the file is not what it should be."""
        if self.api_keys_file is None:
            return self.api_keys
        try:
            listed = yaml.safe_load(Path(self.api_keys_file).read_text())
        except OSError as error:
            raise ValueError(f"api_keys_file {self.api_keys_file!r} cannot be read: {error.strerror}") from None
        except yaml.YAMLError:  # its message would quote keys
            listed = None
        pairs = listed if isinstance(listed, dict) else {}
        if not pairs or not all(isinstance(key, str) and key and isinstance(each, str) for key, each in pairs.items()):
            raise ValueError(
                f"api_keys_file {self.api_keys_file!r} must hold at least one line of `key: tenant`, both strings"
            )
        return self.api_keys | pairs

    @property
    def public_name(self) -> str:
        """The model name in requests, responses and metrics."""
        return self.served_model_name or self.model
