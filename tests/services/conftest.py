"""The API over a scripted backend, called in process through its real ASGI stack; a tiny model on disk."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import httpx
import pytest

from benchmarks.harness.tiny import save_tiny
from services.backend import Backend
from services.config import AppArgs
from services.openai_api.api import create_api
from tests.fakes.scripted_backend import ScriptedBackend

Client = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_tiny(tmp_path_factory.mktemp("tiny")))


@pytest.fixture
def backend() -> ScriptedBackend:
    return ScriptedBackend()


@pytest.fixture
def client(backend: ScriptedBackend) -> Client:
    @asynccontextmanager
    async def _client(**options: object) -> AsyncIterator[httpx.AsyncClient]:
        async with api_client(backend, AppArgs.model_validate({"model": "m", **options})) as http:
            yield http

    return _client


@asynccontextmanager
async def api_client(backend: Backend, args: AppArgs) -> AsyncIterator[httpx.AsyncClient]:
    app = create_api(backend, args)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
            http.app = app  # type: ignore[attr-defined]
            yield http
