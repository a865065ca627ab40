"""The OpenAI-compatible HTTP API over any `Backend`; knows nothing of Ray."""
