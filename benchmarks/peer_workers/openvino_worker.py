"""OpenVINO GenAI in the race: its continuous-batching pipeline over an exported model folder.

`options`: {"prompt_lookup": tokens} or nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.peer_workers.protocol import Generate, Prompts, Settings, serve

PRECISIONS = {"fp32": "f32", "bf16": "bf16"}


def build(settings: Settings) -> Generate:
    """Compiles the model for the CPU in the asked precision."""
    openvino: Any = import_module("openvino")
    genai: Any = import_module("openvino_genai")
    scheduler = genai.SchedulerConfig()
    scheduler.cache_size = 2
    scheduler.max_num_seqs = settings.concurrency
    scheduler.enable_prefix_caching = False
    properties: dict[str, Any] = {
        "INFERENCE_PRECISION_HINT": PRECISIONS[settings.dtype],
        "INFERENCE_NUM_THREADS": settings.threads,
        "KV_CACHE_PRECISION": PRECISIONS[settings.dtype],
    }
    lookup = settings.options.get("prompt_lookup")
    if lookup:
        properties["prompt_lookup"] = True
    pipeline = genai.ContinuousBatchingPipeline(settings.model, scheduler, "CPU", properties)

    def generate(prompts: Prompts, concurrency: int, max_tokens: int) -> Prompts:
        config = genai.GenerationConfig()
        config.max_new_tokens = max_tokens
        config.ignore_eos = True
        if lookup:
            config.num_assistant_tokens = lookup
            config.max_ngram_size = 3
        asked = [openvino.Tensor(np.array([ids], dtype=np.int64)) for ids in prompts]
        groups = [[one] for one in asked] if concurrency == 1 else [asked]
        results = [result for group in groups for result in pipeline.generate(group, [config] * len(group))]
        return [list(result.m_generation_ids[0]) for result in results]

    return generate


if __name__ == "__main__":
    serve(build)
