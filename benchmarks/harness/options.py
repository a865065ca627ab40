"""Options: the command line that all benchmarks share."""

from __future__ import annotations

import argparse
import atexit
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers.utils import logging as transformers_logging

from benchmarks.harness.tiny import save_tiny
from modeling.builtin import BUILTIN
from modeling.provenance import ROOT

RESULTS = ROOT / "benchmarks" / "results"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Parsed command line. `out` None: print only. `extra`: a benchmark's own options."""

    name: str
    command: tuple[str, ...]
    quick: bool
    model: str
    dtypes: tuple[str, ...]
    device: str
    threads: int
    rounds: int
    out: Path | None
    extra: argparse.Namespace


def make_parser(name: str, about: str) -> argparse.ArgumentParser:
    """A parser with the common options; a benchmark may add its own before `read_options`."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=about)
    parser.add_argument("--model", help="built-in name, local directory or hub name (default: smollm2-135m)")
    parser.add_argument("--dtypes", nargs="+", choices=("fp32", "bf16"), default=["fp32", "bf16"])
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:<index>")
    parser.add_argument("--threads", type=int, help="torch threads (default: as many as torch takes)")
    parser.add_argument("--rounds", type=int, help="interleaved rounds; each benchmark has its own default")
    parser.add_argument("--out", type=Path, help="folder of the JSON result (default: benchmarks/results)")
    parser.add_argument(
        "--quick", action="store_true", help="a tiny random model, one round: checks the benchmark only"
    )
    return parser


def read_options(parser: argparse.ArgumentParser, argv: Sequence[str] | None, *, rounds: int) -> Options:
    """Parses, sets torch's threads and, under --quick, makes the tiny model; a quick run writes only where told."""
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    arguments = list(sys.argv[1:] if argv is None else argv)
    parsed = parser.parse_args(arguments)
    if parsed.threads is not None:
        torch.set_num_threads(parsed.threads)
    model = parsed.model or (_tiny_model() if parsed.quick else BUILTIN)
    return Options(
        name=parser.prog.rpartition(".")[2],
        command=(*parser.prog.split(), *arguments),
        quick=parsed.quick,
        model=model,
        dtypes=tuple(parsed.dtypes),
        device=parsed.device,
        threads=torch.get_num_threads(),
        rounds=parsed.rounds or (1 if parsed.quick else rounds),
        out=parsed.out or (None if parsed.quick else RESULTS),
        extra=parsed,
    )


def _tiny_model() -> str:
    """A tiny model in a folder that goes with this process."""
    folder = Path(tempfile.mkdtemp(prefix="tiny-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return str(save_tiny(folder))
