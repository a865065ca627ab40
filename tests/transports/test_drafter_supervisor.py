"""The supervisor with real actors: a drafter that hangs is killed, and the next one answers."""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
import ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from drafters.context import DrafterContext
from drafters.registry import DrafterConfig
from drafters.suffix_config import SuffixConfig
from protos.messages import DraftChunk, DraftQuery, Tokens
from services import drafter_supervisor
from services.drafter_service import DrafterService
from services.drafter_supervisor import DrafterSupervisor
from services.placement import Placement
from services.transports.grpc_client import GrpcDrafter
from services.transports.grpc_server import DraftServer
from tests.fakes.queries import query
from tests.fakes.scripted import oracle
from tests.own_ray import own_ray
from tests.transports.rounds import ANSWER, PROMPT

pytestmark = pytest.mark.ray

BUNDLE = {"CPU": 1.0}
PLACEMENT = Placement(
    device="cpu",
    verifier_threads=1,
    drafter_threads=0,
    bundles=[BUNDLE],
    verifier_options={"num_cpus": 1},
    drafter_options={"num_cpus": 0},
    drafter_bundle=0,
)


class HangsOnce:
    """An oracle that never comes back where it finds `mark`, which it takes away."""

    def __init__(self, mark: Path) -> None:
        self._inner = oracle({PROMPT: ANSWER}, vocab_size=9)
        self._mark = mark

    def draft(self, queries: Sequence[DraftQuery]) -> Iterator[DraftChunk]:
        if self._mark.exists():
            self._mark.unlink()
            threading.Event().wait()
        yield from self._inner.draft(queries)

    def close(self, request_id: str, *, tail_start: int = 0, tail: Tokens = ()) -> None:
        self._inner.close(request_id, tail_start=tail_start, tail=tail)


class ServiceThatHangsOnce(DrafterService):
    """The real actor around such a drafter; the mark stands in the directory that the context calls target."""

    def __init__(self, config: DrafterConfig, context: DrafterContext, address: str) -> None:
        self._server = DraftServer(HangsOnce(Path(context.target) / "hang"), address)
        self._server.start()


class Owner:
    """The actor that a supervisor needs around itself, as a verifier is one."""

    async def start(self, socket: Literal["unix", "tcp"]) -> int:
        drafter_supervisor.DrafterService = ServiceThatHangsOnce  # type: ignore[misc]
        self._directory = tempfile.TemporaryDirectory()
        context = DrafterContext(target=self._directory.name, vocab_size=9)
        self._supervisor = DrafterSupervisor(SuffixConfig(), context, PLACEMENT, name="hangs", socket=socket)
        assert self._supervisor.address.startswith("unix:" if socket == "unix" else "127.0.0.1:")
        await self._supervisor.start()
        self._client = GrpcDrafter(self._supervisor.address, stall_s=0.05)
        self._supervisor.watch(self._client.status)
        assert await asyncio.to_thread(self._client.wait_until_up, 30)
        return await self.pid()

    async def pid(self) -> int:
        return int(await self._supervisor._actor.ready.remote())

    async def hang(self) -> None:
        (Path(self._directory.name) / "hang").touch()

    async def ask(self, within_s: float) -> tuple[int, ...]:
        """What is drafted, as soon as something is."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            self._client.send([query(PROMPT)])
            for chunk in await asyncio.to_thread(self._client.collect, time.monotonic() + 0.05):
                if chunk.tokens:
                    return chunk.tokens
            await asyncio.sleep(0.02)
        return ()


@pytest.fixture
def owner() -> Iterator[Any]:
    with own_ray(num_cpus=1):
        strategy = PlacementGroupSchedulingStrategy(placement_group([BUNDLE]), 0)
        yield ray.remote(Owner).options(num_cpus=1, scheduling_strategy=strategy).remote()


@pytest.mark.parametrize("socket", ["unix", "tcp"])
def test_a_hung_drafter_is_replaced_at_the_same_address(owner: Any, socket: str) -> None:
    first = ray.get(owner.start.remote(socket), timeout=60)
    assert ray.get(owner.ask.remote(30), timeout=60) == ANSWER
    ray.get(owner.hang.remote(), timeout=30)
    assert ray.get(owner.ask.remote(60), timeout=90) == ANSWER
    assert ray.get(owner.pid.remote(), timeout=30) != first
