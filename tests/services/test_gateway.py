"""ServeBackend: a verifier that is lost or does not come up is a refusal, neither an exception nor a hanging call."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from ray.exceptions import RayActorError

from protos.messages import Request
from protos.sampling_params import SamplingParams
from services import gateway
from services.backend import Refusal
from services.gateway import ServeBackend


class _Lost:
    """A handle whose every call finds its replica dead."""

    def options(self, **_: Any) -> _Lost:
        return self

    @property
    def probe(self) -> _Lost:
        return self

    async def remote(self) -> None:
        raise RayActorError


async def test_a_probe_of_a_lost_verifier_is_a_503() -> None:
    answer = await ServeBackend(_Lost()).probe()  # type: ignore[arg-type]
    assert isinstance(answer, Refusal)
    assert answer.status == 503


class _Absent(_Lost):
    """A handle without a replica: Serve keeps every call until there is one."""

    def __init__(self) -> None:
        self.cancelled = 0

    @property
    def generate(self) -> _Absent:
        return self

    @property
    def card(self) -> _Lost:
        return _Waiting()

    def remote(self, *_: object) -> Any:
        return self

    async def __anext__(self) -> None:
        await asyncio.Event().wait()

    def cancel(self) -> None:
        self.cancelled += 1


class _Waiting(_Lost):
    async def remote(self) -> None:
        await asyncio.Event().wait()


async def test_a_request_without_any_verifier_is_a_503(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "PATIENCE_S", 0.02)
    handle = _Absent()
    request = Request(request_id="r-0", prompt_ids=(1,), params=SamplingParams())
    outcomes = [each async for each in ServeBackend(handle).generate([request])]  # type: ignore[arg-type]
    assert outcomes == [gateway.UNAVAILABLE]
    assert gateway.UNAVAILABLE.retry_after_s is not None
    assert handle.cancelled == 1
