"""create_api: the routes, keys and error shape of the API as one FastAPI application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI

from services.backend import Backend
from services.config import AppArgs
from services.openai_api import errors
from services.openai_api.auth import ApiKeys
from services.openai_api.endpoints import Endpoints


def create_api(backend: Backend, args: AppArgs) -> FastAPI:
    """An application that serves once the backend has told its model card."""

    @asynccontextmanager
    async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.include_router(_routes(Endpoints(backend, await backend.card(), args)))
        yield

    # The generated pages would describe raw bodies: docs/ has the real schema.
    app = FastAPI(title="paradraft", lifespan=_lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(ApiKeys, tenants=args.api_keys)
    errors.install(app)
    return app


def _routes(endpoints: Endpoints) -> APIRouter:
    router = APIRouter()
    router.add_api_route("/v1/chat/completions", endpoints.chat_completions, methods=["POST"])
    router.add_api_route("/v1/completions", endpoints.completions, methods=["POST"])
    router.add_api_route("/v1/models", endpoints.models, methods=["GET"])
    router.add_api_route("/v1/models/{name:path}", endpoints.model, methods=["GET"])
    router.add_api_route("/health", endpoints.health, methods=["GET"])
    router.add_api_route("/metrics", endpoints.metrics, methods=["GET"])
    return router
