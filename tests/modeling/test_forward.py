"""The packed forward equals transformers' own, for lean decoders and for transformers' modules."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from benchmarks.harness.tiny import save_tiny
from modeling.decoder import Decoder
from modeling.modules import Modules
from modeling.target import Target, TargetSpec, load_target
from modeling.work import Work
from tests.fakes.tiny_models import CONFIGS

PROMPT = tuple(range(40, 77))


def load(path: Path, dtype: str = "fp32") -> Target:
    return load_target(TargetSpec(model=str(path), dtype=dtype, device="cpu", max_num_seqs=4, kv_cache_gib=0.1))


@pytest.fixture(scope="module", params=list(CONFIGS))
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp(request.param), CONFIGS[request.param])


def reference_logits(path: Path, tokens: tuple[int, ...]) -> torch.Tensor:
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    with torch.inference_mode():
        return model(torch.tensor([tokens])).logits[0]


def test_logits_equal_transformers(checkpoint: Path) -> None:
    target = load(checkpoint)
    logits = target.runner.forward([Work(slot=1, start=0, tokens=PROMPT, num_logits=len(PROMPT))]).logits
    torch.testing.assert_close(logits, reference_logits(checkpoint, PROMPT), atol=2e-4, rtol=1e-3)


def test_greedy_text_equals_generate(checkpoint: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval()
    expected = model.generate(
        torch.tensor([PROMPT]), max_new_tokens=24, do_sample=False, eos_token_id=None, pad_token_id=0
    )
    target = load(checkpoint)
    tokens = list(PROMPT)
    while len(tokens) < expected.shape[1]:
        done = max(len(tokens) - 1, 0) if len(tokens) > len(PROMPT) else 0
        work = Work(slot=2, start=done, tokens=tuple(tokens[done:]), num_logits=1)
        tokens.append(int(target.runner.forward([work]).logits[-1].argmax()))
    assert tokens == expected[0].tolist()


def test_llama_shaped_families_take_the_lean_decoder_and_others_their_modules(tmp_path: Path) -> None:
    kinds = {name: type(load(save_tiny(tmp_path / name, CONFIGS[name])).runner._computation) for name in CONFIGS}
    assert kinds.pop("phi") is Modules
    assert set(kinds.values()) == {Decoder}


def test_packed_works_do_not_disturb_each_other(checkpoint: Path) -> None:
    """Cases B2, K2: neighbours, chunks and rewinding leave a slot's answers as they are."""
    target = load(checkpoint)
    whole = target.runner.forward([Work(slot=0, start=0, tokens=PROMPT, num_logits=len(PROMPT))]).logits
    neighbour = Work(slot=2, start=0, tokens=PROMPT[::-1], num_logits=2)
    first = target.runner.forward([Work(slot=3, start=0, tokens=PROMPT[:10], num_logits=10), neighbour]).logits[:10]
    wrong = Work(slot=3, start=10, tokens=(1, 2, 3), num_logits=3)
    target.runner.forward([wrong])
    rest = target.runner.forward(
        [
            Work(slot=2, start=37, tokens=(5,), num_logits=1),
            Work(slot=3, start=10, tokens=PROMPT[10:], num_logits=len(PROMPT) - 10),
        ]
    ).logits[1:]
    assert torch.equal(torch.cat([first, rest]), whole)


def test_tree_rows_equal_their_own_chains(checkpoint: Path) -> None:
    target = load(checkpoint)
    tree = Work(slot=0, start=20, tokens=(7, 8, 9, 10, 11), num_logits=5, parents=(-1, 0, 0, 2, -1))
    target.runner.forward([Work(slot=0, start=0, tokens=PROMPT[:20], num_logits=0)])
    logits = target.runner.forward([tree]).logits
    for nodes in ((0, 1), (0, 2, 3), (4,)):
        chain = tuple(tree.tokens[n] for n in nodes)
        alone = target.runner.forward([Work(slot=1, start=0, tokens=PROMPT[:20] + chain, num_logits=len(chain))]).logits
        torch.testing.assert_close(logits[list(nodes)], alone, atol=2e-4, rtol=1e-3)


def test_keep_path_leaves_the_surviving_branch(checkpoint: Path) -> None:
    target = load(checkpoint)
    target.runner.forward([Work(slot=0, start=0, tokens=PROMPT[:20], num_logits=0)])
    target.runner.forward([Work(slot=0, start=20, tokens=(7, 8, 9, 10), num_logits=4, parents=(-1, 0, 0, 2))])
    target.runner.keep_path(0, 20, (0, 2, 3))
    after = target.runner.forward([Work(slot=0, start=23, tokens=(11,), num_logits=1)]).logits
    alone = target.runner.forward([Work(slot=1, start=0, tokens=(*PROMPT[:20], 7, 9, 10, 11), num_logits=1)]).logits
    torch.testing.assert_close(after, alone, atol=2e-4, rtol=1e-3)


def test_taps_are_the_outputs_of_decoder_layers(checkpoint: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval()
    with torch.inference_mode():
        hidden = model(torch.tensor([PROMPT]), output_hidden_states=True).hidden_states
    target = load(checkpoint)
    forward = target.runner.forward([Work(slot=0, start=0, tokens=PROMPT, num_logits=1)], taps=(0, 1))
    for tapped, expected in zip(forward.taps, (hidden[1][0], hidden[2][0]), strict=True):
        torch.testing.assert_close(tapped, expected, atol=2e-4, rtol=1e-3)


def test_logits_come_only_where_asked(checkpoint: Path) -> None:
    target = load(checkpoint)
    works = [
        Work(slot=2, start=0, tokens=PROMPT, num_logits=2),
        Work(slot=0, start=0, tokens=PROMPT[:9], num_logits=0),
        Work(slot=1, start=0, tokens=PROMPT[:5], num_logits=1),
    ]
    logits = target.runner.forward(works).logits
    assert logits.shape == (3, 258)
    expected = reference_logits(checkpoint, PROMPT)
    torch.testing.assert_close(logits[:2], expected[-2:], atol=2e-4, rtol=1e-3)
    torch.testing.assert_close(logits[2], expected[4], atol=2e-4, rtol=1e-3)
