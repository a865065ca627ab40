"""probe: a few built-in prompts with speculation, and what came of their drafts."""

from __future__ import annotations

from drafters.model_config import ModelConfig
from protos.messages import RequestStats
from protos.sampling_params import SamplingParams
from services.cli.diagnosis import Evidence
from services.offline import LLM
from services.speculative_config import SpeculativeConfig

PROMPTS = (
    "Rename the variable x to total in this code and show all of it:\n"
    "def add(items):\n    x = 0\n    for item in items:\n        x = x + item\n    return x\n",
    "Repeat this sentence three times: The draft is a guess, the target decides.",
    "Why is the sky blue? Answer in two sentences.",
    "Write a short story about a lighthouse.",
)
MAX_TOKENS = 64


def probe(llm: LLM, speculative: SpeculativeConfig, *, temperature: float, raw: bool) -> Evidence:
    """Answers the prompts all at once, with seeds of its own, so that two runs of the doctor agree."""
    params = [
        SamplingParams(temperature=temperature, max_tokens=MAX_TOKENS, seed=seed) for seed, _ in enumerate(PROMPTS)
    ]
    if raw:
        outputs = llm.generate(PROMPTS, params, use_tqdm=False)
    else:
        outputs = llm.chat([[{"role": "user", "content": prompt}] for prompt in PROMPTS], params, use_tqdm=False)
    answers = [output.outputs[0] for output in outputs]
    engine = llm.stats()
    status, drafter = engine.drafter, speculative.drafter
    return Evidence(
        method=speculative.method,
        temperature=temperature,
        stats=sum((answer.stats for answer in answers), RequestStats()),
        answers_ended=sum(answer.finish_reason == "stop" for answer in answers) / len(answers),
        failures=0 if status is None else int(sum(status.counters.get(name, 0) for name in ("errors", "timeouts"))),
        draft_share=engine.draft_seconds / max(engine.step_seconds, 1e-9),
        longest=speculative.num_speculative_tokens,
        min_survival=drafter.min_survival if isinstance(drafter, ModelConfig) else 0.0,
    )
