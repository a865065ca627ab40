"""ApiKeys: checks the bearer key of every request, whatever its route, and says which tenant it belongs to."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from services.openai_api.errors import ApiError

OPEN_PATHS = frozenset({"/health"})


class ApiKeys:
    """ASGI middleware in front of the router, so that no route, present or future, can be forgotten.

    Sets `scope["state"]["tenant"]`. The tenant comes from the key alone: nothing in a body can choose it.
    """

    def __init__(self, app: ASGIApp, *, tenants: Mapping[str, str]) -> None:
        self._app = app
        self._tenants = {key.encode(): tenant for key, tenant in tenants.items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        tenant = self._tenant(Headers(scope=scope).get("authorization", ""))
        if tenant is None and scope["path"].removeprefix(scope.get("root_path", "")) not in OPEN_PATHS:
            error = ApiError(401, "give a valid API key in the header 'Authorization: Bearer <key>'")
            await error.response()(scope, receive, send)
            return
        scope.setdefault("state", {})["tenant"] = tenant or ""
        await self._app(scope, receive, send)

    def _tenant(self, header: str) -> str | None:
        """The key's tenant, None without a valid key. Every key is compared in full: the time tells nothing."""
        if not self._tenants:
            return ""
        scheme, _, given = header.partition(" ")
        found = None
        key_bytes = given.strip().encode("latin-1")  # how HTTP headers were decoded: back to the bytes that were sent
        for key, tenant in self._tenants.items():
            if hmac.compare_digest(key, key_bytes) and scheme.lower() == "bearer":
                found = tenant
        return found
