"""vLLM in the race: its offline LLM. `options`: {"speculative_config": {...}} or nothing."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from benchmarks.peer_workers.protocol import Generate, Prompts, Settings, serve

DTYPES = {"fp32": "float32", "bf16": "bfloat16"}


def build(settings: Settings) -> Generate:
    """Loads the model without its prefix cache, which would answer the same prompts for nothing."""
    os.environ["VLLM_CPU_KVCACHE_SPACE"] = "2"
    os.environ["VLLM_CPU_OMP_THREADS_BIND"] = f"0-{settings.threads - 1}"
    vllm: Any = import_module("vllm")
    llm = vllm.LLM(
        model=settings.model,
        dtype=DTYPES[settings.dtype],
        enforce_eager=True,
        enable_prefix_caching=False,
        max_model_len=2048,
        max_num_seqs=settings.concurrency,
        **settings.options,
    )

    def generate(prompts: Prompts, concurrency: int, max_tokens: int) -> Prompts:
        params = vllm.SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True)
        asked = [{"prompt_token_ids": ids} for ids in prompts]
        groups = [[one] for one in asked] if concurrency == 1 else [asked]
        outputs = [output for group in groups for output in llm.generate(group, params, use_tqdm=False)]
        return [list(output.outputs[0].token_ids) for output in outputs]

    return generate


if __name__ == "__main__":
    serve(build)
