"""SpeculativeOptions: how one request is to be speculated for, over HTTP and in `LLM` alike."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from protos.field_error import FieldError
from protos.messages import Speculative
from services.request_fields import RequestFields, short
from services.speculative_config import SpeculativeConfig


class SpeculativeOptions(RequestFields):
    """Speculation off, shorter than configured, or by one of the configured drafters. The text is the same."""

    enabled: bool = True
    num_speculative_tokens: int | None = Field(default=None, ge=1)
    method: str | None = None

    def to_message(self, config: SpeculativeConfig | None) -> Speculative:
        """The record the engine reads; FieldError where `config` has no such drafter, or none that drafts so far."""
        self._check_method(config.methods if config else ())
        self._check_length(config.longest_draft(self.method) if config else 0)
        return Speculative(enabled=self.enabled, num_speculative_tokens=self.num_speculative_tokens, method=self.method)

    def _check_method(self, known: Sequence[str]) -> None:
        if self.method is not None and self.method not in known:
            remedy = f"use {' or '.join(map(repr, known))}, or leave it out" if known else "there is none; leave it out"
            raise FieldError(
                "speculative.method", f"speculative.method is {short(self.method)}, no drafter here; {remedy}"
            )

    def _check_length(self, longest: int) -> None:
        asked = self.num_speculative_tokens
        if asked is None or asked <= longest:
            return
        drafts = f"drafts of {self.method}" if self.method else "drafts"
        remedy = (
            f"{drafts} have at most {longest} here; ask for no more" if longest else "nothing drafts here; leave it out"
        )
        field = "speculative.num_speculative_tokens"
        raise FieldError(field, f"{field} is {short(asked)}, but {remedy}")


class SpeculativeFields(RequestFields):
    """What has the options under this name."""

    speculative: SpeculativeOptions = SpeculativeOptions()
