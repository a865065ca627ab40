"""ServeBackend: the verifiers behind a Ray Serve handle as a Backend; gateway: the ingress that serves the API."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from typing import Any, cast

from fastapi import FastAPI
from prometheus_client.metrics_core import Metric
from ray import serve
from ray.exceptions import RayError, TaskCancelledError
from ray.serve.exceptions import RayServeException, RequestCancelledError
from ray.serve.handle import DeploymentHandle, DeploymentResponseGenerator
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from protos.messages import Request
from services.backend import ModelCard, Outcome, Refusal, Speculation
from services.config import AppArgs
from services.metrics_draft_files import service_metrics
from services.openai_api.api import create_api
from services.serve_logging import log_through_serve

logger = logging.getLogger(__name__)

SCRAPE_TIMEOUT_S = 5.0
PATIENCE_S = 5.0
UNAVAILABLE = Refusal(status=503, message="no verifier answers; send the request again", retry_after_s=1)


class ServeBackend:
    """Calls go to the least busy verifier; metrics come from every one, and once from the cache service of all.

    cache_metrics: asks that service for its own, which may block; None where there is none.
    """

    def __init__(
        self, verifiers: DeploymentHandle[Any], cache_metrics: Callable[[], list[Metric]] | None = None
    ) -> None:
        self._verifiers = verifiers
        self._cache_metrics = cache_metrics
        # By value, over gRPC: a streamed item of some bytes costs a fraction of one through the object store.
        self._stream = verifiers.options(stream=True, _by_reference=False)

    async def card(self) -> ModelCard:
        """See Backend; waits until a verifier runs."""
        card: ModelCard = await self._verifiers.card.remote()
        return card

    async def generate(self, requests: Sequence[Request]) -> AsyncGenerator[Outcome]:
        """See Backend. Serve holds a call for as long as no verifier runs; this refuses it after a while."""
        outcomes = cast("DeploymentResponseGenerator[Any]", self._stream.generate.remote(requests))
        first = asyncio.ensure_future(anext(outcomes))
        try:
            while not (await asyncio.wait({first}, timeout=PATIENCE_S))[0]:
                await asyncio.wait_for(self.card(), PATIENCE_S)
            yield await first
            async for outcome in outcomes:
                yield outcome
        except TimeoutError:
            yield UNAVAILABLE
        except (RayError, RayServeException):
            logger.exception("lost the verifier of %s", requests[0].request_id)
            yield UNAVAILABLE
        finally:
            first.cancel()
            outcomes.cancel()  # type: ignore[no-untyped-call]

    async def metrics(self) -> list[list[Metric]]:
        """See Backend. A verifier that is starting or dying is left out: it must not hide the others."""
        answers = self._verifiers.broadcast("metrics")
        results = await answers.results_async(timeout_s=SCRAPE_TIMEOUT_S, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                logger.warning("a verifier gave no metrics: %s", result)
        told = [families for result in results if isinstance(result, list) for families in result]
        return told if self._cache_metrics is None else [*told, await _in_time(self._cache_metrics)]

    async def probe(self) -> Speculation | Refusal:
        """See Backend."""
        try:
            answer: Speculation | Refusal = await self._verifiers.probe.remote()
        except (RayError, RayServeException):
            logger.exception("lost the verifier that was probed")
            return UNAVAILABLE
        return answer


async def _in_time(metrics: Callable[[], list[Metric]]) -> list[Metric]:
    """Those of the cache service; none where it is too slow."""
    try:
        return await asyncio.wait_for(asyncio.to_thread(metrics), SCRAPE_TIMEOUT_S)
    except TimeoutError:
        logger.warning("the cache service gave no metrics within %g s", SCRAPE_TIMEOUT_S)
        return []


class DisconnectMessage:
    """ASGI middleware: tells of a client that left as ASGI says, where Serve raises out of `receive`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def _receive() -> Message:
            try:
                return await receive()
            except (TaskCancelledError, RequestCancelledError):
                return {"type": "http.disconnect"}

        await self._app(scope, _receive, send)


def gateway(args: AppArgs, verifier_name: str, cache_address: str | None = None) -> type[Any]:
    """The ingress class; its replica finds the verifiers by name, and serves once one of them runs.

    cache_address: of the service whose metrics are shown as well.
    """

    def _asgi_app() -> FastAPI:
        log_through_serve()
        app_name = serve.get_replica_context().app_name
        verifiers = serve.get_deployment_handle(verifier_name, app_name=app_name)
        cache_metrics = None if cache_address is None else partial(service_metrics, cache_address, args.public_name)
        app = create_api(ServeBackend(verifiers, cache_metrics), args)
        app.add_middleware(DisconnectMessage)
        return app

    ingress: type[Any] = serve.ingress(_asgi_app)()
    return ingress
