"""Words: the text of stored tokens, by the tokenizer of a model whose weights stay where they are."""

from __future__ import annotations

from typing import Any

from modeling.fingerprint import tokenizer_print
from modeling.target import resolve_model
from protos.draft_files import Namespace
from protos.messages import Tokens


class Words:
    """Over the tokenizer of `model`. ValueError where that has none."""

    def __init__(self, model: str) -> None:
        from transformers import AutoTokenizer

        self.model = model
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(resolve_model(model))
        except (ImportError, OSError, ValueError) as error:
            first = str(error).partition("\n")[0]
            raise ValueError(f"--model {model!r} has no tokenizer that can be read: {first}; give another") from error
        self._print = tokenizer_print(self._tokenizer.backend_tokenizer.to_str()) if self._tokenizer.is_fast else ""

    def fits(self, namespace: Namespace) -> bool:
        """Whether the tokens there are this tokenizer's."""
        return namespace.tokenizer == self._print

    def text(self, tokens: Tokens) -> str:
        """In quotes, with escapes, so that it stays in one line."""
        return repr(self._tokenizer.decode(tokens))
