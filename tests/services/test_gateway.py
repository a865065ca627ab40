"""ServeBackend: a verifier that is lost while it is asked is a refusal, not an exception."""

from __future__ import annotations

from typing import Any

from ray.exceptions import RayActorError

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
