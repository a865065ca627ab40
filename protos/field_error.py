"""FieldError: a value that is refused, and the field it was given in."""

from __future__ import annotations


class FieldError(ValueError):
    """The message is whole and names the field by itself; `field` is for those who report it apart."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(field, message)  # both, so that it can be pickled
        self.field = field

    def __str__(self) -> str:
        return str(self.args[1])
