"""create_api: the routes, keys and error shape of the API as one FastAPI application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.responses import Response

from services.backend import Backend
from services.config import AppArgs
from services.openai_api import errors
from services.openai_api.auth import ApiKeys
from services.openai_api.endpoints import Endpoints

Handler = Callable[[Request], Awaitable[Response]]

_ROUTES: tuple[tuple[str, str, Callable[[Endpoints, Request], Awaitable[Response]]], ...] = (
    ("POST", "/v1/chat/completions", Endpoints.chat_completions),
    ("POST", "/v1/completions", Endpoints.completions),
    ("GET", "/v1/models", Endpoints.models),
    ("GET", "/v1/models/{name:path}", Endpoints.model),
    ("GET", "/health", Endpoints.health),
    ("GET", "/metrics", Endpoints.metrics),
)


def create_api(backend: Backend, args: AppArgs) -> FastAPI:
    """An application that is ready once the backend has told its model card (in the lifespan's start)."""

    @asynccontextmanager
    async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.endpoints = Endpoints(backend, await backend.card(), args)
        yield

    # Bodies are read raw, to refuse them in OpenAI's shape; generated pages would describe none of their fields.
    app = FastAPI(title="paradraft", lifespan=_lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(ApiKeys, tenants=args.tenants())
    errors.install(app)
    for method, path, endpoint in _ROUTES:
        app.add_api_route(path, _handler(endpoint), methods=[method], response_model=None)
    return app


def _handler(endpoint: Callable[[Endpoints, Request], Awaitable[Response]]) -> Handler:
    async def _handle(request: Request) -> Response:
        return await endpoint(request.app.state.endpoints, request)

    return _handle
