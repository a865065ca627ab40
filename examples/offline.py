"""Offline use, as vLLM's users know it: one engine in this process, with and without speculation.

python examples/offline.py
"""

from paradraft import LLM, SamplingParams

PROMPTS = [
    "Repeat this sentence three times: The draft is a guess, the target decides.",
    "Why is the sky blue? Answer in two sentences.",
]


def main() -> None:
    """Answers the prompts with drafts, then without, and compares."""
    chats = [[{"role": "user", "content": prompt}] for prompt in PROMPTS]
    params = SamplingParams(temperature=0.7, top_p=0.9, seed=1, max_tokens=64)

    with LLM("smollm2-135m", speculative_config={"method": "suffix", "num_speculative_tokens": 8}) as llm:
        drafted = llm.chat(chats, params)
    with LLM("smollm2-135m") as llm:
        plain = llm.chat(chats, params)

    for prompt, output in zip(PROMPTS, drafted, strict=True):
        answer = output.outputs[0]
        print(f"> {prompt}\n{answer.text}")
        print(f"  [{answer.stats.speculation.accepted} of {len(answer.token_ids)} tokens were guessed]\n")
    same = [o.outputs[0].token_ids for o in drafted] == [o.outputs[0].token_ids for o in plain]
    print("the text without drafts is", "the same" if same else "ANOTHER")


if __name__ == "__main__":
    main()
