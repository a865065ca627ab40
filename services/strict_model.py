"""StrictModel: a pydantic base whose errors name the key, the value, and the key that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import ErrorDetails


class StrictModel(BaseModel):
    """Refuses unknown keys. Whoever validates it (Ray Serve, the command line, Python) gets the same sentences."""

    # The input would be printed whole, API keys included; the sentences below quote only the value at fault.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, protected_namespaces=())

    @model_validator(mode="wrap")
    @classmethod
    def _explain(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(data)
        except ValidationError as error:
            raise ValueError("; ".join(cls._sentence(details) for details in error.errors())) from None

    @classmethod
    def _sentence(cls, details: ErrorDetails) -> str:
        path = ".".join(str(part) for part in cls._public(details["loc"]))
        message = details["msg"].removeprefix("Value error, ")
        match details["type"]:
            case "extra_forbidden":
                return f"unknown key {path!r}{suggestion(path, list(cls.model_fields))}"
            case "missing":
                return f"{path} is required"
            case "value_error":
                return f"{path}: {message}" if path and not message.startswith(f"{path}:") else message
            case "model_type" | "model_attributes_type":
                return f"{path or cls.__name__} must be a mapping of options"
            case _:
                return f"{path} is {details['input']!r}; {message[:1].lower()}{message[1:]}"

    @classmethod
    def _public(cls, loc: tuple[int | str, ...]) -> tuple[int | str, ...]:
        """The path as far as it may be shown: what is inside a field without repr is a secret."""
        field = cls.model_fields.get(str(loc[0])) if loc else None
        return loc[:1] if field is not None and not field.repr else loc


def sentences(error: ValidationError) -> str:
    """Ours alone: pydantic's own text adds counts, types and links around them."""
    return "; ".join(details["msg"].removeprefix("Value error, ") for details in error.errors())


def suggestion(key: str, known: Sequence[str]) -> str:
    """The end of a sentence about an unknown key: the one that was probably meant, or all there are."""
    near = difflib.get_close_matches(key, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known keys: {', '.join(known)}"
