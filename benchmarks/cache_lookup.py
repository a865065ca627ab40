"""cache_lookup: milliseconds of a look-up in draft files, by how many prefixes they hold, in process and over gRPC."""

from __future__ import annotations

import argparse
import queue
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import grpc

from benchmarks.harness.cache_process import BUDGET_BYTES, CacheProcess, Opening, opened
from benchmarks.harness.options import make_parser, read_options
from benchmarks.harness.report import Report
from benchmarks.harness.synthetic_prefixes import NAMESPACE, Asked, Stream, asked_prefixes
from benchmarks.harness.trials import Samples
from cache_service.search.pretriever import Pretriever
from cache_service.storage.store import Store
from protos import cache_pb2_grpc
from protos.cache_codec import pack_questions, unpack_answers
from protos.draft_files import Continuation, Findings, Prefix, Question
from services.draft_files.local import LocalDraftFiles

SIZES = (10_000, 100_000, 1_000_000)
QUICK_SIZES = (300, 600)
BYTES_EACH = 2000  # on disk, from above: a store of the largest size needs that much room
WARMUP = 20
BULK = 1000  # prefixes
ANSWER = 5  # prefixes that one answer leaves
ANSWERS = 200

HERE = "in process"  # where the memory of what was done before hides what opening takes

LookUp = Callable[[Question], Findings]
Asking = Mapping[Asked, Sequence[Prefix]]


def main(argv: Sequence[str] | None = None) -> int:
    """The store grows from size to size; at each it is closed, opened, asked here, and served by another process."""
    options = read_options(_parser(), argv, rounds=1)
    report = Report(options)
    sizes = QUICK_SIZES if options.quick else tuple(size for size in SIZES if size <= options.extra.limit)
    if not sizes:
        raise ValueError(f"--limit {options.extra.limit} leaves no size; the smallest is {SIZES[0]}")
    count = 30 if options.quick else options.extra.questions
    stream = Stream(sizes[-1])
    with tempfile.TemporaryDirectory(prefix="draft-files-", dir=options.extra.directory) as name:
        directory = Path(name)
        _check_room(directory, sizes[-1])
        for start, size in zip((0, *sizes), sizes, strict=False):
            _insert(report, directory, stream, start, size)
            asking = {kind: asked_prefixes(stream, size, kind, count + WARMUP) for kind in Asked}
            _ask_here(report, directory, size, asking)
            _ask_there(report, directory, size, asking)
    report.finish()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("cache_lookup", __doc__)
    parser.add_argument("--limit", type=int, default=SIZES[-1], help=f"largest size, of {', '.join(map(str, SIZES))}")
    parser.add_argument("--questions", type=int, default=1000, help="of each kind, at each size")
    parser.add_argument("--directory", type=Path, help="where the draft files are made for the time (default: /tmp)")
    return parser


def _check_room(directory: Path, size: int) -> None:
    free, needed = shutil.disk_usage(directory).free, size * BYTES_EACH
    if free < needed:
        raise ValueError(
            f"{directory} has {free / 2**30:.1f} GiB free, {needed / 2**30:.1f} are needed; see --directory"
        )


