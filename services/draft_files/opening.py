"""open_draft_files: the draft files that the keys of method cached name, in this process or at a service."""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from drafters.cached_config import CachedConfig
from protos.draft_files import DraftFiles
from services.draft_files.absolute import absolute
from services.draft_files.cache_client import GrpcDraftFiles
from services.draft_files.local import LocalDraftFiles

if TYPE_CHECKING:
    from cache_service.search.pretriever import Pretriever

ON_RAY = "ray:"  # before the name of an actor, which is asked where it listens whenever a client connects


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryOptions:
    """A directory of draft files, and what it is opened with; see CachedConfig."""

    directory: str
    budget_bytes: int
    tenant_budget_bytes: int | None
    min_similarity: float


def directory_options(keys: CachedConfig) -> DirectoryOptions | None:
    """The directory in the keys, from the root; None where they name a service. ValueError where it is a file."""
    if keys.draft_files is None:
        return None
    directory = absolute(keys.draft_files)
    if directory.is_file():
        raise ValueError(f"draft_files {str(directory)!r} is a file; give a directory of your own")
    return DirectoryOptions(
        directory=str(directory),
        budget_bytes=keys.budget_bytes,
        tenant_budget_bytes=keys.tenant_budget_bytes,
        min_similarity=keys.min_similarity,
    )


@contextlib.contextmanager
def opened_pretriever(options: DirectoryOptions) -> Iterator[Pretriever]:
    """Over the draft files of a directory, which is made where it is absent.

    ValueError where another process writes to it, or a file in it cannot be understood.
    """
    from cache_service.search.pretriever import Pretriever  # faiss: whoever only asks a service does without
    from cache_service.storage.flushing import flushing
    from cache_service.storage.store import Store

    directory = Path(options.directory)
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"draft_files {options.directory!r} cannot be a directory: {error.strerror}; give one of your own"
        ) from error
    store = Store.open(directory, budget_bytes=options.budget_bytes, tenant_budget_bytes=options.tenant_budget_bytes)
    with (
        contextlib.closing(store),
        flushing(store),
        contextlib.closing(Pretriever(store, min_similarity=options.min_similarity)) as pretriever,
    ):
        yield pretriever


def open_draft_files(keys: CachedConfig) -> DraftFiles:
    """Opens the directory, or connects to the service, which need not be there yet. ValueError: see above."""
    options = directory_options(keys)
    if options is None:
        assert keys.address is not None, "the keys name a directory or an address"
        return GrpcDraftFiles(located(keys.address))
    opened = contextlib.ExitStack()
    return LocalDraftFiles(opened.enter_context(opened_pretriever(options)), opened)


def on_ray(options: DirectoryOptions) -> str:
    """The address of the service that a cluster has for a directory."""
    return f"{ON_RAY}draft-files-{hashlib.blake2b(options.directory.encode(), digest_size=8).hexdigest()}"


def located(address: str) -> str | Callable[[], str]:
    """The address, or what finds out where a service on Ray listens now."""
    if not address.startswith(ON_RAY):
        return address
    from services.draft_files.cache_service_actor import service_address  # ray

    return functools.partial(service_address, address.removeprefix(ON_RAY))
