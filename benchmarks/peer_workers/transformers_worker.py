"""transformers in the race: generate; more than one request at a time are a static batch. `options` go to generate."""

from __future__ import annotations

import torch
from transformers import AutoModelForCausalLM

from benchmarks.harness.baseline import Baseline
from benchmarks.peer_workers.protocol import Generate, Prompts, Settings, serve


def build(settings: Settings) -> Generate:
    """Loads the model, and the assistant where `options` name one."""
    torch.set_num_threads(settings.threads)
    options = dict(settings.options)
    if "assistant" in options:
        options["assistant_model"] = AutoModelForCausalLM.from_pretrained(options.pop("assistant"))
    baseline = Baseline(settings.model, settings.dtype, options)

    def generate(prompts: Prompts, concurrency: int, max_tokens: int) -> Prompts:
        batches = [prompts[i : i + concurrency] for i in range(0, len(prompts), concurrency)]
        return [
            list(answer)
            for batch in batches
            for answer in baseline.generate([tuple(ids) for ids in batch], max_tokens=max_tokens)
        ]

    return generate


if __name__ == "__main__":
    serve(build)
