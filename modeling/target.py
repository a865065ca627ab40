"""Target: a loaded model, ready to run: weights, tokenizer, KV slots, and what others must know of it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from modeling.builtin import BUILTIN, builtin_dir
from modeling.decoder import LEAN_ARCHITECTURES, Decoder
from modeling.fingerprint import fingerprint
from modeling.modules import ATTENTION, Modules
from modeling.refusals import check_complete, check_device, check_positions, check_revision, check_truncatable
from modeling.runner import Computation, SlotLimits, TargetRunner

logger = logging.getLogger(__name__)

DTYPES = {
    "fp32": torch.float32,
    "float32": torch.float32,
    "bf16": torch.bfloat16,
    "bfloat16": torch.bfloat16,
    "fp16": torch.float16,
    "float16": torch.float16,
}
DEFAULT_MAX_LEN = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSpec:
    """What to load and within which bounds.

    model: `smollm2-135m`, a local directory or a hub id. dtype: auto (the checkpoint's own, but bf16 for the built-in),
    fp32, bf16, fp16. device: auto, cpu, cuda, cuda:N. threads: torch threads on CPU, None leaves torch's choice.
    max_num_seqs: KV slots wanted; fewer are made where kv_cache_gib does not hold them. max_model_len: tokens of one
    sequence, None takes the model's own up to DEFAULT_MAX_LEN. Errors of load_target are ValueErrors that name the
    value.
    """

    model: str = BUILTIN
    dtype: str = "auto"
    device: str = "auto"
    threads: int | None = None
    max_num_seqs: int = 16
    max_model_len: int | None = None
    kv_cache_gib: float = 4.0
    revision: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A model that is ready. `eos_ids` end a text; `fingerprint` names weights and tokenizer."""

    name: str
    runner: TargetRunner
    tokenizer: Any
    config: Any
    eos_ids: frozenset[int]
    max_model_len: int
    vocab_size: int
    dtype: torch.dtype
    fingerprint: str


def load_target(spec: TargetSpec, *, progress: Callable[[str], None] = logger.info) -> Target:
    """Loads weights, packs them and allocates the KV slots. Blocks for seconds to minutes."""
    if spec.threads is not None:
        torch.set_num_threads(spec.threads)
    device = check_device(spec.device)
    source = resolve_model(spec.model, progress=progress)
    check_revision(spec.revision, source)
    config = _load_config(source, spec)
    check_truncatable(config)
    check_positions(config)
    max_model_len = _max_model_len(spec, config)
    progress(f"loading {spec.model}")
    model = _load_model(source, spec, config, device)
    tokenizer = _load_tokenizer(source, spec)
    print_of_weights = fingerprint(config.to_dict(), model.named_parameters(), tokenizer.backend_tokenizer.to_str())
    eos_ids = _eos_ids(model, tokenizer)
    progress(f"packing weights for {device}")
    runner = _runner(model, spec, max_model_len, device)
    return Target(
        name=spec.model,
        runner=runner,
        tokenizer=tokenizer,
        config=config,
        eos_ids=eos_ids,
        max_model_len=max_model_len,
        vocab_size=config.vocab_size,
        dtype=model.dtype,
        fingerprint=print_of_weights,
    )


def resolve_model(model: str, *, progress: Callable[[str], None] = logger.info) -> str:
    """What transformers can load: the built-in's folder, a local checkpoint directory (`~` allowed), or a hub id."""
    if model == BUILTIN:
        return str(builtin_dir(progress))
    path = Path(model).expanduser()
    if path.exists() and not (path / "config.json").exists():
        if (path / "training.pt").exists():
            raise ValueError(
                f"{model!r} holds a training run that has not looked at held-out answers yet, so no weights; go on "
                "with it: paradraft train … --resume"
            )
        raise ValueError(f"model directory {model!r} has no config.json; give a transformers checkpoint directory")
    if not path.exists() and (path.is_absolute() or model.startswith((".", "~"))):
        raise ValueError(f"model directory {model!r} does not exist; give {BUILTIN!r}, a local directory or a hub id")
    return str(path) if path.exists() else model


def _load_config(source: str, spec: TargetSpec) -> Any:
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(source, revision=spec.revision)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"model {spec.model!r} could not be found or read: {_first_line(error)}; "
            f"give {BUILTIN!r}, a local directory or a hub id"
        ) from error


def _load_model(source: str, spec: TargetSpec, config: Any, device: torch.device) -> Any:
    from transformers import AutoModelForCausalLM

    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            source,
            output_loading_info=True,
            config=config,
            revision=spec.revision,
            dtype=_dtype(spec, config),
            attn_implementation="sdpa" if _is_lean(config) else ATTENTION,
        )
    except (ImportError, OSError, RuntimeError, ValueError, KeyError, SafetensorError) as error:
        raise ValueError(f"weights of {source!r} could not be loaded: {_first_line(error)}") from error
    model, found = loaded
    check_complete(source, found["missing_keys"])
    model.to(device)
    model.eval()
    return model


def _load_tokenizer(source: str, spec: TargetSpec) -> Any:
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(source, revision=spec.revision)
    except (ImportError, OSError, ValueError) as error:
        raise ValueError(f"tokenizer of {spec.model!r} could not be loaded: {_first_line(error)}") from error
    if not tokenizer.is_fast:
        raise ValueError(f"tokenizer of {spec.model!r} is a slow one; a tokenizer.json is needed")
    return tokenizer


@torch.inference_mode()
def _runner(model: Any, spec: TargetSpec, max_len: int, device: torch.device) -> TargetRunner:
    """Packs the model, makes its slots and tries it once, so that what cannot run is refused here."""
    config = model.config
    computation: Computation = Decoder(model, max_len=max_len) if _is_lean(config) else Modules(model)
    limits = SlotLimits(num_slots=spec.max_num_seqs, max_len=max_len, kv_bytes=int(spec.kv_cache_gib * 2**30))
    runner = TargetRunner(computation, limits, vocab_size=config.vocab_size, device=device)
    try:
        runner.check()
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"model {spec.model!r} cannot be served: {_first_line(error)}") from error
    return runner


def _is_lean(config: Any) -> bool:
    quantized = getattr(config, "quantization_config", None) is not None
    return not quantized and (config.architectures or [""])[0] in LEAN_ARCHITECTURES


def _dtype(spec: TargetSpec, config: Any) -> torch.dtype:
    if spec.dtype == "auto":
        own = getattr(config, "dtype", None) or torch.float32
        return torch.bfloat16 if spec.model == BUILTIN else own
    if spec.dtype not in DTYPES:
        raise ValueError(f"dtype is {spec.dtype!r}; it must be auto or one of {', '.join(DTYPES)}")
    return DTYPES[spec.dtype]


def _max_model_len(spec: TargetSpec, config: Any) -> int:
    own = getattr(config, "max_position_embeddings", None) or DEFAULT_MAX_LEN
    if spec.max_model_len is None:
        return int(min(own, DEFAULT_MAX_LEN))
    if not 2 <= spec.max_model_len <= own:
        raise ValueError(f"max_model_len is {spec.max_model_len}; {spec.model!r} allows 2 to {own}")
    return spec.max_model_len


def _eos_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    configured = model.generation_config.eos_token_id
    ids = configured if isinstance(configured, list) else [configured]
    return frozenset(i for i in [*ids, tokenizer.eos_token_id] if i is not None)


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n", 1)[0]
