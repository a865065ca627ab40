"""Builder: draft files written ahead of traffic, prompt by prompt, to go on from after any stop."""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from cache_service.search.pretriever import Pretriever
from cache_service.storage.namespace import directory_name
from cache_service.storage.store import Store
from cache_service.transfer.destination import Destination, carried
from cache_service.transfer.merging import Merged, merge
from drafters.landmarks import Landmarks
from drafters.prefix_features import namespace_of
from modeling.target import Target
from protos.draft_files import MAX_PATHS, Namespace
from protos.messages import Finish, Request, Tokens
from protos.sampling_params import SamplingParams
from services.draft_building.authors import Author, Filing, author_of
from services.draft_building.build_config import TARGET, BuildConfig
from services.draft_building.journal import KEY_BYTES, Journal
from services.draft_files.direct import DirectDraftFiles
from services.in_process import drafter_context
from services.interrupts import held_interrupts
from verifier.admission import QueueFullError

READ_AT_ONCE = 512  # tokens of a prompt that a trained drafter surely reads in a step


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """How each prompt goes on: `paths` times, first greedily, then drawn. ValueError for what makes no sense."""

    paths: int
    temperature: float
    top_p: float
    max_tokens: int

    def __post_init__(self) -> None:
        if not 1 <= self.paths <= MAX_PATHS:
            raise ValueError(f"paths is {self.paths}; a prefix has 1 to {MAX_PATHS}")
        if self.paths > 1 and self.temperature == 0:
            raise ValueError(f"{self.paths} paths at temperature 0 are all the same; give one path, or a temperature")
        self.params((), 1)

    def params(self, prompt_ids: Tokens, index: int) -> SamplingParams:
        """The seed hangs on the prompt alone: asked again, in whatever company, it goes on likewise."""
        if index == 0:
            return SamplingParams(temperature=0.0, max_tokens=self.max_tokens, seed=0)
        digest = hashlib.blake2b(array("i", (index, *prompt_ids)).tobytes(), digest_size=8).digest()
        return SamplingParams(
            temperature=self.temperature,
            top_p=self.top_p,
            max_tokens=self.max_tokens,
            seed=int.from_bytes(digest, "big") >> 1,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One way in which a prompt goes on. key: names it and all it hangs on. digest: of the prompt."""

    request: Request
    key: bytes
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """tasks: to do, with `paths` of each prompt. done: how many an earlier build did. too_long: prompts that do not
    fit, with what would follow."""

    tasks: tuple[Task, ...]
    paths: int
    done: int
    too_long: int


class Builder:
    """Over a loaded target and an open store, of which it writes one namespace."""

    def __init__(self, store: Store, config: BuildConfig, target: Target, *, tenant: str) -> None:
        self._store = store
        self._config = config
        self.target = target
        context = drafter_context(config.args, target, threads=config.args.threads)
        self.namespace = namespace_of(config.cached, context, tenant)
        self.shelf = store.shelf(self.namespace)
        self._journal = Journal(store.directory)

    def warm(self, source: Namespace, seen: Callable[[int], None]) -> Merged:
        """Takes over what another model version has; ValueError where its token ids mean something else here."""
        if source == self.namespace:
            raise ValueError(f"{directory_name(source)} is this model's own namespace already; give an older one's id")
        here = self.namespace
        Destination(fingerprint=here.fingerprint, tokenizer=here.tokenizer).of(source)
        records = (carried(record, source, here) for record in self._store.shelf(source).records())
        return merge(self.shelf, records, seen)

    def plan(self, prompts: Iterable[Tokens], drawing: Drawing) -> Plan:
        """What is to do; a prompt that comes twice is one. One whose drafts had to make room is to do again."""
        known = list(dict.fromkeys(prompts))
        fitting = [ids for ids in known if len(ids) + self._max_tokens(ids, drawing) <= self.target.max_model_len]
        tasks = [task for ids in fitting for task in self._tasks(ids, drawing)]
        left = tuple(task for task in tasks if not self._is_done(task))
        return Plan(tasks=left, paths=drawing.paths, done=len(tasks) - len(left), too_long=len(known) - len(fitting))

    def run(self, plan: Plan) -> Iterator[int]:
        """Does it; how many tokens each task took, once it is done for good. RuntimeError where one fails."""
        by_id = {task.request.request_id: task for task in plan.tasks}
        with ExitStack() as opened:
            pretriever = Pretriever(self._store, min_similarity=self._config.cached.min_similarity)
            opened.callback(pretriever.close)
            files = DirectDraftFiles(pretriever)
            filing = Filing(files=files, namespace=self.namespace, max_paths=MAX_PATHS // plan.paths)
            author = author_of(self._config, self.target, filing)
            opened.callback(author.engine.shutdown)
            for request_id, count in _finished(author, [task.request for task in plan.tasks]):
                files.check()
                task = by_id[request_id]
                self._journal.note(task.key, stored=self.shelf.row_of(task.digest) is not None)
                yield count

    def _tasks(self, ids: Tokens, drawing: Drawing) -> Iterator[Task]:
        digest = prompt_digest(ids)
        for index in range(drawing.paths):
            params = replace(drawing.params(ids, index), max_tokens=self._max_tokens(ids, drawing))
            key = self._key(digest, params)
            request = Request(request_id=key.hex(), prompt_ids=ids, params=params, tenant=self.namespace.tenant)
            yield Task(request=request, key=key, digest=digest)

    def _max_tokens(self, ids: Tokens, drawing: Drawing) -> int:
        """Of a trained author's prompt only so many that it has read the prompt, and may draft its longest."""
        if self._config.author == TARGET:
            return drawing.max_tokens
        speculation = self._config.args.speculative_config
        assert speculation is not None, "the author"
        return len(ids) // READ_AT_ONCE + speculation.num_speculative_tokens + 4

    def _key(self, digest: bytes, params: SamplingParams) -> bytes:
        speculation = self._config.args.speculative_config
        author = TARGET if self._config.author == TARGET or speculation is None else repr(speculation.drafter)
        hashed = hashlib.blake2b(digest, digest_size=KEY_BYTES)
        for field in (directory_name(self.namespace), author, repr(params)):
            hashed.update(len(field).to_bytes(8, "little") + field.encode())
        return hashed.digest()

    def _is_done(self, task: Task) -> bool:
        stored = self._journal.stored(task.key)
        return stored is not None and (not stored or self.shelf.row_of(task.digest) is not None)


def _finished(author: Author, requests: Sequence[Request]) -> Iterator[tuple[str, int]]:
    """Runs them, as many at a time as the engine takes; each that is finished, with the number of its tokens."""
    waiting, counts, engine = deque(requests), Counter[str](), author.engine
    while waiting or engine.has_work:
        while waiting:
            try:
                engine.add(waiting[0])
            except QueueFullError:
                break
            waiting.popleft()
        with held_interrupts():
            verdicts = engine.step()
        for request_id in author.take_done():
            engine.abort(request_id)
        for verdict in verdicts:
            if verdict.finish is Finish.ERROR:
                raise RuntimeError(f"a prompt failed: {verdict.error}")
            counts[verdict.request_id] += len(verdict.tokens)
            if verdict.finish is not None:
                yield verdict.request_id, counts.pop(verdict.request_id)


def prompt_digest(ids: Tokens) -> bytes:
    """Of the prompt's end, as a cached drafter has it."""
    landmarks = Landmarks(len(ids))
    landmarks.extend(array("i", ids))
    return landmarks.digest(len(ids))
