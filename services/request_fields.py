"""RequestFields: what may be asked of one request, read strictly; a mistake is a FieldError that names the field."""

from __future__ import annotations

import difflib
import json
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails

from protos.field_error import FieldError


class RequestFields(BaseModel):
    """No coercion, no unknown field. Null means that the field was left out."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, protected_namespaces=())

    @model_validator(mode="before")
    @classmethod
    def _null_is_left_out(cls, fields: Any) -> Any:
        if not isinstance(fields, dict):
            return fields
        return {name: value for name, value in fields.items() if value is not None or name not in cls.model_fields}

    @classmethod
    def read(cls, fields: dict[str, Any]) -> Self:
        """Validates; FieldError names the first field at fault, its value and what would be right."""
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            raise cls._field_error(error.errors()[0]) from None

    @classmethod
    def _field_error(cls, details: ErrorDetails) -> FieldError:
        field = _path(details)
        message = details["msg"].removeprefix("Value error, ")
        match details["type"]:
            case "extra_forbidden":
                return FieldError(field, f"unknown field {short(field)}{cls._suggestion(field)}")
            case "missing":
                return FieldError(field, f"{field} is required")
            case "value_error" if isinstance(error := details["ctx"]["error"], FieldError):
                return FieldError(error.field, message)
            case "value_error":
                return FieldError(field, f"{field}: {message}")
            case "model_type" | "dict_type":
                return FieldError(field, f"{field} is {short(details['input'])}; it must be an object")
            case _:
                return FieldError(field, f"{field} is {short(details['input'])}; {message[:1].lower()}{message[1:]}")

    @classmethod
    def _suggestion(cls, name: str) -> str:
        near = [] if "." in name else difflib.get_close_matches(name[:80], list(cls.model_fields), n=1)
        return f"; did you mean {near[0]!r}?" if near else ""


def short(value: object) -> str:
    """A value as JSON, to quote in a message; cut where it is long."""
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _path(details: ErrorDetails) -> str:
    """Path of the field. Branches of a union add their own names to it, which no client knows."""
    return ".".join(str(part) for part in details["loc"] if part not in {"int", "float", "str"})
