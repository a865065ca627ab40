"""The cache service as an actor: one for all supervisors, found again wherever it starts again, refused with reason."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import ray

from benchmarks.harness.tiny import save_tiny
from drafters.cached_config import CachedConfig
from drafters.registry import DrafterConfig
from protos.draft_files import DraftFiles
from protos.messages import Request
from protos.sampling_params import SamplingParams
from services import verifier_assembly
from services.actors import RAY_NAMESPACE, RESTART_PAUSE_S
from services.config import AppArgs
from services.draft_files import cache_service_supervisor
from services.draft_files.cache_service_actor import CacheService, service_address
from services.draft_files.cache_service_supervisor import CacheServiceSupervisor
from services.draft_files.configured import configured_draft_files
from services.draft_files.opening import DirectoryOptions, directory_options, on_ray, open_draft_files
from services.placement import Machine, place
from services.verifier_assembly import assemble
from tests.draft_files.rounds import found, paths, until
from tests.fakes.draft_files import continuation, question
from tests.fakes.patient_draft_files import PatientDraftFiles
from tests.own_ray import own_ray

pytestmark = pytest.mark.ray

TEXT, AFTER = (1, 2, 3, 4, 5), (6, 7, 8, 9)


class Owner:
    """A verifier, as far as a cache service knows one."""

    async def start(self, options: DirectoryOptions, patience_s: float = 30.0) -> str:
        cache_service_supervisor.PATIENCE_S = patience_s
        self._supervisor = CacheServiceSupervisor(options)
        await self._supervisor.start()
        return self._supervisor.address


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    with own_ray(num_cpus=1):
        yield


@pytest.fixture
def options(cluster: None, tmp_path: Path) -> DirectoryOptions:
    made = directory_options(CachedConfig(draft_files=str(tmp_path / "drafts")))
    assert made is not None
    return made


def owner() -> Any:
    return ray.remote(Owner).options(num_cpus=0).remote()


def pid(options: DirectoryOptions) -> int:
    actor = ray.get_actor(on_ray(options).removeprefix("ray:"), namespace=RAY_NAMESPACE)
    return int(ray.get(actor.ready.remote(options), timeout=30))


@contextlib.contextmanager
def opened(address: str) -> Iterator[DraftFiles]:
    with contextlib.closing(open_draft_files(CachedConfig(address=address))) as files:
        until(lambda: files.status().up)
        yield files


def test_one_service_outlives_its_death_and_its_owner(options: DirectoryOptions) -> None:
    first, second = owner(), owner()
    address = ray.get(first.start.remote(options), timeout=60)
    assert ray.get(second.start.remote(options), timeout=60) == address == on_ray(options)
    served = pid(options)
    with opened(address) as files:
        files.add([continuation(*AFTER, after=TEXT)])
        until(lambda: files.status().counters["additions"] == 1)
        os.kill(served, signal.SIGKILL)
        until(lambda: not files.status().up)
        files.add([continuation(*AFTER, after=TEXT)])
        until(lambda: files.status().counters["additions"] == 2)
        [answer] = found(files, question(*TEXT))
        assert answer.hits[0].paths[0].count == 2
        again = pid(options)
        assert again != served
        time.sleep(3 * RESTART_PAUSE_S)  # both have found it again
        assert pid(options) == again
        ray.kill(first)  # the service dies with the process that started it, and the other starts one
        until(lambda: not files.status().up)
        until(lambda: files.status().up)
        assert paths(found(files, question(*TEXT)))[0][0] == AFTER
        assert files.status().counters["reconnects"] == 2
    assert pid(options) not in {served, again}
    ray.kill(second)


def test_another_node_gets_a_port(options: DirectoryOptions) -> None:
    keeper = owner()
    address = ray.get(keeper.start.remote(options), timeout=60)
    actor = ray.get_actor(address.removeprefix("ray:"), namespace=RAY_NAMESPACE)
    here = service_address(address.removeprefix("ray:"))
    elsewhere = ray.get(actor.address.remote("another node"), timeout=30)
    assert here.startswith("unix:")
    assert elsewhere == ray.get(actor.address.remote("a third"), timeout=30)
    assert Path(here.removeprefix("unix:")).parent.stat().st_mode & 0o077 == 0
    for where in (here, elsewhere):
        with opened(where) as files:
            files.add([continuation(*AFTER, after=TEXT)])
            until(lambda: files.status().counters["additions"] == 1)
    ray.kill(keeper)


def test_other_options_are_refused(options: DirectoryOptions) -> None:
    first, second = owner(), owner()
    ray.get(first.start.remote(options), timeout=60)
    other = replace(options, budget_bytes=2**21)
    with pytest.raises(ValueError, match=r"served already with budget_bytes 1073741824, .*, not budget_bytes 2097152"):
        ray.get(second.start.remote(other, 0.0), timeout=60)
    ray.kill(first)
    assert ray.get(second.start.remote(other), timeout=60)  # once the other has ended, it is free
    ray.kill(second)


def test_a_directory_in_use_is_refused_until_it_is_free(options: DirectoryOptions) -> None:
    keeper = owner()
    config = CachedConfig(draft_files=options.directory)
    with contextlib.closing(open_draft_files(config)), pytest.raises(ValueError, match=options.directory):
        ray.get(keeper.start.remote(options, 0.0), timeout=60)
    assert ray.get(keeper.start.remote(options), timeout=60)
    ray.kill(keeper)


async def test_drafters_in_the_processes_of_two_verifiers_share_it(
    options: DirectoryOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def patient(config: DrafterConfig) -> DraftFiles:
        files = configured_draft_files(config)
        assert files is not None
        return PatientDraftFiles(files)

    monkeypatch.setattr(verifier_assembly, "configured_draft_files", patient)
    speculative = {"method": "cached", "transport": "local", "pooling": "none", "draft_files": options.directory}
    bounds = {"model": str(save_tiny(tmp_path / "tiny")), "device": "cpu", "max_num_seqs": 1, "max_model_len": 64}
    args = AppArgs.model_validate(bounds | {"speculative_config": speculative})
    placement = place(args, Machine(cores=1, total_cores=1, gpus=0))
    verifiers = [await assemble(args, placement, engine=each, drafter_name="none", directory=options) for each in "01"]
    params = SamplingParams(temperature=0, seed=0, max_tokens=24, ignore_eos=True)
    for verifier in verifiers:
        files = verifier.drafting.files
        assert files is not None
        request = Request(request_id="r", prompt_ids=(5, 6, 7, 8, 9), params=params)
        assert [outcome async for outcome in verifier.service.generate([request])]
        await asyncio.to_thread(until, lambda: files.status().counters["additions"] > 0)  # noqa: B023
    accepted = [verifier.service._loop.stats().speculation.accepted for verifier in verifiers]
    assert accepted[0] == 0
    assert accepted[1] > params.max_tokens // 2
    for verifier in verifiers:
        verifier.shutdown()


async def test_a_place_for_the_socket_that_is_not_ones_own_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    options = directory_options(CachedConfig(draft_files=str(tmp_path / "drafts")))
    assert options is not None
    place = tmp_path / f"paradraft-{os.getuid()}-name"
    place.touch()
    service = CacheService(options, "name")
    with pytest.raises(ValueError, match="name' must be a directory that only this user can enter; remove it"):
        await service.ready(options)
    place.unlink()
    place.mkdir(mode=0o777)
    place.chmod(0o777)
    with pytest.raises(ValueError, match="only this user can enter"):
        await service.ready(options)
    place.rmdir()
    assert await service.ready(options) == os.getpid()
    assert (place / "cache.sock").is_socket()


def test_without_ray_the_name_is_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with contextlib.closing(open_draft_files(CachedConfig(address="ray:x"))) as files:
        until(lambda: "can only be found from a process on Ray" in files.status().reason)


def test_a_name_that_is_nobodys_is_a_reason(cluster: None) -> None:
    with contextlib.closing(open_draft_files(CachedConfig(address="ray:nobody"))) as files:
        until(lambda: "nobody" in files.status().reason)
        assert not files.status().up
