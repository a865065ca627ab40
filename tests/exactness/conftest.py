"""The text that all of the suite is compared with, decoded once for each type."""

from __future__ import annotations

import pytest

from modeling.target import Target
from tests.exactness.rig import PROMPTS, SAMPLINGS, Reference, plain, request


@pytest.fixture(scope="session")
def reference(builtin_target: Target) -> Reference:
    """Eight prompts, the three ways of sampling spread over them, each alone without a drafter."""
    kinds = list(SAMPLINGS)
    requests = [request(builtin_target, i, kinds[i % len(kinds)]) for i in range(len(PROMPTS))]
    return builtin_target, requests, plain(builtin_target, requests)
