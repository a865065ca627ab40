"""The openai package against `paradraft serve`: a stream, and what the drafts achieved.

    pip install openai
    paradraft serve                       # in another terminal
    python examples/openai_client.py

OPENAI_BASE_URL and OPENAI_API_KEY are read where the server is elsewhere or wants a key.
"""

import os

from openai import OpenAI


def main() -> None:
    """Streams one answer; asks for another whole, with its statistics."""
    client = OpenAI(
        base_url=os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1"),
        api_key=os.environ.get("OPENAI_API_KEY", "none"),
    )
    model = client.models.list().data[0].id
    ask = [{"role": "user", "content": "Repeat this list and add two colours: red, green, blue, red, green, blue."}]

    stream = client.chat.completions.create(model=model, messages=ask, max_tokens=64, temperature=0, stream=True)
    for chunk in stream:
        print(chunk.choices[0].delta.content or "", end="", flush=True)
    print()

    whole = client.chat.completions.create(
        model=model, messages=ask, max_tokens=64, temperature=0, extra_body={"return_metrics": True}
    )
    print(whole.usage)
    print(whole.model_dump()["metrics"])


if __name__ == "__main__":
    main()
