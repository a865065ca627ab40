"""paradraft in the race: its engine in process, `options` being a speculative_config or nothing."""

from __future__ import annotations

import torch

from benchmarks.harness.loading import open_session
from benchmarks.peer_workers.protocol import Generate, Prompts, Settings, serve
from modeling.target import TargetSpec, load_target
from protos.sampling_params import SamplingParams


def build(settings: Settings) -> Generate:
    """Loads the model and opens one engine."""
    torch.set_num_threads(settings.threads)
    spec = TargetSpec(
        model=settings.model,
        dtype=settings.dtype,
        device="cpu",
        threads=settings.threads,
        max_num_seqs=settings.concurrency,
        max_model_len=2048,
        kv_cache_gib=8.0,
    )
    session = open_session(load_target(spec), settings.options or None)

    def generate(prompts: Prompts, concurrency: int, max_tokens: int) -> Prompts:
        params = SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True, seed=0)
        run = session.run([tuple(ids) for ids in prompts], params, concurrency=concurrency)
        return [list(answer) for answer in run.answers]

    return generate


if __name__ == "__main__":
    serve(build)
