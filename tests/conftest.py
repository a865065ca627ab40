"""What every test shares: the thread budget, and the built-in model loaded once for each type."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # before torch: waiting threads must not burn the cores
os.environ.setdefault("RAY_AUTH_MODE", "disabled")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from functools import cache

import pytest

from modeling.target import Target, TargetSpec, load_target

MAX_LEN = 1024


@cache
def builtin(dtype: str) -> Target:
    return load_target(TargetSpec(dtype=dtype, device="cpu", max_num_seqs=9, max_model_len=MAX_LEN))


@pytest.fixture(scope="session", params=["fp32", "bf16"])
def builtin_target(request: pytest.FixtureRequest) -> Target:
    """The built-in model in fp32 and in bf16; its KV slots are shared by all tests of the session."""
    return builtin(request.param)


@pytest.fixture(scope="session")
def builtin_fp32() -> Target:
    return builtin("fp32")
