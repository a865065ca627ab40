"""check_number: one way to refuse a configuration value."""

from __future__ import annotations


def check_number(name: str, value: object, kind: type[int] | type[float], low: float, high: float) -> None:
    """ValueError naming the key, the value and the range where `value` is no `kind` from `low` to `high`."""
    accepted = int if kind is int else (int, float)
    if isinstance(value, bool) or not isinstance(value, accepted) or not low <= value <= high:
        what = "a whole number" if kind is int else "a number"
        raise ValueError(f"speculative_config: {name} is {value!r}; it must be {what} from {low} to {high}")
