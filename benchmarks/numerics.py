"""numerics: how far bf16 is from fp32 on real text, ours and transformers', and how often a tree flips a token."""

from __future__ import annotations

import argparse as real_text_module
import inspect
from collections.abc import Iterator, Sequence

import torch

from benchmarks.harness.baseline import Baseline
from benchmarks.harness.loading import load
from benchmarks.harness.options import Options, make_parser, read_options
from benchmarks.harness.prompts import load_prompts
from benchmarks.harness.report import Report
from modeling.provenance import ROOT
from modeling.target import Target
from modeling.work import Work
from protos.messages import Tokens

LENGTH = 256
TREE_DEPTH = 4
DECOYS = 3


def main(argv: Sequence[str] | None = None) -> int:
    """Deterministic: no timing, one round."""
    options = read_options(make_parser("numerics", __doc__), argv, rounds=1)
    report = Report(options)
    targets = {dtype: load(options, dtype, slots=2) for dtype in ("fp32", "bf16")}
    count = 2 if options.quick else 16
    texts = _texts(targets["fp32"], 32 if options.quick else LENGTH, count)
    _add_divergence(report, options, targets, texts)
    for dtype, target in targets.items():
        _add_flips(report, dtype, target, texts)
    report.finish()
    return 0


def _texts(target: Target, length: int, count: int) -> list[Tokens]:
    """`count` pieces of prose, code and questions, `length` tokens each."""
    questions = "\n".join(prompt.prompt for prompt in load_prompts("questions"))
    sources = ((ROOT / "LICENSE").read_text(), inspect.getsource(real_text_module), questions)
    encoded = [tuple(target.tokenizer(source, add_special_tokens=False)["input_ids"]) for source in sources]
    pieces = [ids[i : i + length] for ids in encoded for i in range(0, len(ids) - length + 1, length)]
    return [pieces[i * len(pieces) // count] for i in range(count)]


def _forward(target: Target, tokens: Tokens) -> torch.Tensor:
    work = Work(slot=0, start=0, tokens=tokens, num_logits=len(tokens))
    return target.runner.forward([work]).logits.float()


def _add_divergence(report: Report, options: Options, targets: dict[str, Target], texts: Sequence[Tokens]) -> None:
    """Mean KL(transformers fp32 ‖ X) per token, and how often the likeliest token is another one."""
    reference, rounded = Baseline(options.model, "fp32"), Baseline(options.model, "bf16")
    sums = {name: [0.0, 0] for name in ("paradraft fp32", "paradraft bf16", "transformers bf16")}
    for tokens in texts:
        truth = reference.logits(tokens).double().log_softmax(-1)
        for name, logits in (
            ("paradraft fp32", _forward(targets["fp32"], tokens)),
            ("paradraft bf16", _forward(targets["bf16"], tokens)),
            ("transformers bf16", rounded.logits(tokens)),
        ):
            sums[name][0] += _divergence(truth, logits.double().log_softmax(-1))
            sums[name][1] += int((truth.argmax(-1) != logits.argmax(-1)).sum())
    tokens_seen = sum(len(tokens) for tokens in texts)
    for name, (divergence, other) in sums.items():
        row = {"forward": name, "mean KL": divergence / tokens_seen, "other argmax": other / tokens_seen}
        report.add("distance to transformers fp32, per token", row | {"tokens": tokens_seen})


def _divergence(truth: torch.Tensor, other: torch.Tensor) -> float:
    """Sum over rows of KL(truth ‖ other), both log-probabilities."""
    return float((truth.exp() * (truth - other)).sum())


def _add_flips(report: Report, dtype: str, target: Target, texts: Sequence[Tokens]) -> None:
    """Rows whose logits or likeliest token change when the same tokens are verified inside a tree."""
    for where, side in (("first branch of a tree", False), ("side branch of a tree", True)):
        rows = bits = other = 0
        largest = 0.0
        for tokens in texts:
            for chain, tree in _tree_rows(target, tokens, side=side):
                rows += len(chain)
                bits += int((chain != tree).any(-1).sum())
                other += int((chain.argmax(-1) != tree.argmax(-1)).sum())
                largest = max(largest, float((chain - tree).abs().max()))
        row = {"rows": rows, "other bits": bits, "other argmax": other, "largest difference": largest}
        report.add("the same tokens in a tree and in a chain", {"dtype": dtype, "verified in": where} | row)


def _tree_rows(target: Target, tokens: Tokens, *, side: bool) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Logits of the same few tokens after the same text, in a chain and in a tree, at many places of the text."""
    whole = _forward(target, tokens)
    for start in range(TREE_DEPTH, len(tokens) - TREE_DEPTH, TREE_DEPTH):
        path = tokens[start : start + TREE_DEPTH]
        decoys = tuple((token + 1) % target.vocab_size for token in path[:DECOYS])
        first, second = (decoys, path) if side else (path, decoys)
        work = Work(
            slot=0,
            start=start - 1,
            tokens=(tokens[start - 1], *first, *second),
            parents=(-1, *range(len(first)), 0, *range(len(first) + 1, len(first) + len(second))),
            num_logits=1 + len(path) + len(decoys),
        )
        logits = target.runner.forward([work]).logits.float()
        at = 1 + (len(decoys) if side else 0)
        yield whole[start : start + TREE_DEPTH], logits[at : at + TREE_DEPTH]
        chain = Work(slot=0, start=start - 1, tokens=(tokens[start - 1], *path), num_logits=0)
        target.runner.forward([chain])  # the tree's rows give way to the text's


if __name__ == "__main__":
    raise SystemExit(main())
