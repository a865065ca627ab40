"""The rig of the exactness suite: prompts, ways of sampling, drafters, and the text that plain decoding gives."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from drafters.context import DrafterContext
from drafters.registry import build_drafter, parse_config
from modeling.builtin import builtin_dir
from modeling.target import Target
from protos.interfaces import Drafter
from protos.messages import Request, Tokens
from protos.sampling_params import SamplingParams
from services.transports.local import LocalDrafter
from tests.fakes.running import Outcome, run
from tests.fakes.scripted import adversary, oracle, partial
from verifier.engine import Engine
from verifier.engine_config import EngineConfig

LENGTH = 18
DRAFT = 7
LAYERS = 2

PROMPTS = (
    "What is the capital of France?",
    "Repeat the word RED six times.",
    "Repeat the word BLUE six times.",
    "Write a Python function that adds two numbers.",
    "List three animals, then list the same three animals again.",
    "Tell me something about the sea.",
    "Count from 1 to 20.",
    "Say the same sentence twice: the cat sat on the mat.",
)

SAMPLINGS: dict[str, dict[str, object]] = {
    "greedy": {"temperature": 0.0},
    "nucleus": {"temperature": 1.0, "top_p": 0.9},
    "penalties": {
        "temperature": 1.3,
        "top_k": 50,
        "presence_penalty": 0.6,
        "frequency_penalty": 0.4,
        "repetition_penalty": 1.1,
        "logit_bias": {28: -3.0, 198: 1.5},
        "min_tokens": 5,
    },
}

Answers = Mapping[Tokens, Tokens]
Reference = tuple[Target, list[Request], dict[str, Outcome]]


def request(target: Target, index: int, sampling: str) -> Request:
    messages = [{"role": "user", "content": PROMPTS[index]}]
    ids = target.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    options = SAMPLINGS[sampling] | {"seed": 1000 + index, "max_tokens": LENGTH}
    return Request(
        request_id=f"{index}-{sampling}",
        prompt_ids=tuple(ids),
        params=SamplingParams(**options),  # type: ignore[arg-type]
    )


def engine(target: Target, drafter: Drafter | None = None) -> Engine:
    config = EngineConfig(num_speculative_tokens=DRAFT if drafter else 0, draft_timeout_s=60)
    return Engine(target, config, LocalDrafter(drafter) if drafter else None)


def plain(target: Target, requests: list[Request]) -> dict[str, Outcome]:
    """Each request alone, without a drafter, its prompt computed from scratch."""
    return {r.request_id: run(engine(target), [r])[r.request_id] for r in requests}


def answers_of(requests: list[Request], outcomes: Mapping[str, Outcome]) -> Answers:
    return {r.prompt_ids: tuple(outcomes[r.request_id].tokens) for r in requests}


def shallow_copy_of_builtin(directory: Path) -> Path:
    """A draft model with the built-in's tokenizer: its first layers, as a checkpoint."""
    source = builtin_dir()
    for file in source.iterdir():
        if file.suffix in (".json", ".jinja"):
            shutil.copy(file, directory)
    config = (source / "config.json").read_text().replace('"num_hidden_layers": 30', f'"num_hidden_layers": {LAYERS}')
    (directory / "config.json").write_text(config)
    weights = load_file(source / "model.safetensors")
    names = [name for name in weights if ".layers." not in name or int(name.split(".")[2]) < LAYERS]
    kept = {name: weights[name].to(torch.bfloat16) for name in names}
    save_file(kept, directory / "model.safetensors", {"format": "pt"})
    return directory


Maker = Callable[[Target, Answers, Path], Drafter]


def context_of(target: Target) -> DrafterContext:
    return DrafterContext(
        target=target.name, vocab_size=target.vocab_size, max_num_seqs=9, max_model_len=1024, threads=None
    )


def _registered(method: str, **options: object) -> Maker:
    def make(target: Target, answers: Answers, folder: Path) -> Drafter:
        model = {"model": str(shallow_copy_of_builtin(folder))} if method == "draft_model" else {}
        config = parse_config({"method": method, "num_speculative_tokens": DRAFT} | model | options)
        return build_drafter(config, context_of(target))

    return make


DRAFTERS: dict[str, Maker] = {
    "suffix-chain": _registered("suffix"),
    "suffix-tree": _registered("suffix", num_branches=3),
    "draft_model-chain": _registered("draft_model", num_speculative_tokens=3),  # each costs a forward
}
for _shape in ("chain", "tree"):
    _tree = _shape == "tree"
    DRAFTERS |= {
        f"oracle-{_shape}": lambda t, a, _, tree=_tree: oracle(a, vocab_size=t.vocab_size, tree=tree),
        f"adversary-{_shape}": lambda t, a, _, tree=_tree: adversary(a, vocab_size=t.vocab_size, tree=tree),
        f"partial-{_shape}": lambda t, a, _, tree=_tree: partial(a, 2, vocab_size=t.vocab_size, tree=tree),
    }
