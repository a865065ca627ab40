"""LLM: generation in this process, without Ray: prompts in, answers with their draft statistics out."""

from __future__ import annotations

import itertools
import threading
from collections import defaultdict, deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from pydantic import ValidationError

from modeling.target import Target, load_target
from protos.messages import Finish, Request, Speculative, Verdict
from protos.sampling_params import SamplingParams
from protos.seeds import expand
from services.config import EngineArgs
from services.in_process import fusion_for, local_drafter
from services.interrupts import held_interrupts
from services.outputs import RequestOutput, completion
from services.per_prompt import SpeculationGiven, sampling_params_of, speculation_of
from services.progress import GenerationBar
from services.prompts import EncodedPrompt, Message, Prompt, encode, encode_chats
from services.strict_model import sentences
from verifier.admission import QueueFullError, admissible
from verifier.engine import Engine
from verifier.engine_stats import EngineStats


class LLM:
    """A model with an engine of its own. Not for several threads at once.

    model: a name or path. options: the others of `services.config.EngineArgs` (dtype, device, threads, max_model_len,
    max_num_seqs, …) with vLLM's names; an unknown one is a ValueError. speculative_config: vLLM's keys, for instance
    `{"method": "suffix", "num_speculative_tokens": 8}`, or the name of a method; without it the model decodes plainly.
    Speculation changes the time, never the text.
    """

    def __init__(
        self, model: str = "smollm2-135m", *, speculative_config: Mapping[str, Any] | str | None = None, **options: Any
    ) -> None:
        try:
            args = EngineArgs.model_validate({"model": model, "speculative_config": speculative_config, **options})
        except ValidationError as error:
            raise ValueError(sentences(error)) from None
        self._start(load_target(args.target_spec()), args)

    @classmethod
    def on(cls, target: Target, args: EngineArgs) -> LLM:
        """Over a target that is loaded already; what `args` say of loading has no part in it."""
        llm = cls.__new__(cls)
        llm._start(target, args)
        return llm

    def _start(self, target: Target, args: EngineArgs) -> None:
        self._target = target
        self._speculative_config = args.speculative_config
        fusion = fusion_for(args, target)  # first, so that what does not fit the target finds no drafter to end
        self._drafter = local_drafter(args, target)
        self._engine = Engine(target, args.engine_config(), self._drafter, fusion)
        self._numbers = itertools.count()
        self._runs: list[_Run] = []
        self._closed = False

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        speculative: SpeculationGiven = None,
        use_tqdm: bool = True,
    ) -> list[RequestOutput]:
        """Answers each prompt, in order.

        A prompt is a string, token ids, or a mapping with `prompt` or `prompt_token_ids`. One `sampling_params` for all
        or one for each; none means `SamplingParams()`: temperature 1 and 16 tokens, as in vLLM. `speculative`, the
        HTTP body's, likewise: `{"enabled": False}`, fewer `num_speculative_tokens` than configured, or the `method` of
        one of several drafters. ValueError before anything runs where a prompt does not fit the model, or an option
        the drafter. RuntimeError where a request failed on the way.
        """
        encoded = encode(prompts, self.get_tokenizer())
        return self._answer(self._jobs(encoded, sampling_params, speculative), show_progress=use_tqdm)

    def chat(
        self,
        messages: Sequence[Message] | Sequence[Sequence[Message]],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        speculative: SpeculationGiven = None,
        use_tqdm: bool = True,
        continue_final_message: bool = False,
    ) -> list[RequestOutput]:
        """`generate` for one conversation or several: messages of `role` and `content`, in the model's own template."""
        chats = encode_chats(messages, self.get_tokenizer(), continue_final_message=continue_final_message)
        return self._answer(self._jobs(chats, sampling_params, speculative), show_progress=use_tqdm)

    def stream(
        self,
        prompt: Prompt,
        sampling_params: SamplingParams | None = None,
        *,
        speculative: Mapping[str, Any] | None = None,
    ) -> Iterator[Verdict]:
        """The verdicts on one prompt as they come; closing the iterator aborts the request."""
        (job,) = self._jobs(encode([prompt], self.get_tokenizer()), sampling_params, speculative)
        if len(job.requests) > 1:
            raise ValueError(f"n is {len(job.requests)}; a stream has one answer, use generate() for several")
        yield from self._run(job.requests)

    def get_tokenizer(self) -> Any:
        """The model's transformers tokenizer."""
        return self._target.tokenizer

    def stats(self) -> EngineStats:
        """Counters of the engine since it was made."""
        return self._engine.stats()

    def close(self) -> None:
        """Ends the drafter; idempotent. Generating afterwards is a RuntimeError. The memory goes with the object."""
        self._closed = True
        if self._drafter is not None:
            self._drafter.shutdown()

    def __enter__(self) -> LLM:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _answer(self, jobs: Sequence[_Job], *, show_progress: bool) -> list[RequestOutput]:
        requests = [request for job in jobs for request in job.requests]
        for request in requests:  # the engine will ask again, but of the last one perhaps after an hour of work
            admissible(request, self._target)
        verdicts: dict[str, list[Verdict]] = defaultdict(list)
        with GenerationBar(len(requests), enabled=show_progress) as bar, closing(self._run(requests)) as run:
            for verdict in run:
                if verdict.finish is Finish.ERROR:
                    raise RuntimeError(f"request {verdict.request_id} failed: {verdict.error}")
                verdicts[verdict.request_id].append(verdict)
                bar.saw(verdict)
        return [job.output(verdicts) for job in jobs]

    def _jobs(
        self,
        prompts: Sequence[EncodedPrompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None,
        speculative: SpeculationGiven,
    ) -> list[_Job]:
        params = sampling_params_of(sampling_params, len(prompts))
        speculation = speculation_of(speculative, len(prompts), self._speculative_config)
        return [self._job(*each) for each in zip(prompts, params, speculation, strict=True)]

    def _job(self, prompt: EncodedPrompt, params: SamplingParams, speculative: Speculative) -> _Job:
        name = str(next(self._numbers))
        requests = tuple(
            Request(request_id=f"{name}-{index}", prompt_ids=prompt.ids, params=child, speculative=speculative)
            for index, child in enumerate(expand(params))
        )
        return _Job(name=name, prompt=prompt, requests=requests)

    def _run(self, requests: Sequence[Request]) -> Generator[Verdict]:
        """Adds requests as fast as the queue takes them. Leaving early, by whatever way, aborts those still open."""
        if self._closed:
            raise RuntimeError("this LLM is closed; make another")
        run = _Run(waiting=deque(requests))
        self._runs.append(run)
        try:
            if any(other.thread != run.thread for other in self._runs):
                raise RuntimeError("this LLM is answering another thread; give each thread its own, or serve the model")
            while run.waiting or run.open_ids:
                self._admit(run)
                if not run.news:
                    self._step()
                while run.news:
                    verdict = run.news.popleft()
                    if verdict.finish is not None:
                        run.open_ids.remove(verdict.request_id)
                    yield verdict
        finally:
            self._runs.remove(run)
            for request_id in run.open_ids:
                self._engine.abort(request_id)

    def _admit(self, run: _Run) -> None:
        while run.waiting:
            try:
                self._engine.add(run.waiting[0])
            except QueueFullError:
                return  # a step makes room: it ends what was aborted and advances what runs
            run.open_ids.add(run.waiting.popleft().request_id)

    def _step(self) -> None:
        """Advances all runs: one may be called while a stream is half read."""
        with held_interrupts():
            for verdict in self._engine.step():
                for run in self._runs:
                    if verdict.request_id in run.open_ids:
                        run.news.append(verdict)


@dataclass(slots=True, kw_only=True, eq=False)
class _Run:
    """Requests of one call: not added yet, not finished yet, and the verdicts that it has not taken."""

    waiting: deque[Request]
    open_ids: set[str] = field(default_factory=set)
    news: deque[Verdict] = field(default_factory=deque)
    thread: int = field(default_factory=threading.get_ident)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """One prompt and its sequences."""

    name: str
    prompt: EncodedPrompt
    requests: tuple[Request, ...]

    def output(self, verdicts: Mapping[str, Sequence[Verdict]]) -> RequestOutput:
        return RequestOutput(
            request_id=self.name,
            prompt=self.prompt.text,
            prompt_token_ids=self.prompt.ids,
            outputs=tuple(
                completion(index, request=request, verdicts=verdicts[request.request_id])
                for index, request in enumerate(self.requests)
            ),
        )
