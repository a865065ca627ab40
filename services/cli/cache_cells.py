"""How what is said of draft files is written: sizes, times, names."""

from __future__ import annotations

from datetime import UTC, datetime

from protos.draft_files import Namespace

SHORT = 12  # digits of an id that are shown; any beginning that only one has will do
NOBODY = "(none)"  # the tenant of a server without API keys


def size(num_bytes: int) -> str:
    """Such as 1.5 MiB."""
    amount, unit = float(num_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"


def iso(microseconds: int) -> str | None:
    """A time in UTC, as ISO 8601 has it; None for 0, which stands for never."""
    return datetime.fromtimestamp(microseconds / 1e6, UTC).isoformat() if microseconds else None


def day_and_time(microseconds: int) -> str:
    """Local, to the minute; `never` for 0."""
    if not microseconds:
        return "never"
    return f"{datetime.fromtimestamp(microseconds / 1e6, UTC).astimezone():%Y-%m-%d %H:%M}"


def kind_of(namespace: Namespace) -> str:
    """How its features are made."""
    return namespace.feature or "none"


def in_words(namespace: Namespace) -> str:
    """Whose and of what, in one line."""
    tenant = namespace.tenant or NOBODY
    model, tokens = namespace.fingerprint[:SHORT], namespace.tokenizer[:SHORT]
    return f"tenant {tenant}, model {model}, tokenizer {tokens}, features {kind_of(namespace)}"