def _insert(report: Report, directory: Path, stream: Stream, start: int, stop: int) -> None:
    """Adds the places from `start` on, most of them in bulk, and the last as finished answers come: a few at a time."""
    alone = stop - ANSWER * min(ANSWERS, (stop - start) // (2 * ANSWER))
    with (
        Store.open(directory, budget_bytes=BUDGET_BYTES) as store,
        closing(Pretriever(store, min_similarity=0.0)) as pretriever,
    ):
        bulk_ms = _added(pretriever, stream.continuations(start, alone, together=BULK))
        answer_ms = _added(pretriever, stream.continuations(alone, stop, together=ANSWER))
        pretriever.settle()
        held = pretriever.metrics()[NAMESPACE]
    if held.records != stop:
        raise AssertionError(f"{held.records} prefixes are stored after {stop} were added")
    answers = Samples(values=tuple(answer_ms))
    row = {"prefixes": stop, f"a second, {BULK} at a time": (alone - start) / sum(bulk_ms) * 1e3}
    times = {f"ms for an answer of {ANSWER}, p50": answers.median, "p99": answers.percentile(99)}
    sizes = {"bytes on disk": held.num_bytes / stop, "bytes of indexes": held.index_bytes / stop, "vectors": held.kind}
    report.add("insertion, and sizes for each prefix", row | times | sizes)


def _added(pretriever: Pretriever, parts: Iterator[list[Continuation]]) -> list[float]:
    """Milliseconds of each addition, until it was on disk."""
    times = []
    for part in parts:
        begun = time.perf_counter()
        pretriever.add(part)
        times.append((time.perf_counter() - begun) * 1e3)
    return times


def _ask_here(report: Report, directory: Path, size: int, asking: Asking) -> None:
    with opened(directory, NAMESPACE) as (pretriever, opening):
        _add_opening(report, size, HERE, opening)
        _add_times(report, size, HERE, asking, lambda one: pretriever.look_up([one])[0])
        with closing(LocalDraftFiles(pretriever)) as files:
            _add_times(report, size, "in process, its own thread", asking, lambda one: _polled(files, one))


def _polled(files: LocalDraftFiles, question: Question) -> Findings:
    """Asks as a drafter does, but waits: after each poll the other thread may have the interpreter."""
    files.ask([question])
    while not (answers := files.answers()):
        time.sleep(0)
    return answers[0]


def _ask_there(report: Report, directory: Path, size: int, asking: Asking) -> None:
    with CacheProcess(directory) as process, grpc.insecure_channel(process.address) as channel:
        _add_opening(report, size, "a service's process", process.opening)
        stub = cache_pb2_grpc.DraftFilesStub(channel)
        _add_times(report, size, "gRPC, a call each", asking, lambda one: _called(stub, one))
        with _streamed(stub) as look_up:
            _add_times(report, size, "gRPC, one stream", asking, look_up)


def _called(stub: cache_pb2_grpc.DraftFilesStub, question: Question) -> Findings:
    return unpack_answers(stub.LookUp(pack_questions([question])))[0]


@contextmanager
def _streamed(stub: cache_pb2_grpc.DraftFilesStub) -> Iterator[LookUp]:
    """Asks over a stream that stays open, one question at a time."""
    waiting: queue.SimpleQueue[Question | None] = queue.SimpleQueue()
    answers = iter(stub.LookUps(pack_questions([one]) for one in iter(waiting.get, None)))

    def look_up(question: Question) -> Findings:
        waiting.put(question)
        return unpack_answers(next(answers))[0]

    yield look_up
    waiting.put(None)


def _add_opening(report: Report, size: int, where: str, opening: Opening) -> None:
    row = {"prefixes": size, "where": where, "files open ms": opening.store_ms, "can be asked ms": opening.ready_ms}
    memory = {} if where == HERE else {"bytes of memory": opening.memory_mib * 2**20 / size}
    report.add("opening", row | {"vectors indexed ms": opening.settled_ms} | memory)


def _add_times(report: Report, size: int, where: str, asking: Asking, look_up: LookUp) -> None:
    """The kinds take turns, question by question."""
    times: dict[Asked, list[float]] = {kind: [] for kind in asking}
    hits = dict.fromkeys(asking, 0)
    for number, prefixes in enumerate(zip(*asking.values(), strict=True)):
        for kind, prefix in zip(asking, prefixes, strict=True):
            question = Question(request_id=f"{number}", namespace=NAMESPACE, prefix=prefix)
            begun = time.perf_counter()
            findings = look_up(question)
            times[kind].append((time.perf_counter() - begun) * 1e3)
            hits[kind] += number >= WARMUP and bool(findings.hits)
    for kind, values in times.items():
        samples = Samples(values=tuple(values[WARMUP:]))
        found = hits[kind] / len(samples.values)
        row = {"prefixes": size, "where": where, "asked for": kind.value, "found": found}
        report.add(
            "one look-up, ms",
            row | {"p50": samples.median, "p99": samples.percentile(99), "most": max(samples.values)},
        )


if __name__ == "__main__":
    raise SystemExit(main())
