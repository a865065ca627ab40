"""Destination: where records from elsewhere go: to the same namespace, another tenant's, or a new model version's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from cache_service.storage.namespace import directory_name
from cache_service.storage.record import Record
from protos.draft_files import Namespace

DIGITS = 32  # of a fingerprint, of weights or of a tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A kind of prefix features and their width; "" and 0 where prefixes have none."""

    name: str
    width: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """What is None stays as it was. tokenizer: of the model with `fingerprint`; it is compared, never changed."""

    tenant: str | None = None
    fingerprint: str | None = None
    tokenizer: str | None = None
    feature: Feature | None = None

    def of(self, source: Namespace) -> Namespace:
        """Where the records of `source` go. ValueError where their token ids mean something else there, or may."""
        named = f"the drafts of {directory_name(source)}"
        if self.tokenizer is not None and self.tokenizer != source.tokenizer:
            raise ValueError(
                f"{named} are of tokenizer {source.tokenizer}, and the model's is {self.tokenizer}: their token ids "
                "mean other text there; build drafts for that model from prompts"
            )
        if self.fingerprint not in (None, source.fingerprint) and self.tokenizer is None:
            raise ValueError(
                f"the tokenizer of model {self.fingerprint} is not known here: say it, so that it can be compared with "
                f"that of {named}, {source.tokenizer}"
            )
        feature = self.feature or Feature(name=source.feature, width=source.width)
        return replace(
            source,
            tenant=source.tenant if self.tenant is None else self.tenant,
            fingerprint=self.fingerprint or source.fingerprint,
            feature=feature.name,
            width=feature.width,
        )


def carried(record: Record, source: Namespace, target: Namespace) -> Record:
    """The record as `target` may have it: without its feature where that was made by other weights, or otherwise.

    The states of other weights lie in another space, where a cosine says nothing.
    """
    same = (source.fingerprint, source.feature, source.width) == (target.fingerprint, target.feature, target.width)
    return record if same or record.feature is None else replace(record, feature=None)


def tokenizer_of(fingerprint: str, known: Iterable[Namespace]) -> str | None:
    """As namespaces of that model say; None where there are none."""
    return next((each.tokenizer for each in known if each.fingerprint == fingerprint), None)


def completed(beginning: str, known: Iterable[str], *, what: str) -> str:
    """The one of those that are known that begins so, or `beginning` itself where it has all its digits; else
    ValueError."""
    found = sorted({each for each in known if each.startswith(beginning)})
    if len(found) == 1:
        return found[0]
    if found:
        raise ValueError(f"{what} {beginning!r} is the beginning of {', '.join(found)}; give more digits")
    if len(beginning) != DIGITS:
        raise ValueError(
            f"{what} {beginning!r} is not known here and has {len(beginning)} of {DIGITS} digits; give all of them, as "
            "`paradraft cache ls --json` prints them"
        )
    return beginning
