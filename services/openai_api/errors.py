"""ApiError and the handlers that give every failure OpenAI's error shape."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from services.backend import Refusal

logger = logging.getLogger(__name__)

_TYPES = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
_CODES = {401: "invalid_api_key", 413: "request_too_large", 429: "queue_full"}


class ApiError(Exception):
    """A failure to report to the client. `param` names the field at fault, as OpenAI does."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code
        self.retry_after_s = retry_after_s

    def body(self) -> dict[str, Any]:
        """OpenAI's error object."""
        default = "invalid_request_error" if self.status < 500 else "server_error"
        return {
            "error": {
                "message": self.message,
                "type": _TYPES.get(self.status, default),
                "param": self.param,
                "code": self.code or _CODES.get(self.status),
            }
        }

    def response(self) -> JSONResponse:
        """The whole HTTP response, Retry-After included where waiting helps."""
        headers = {} if self.retry_after_s is None else {"Retry-After": str(self.retry_after_s)}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return JSONResponse(self.body(), status_code=self.status, headers=headers)


def invalid(message: str, param: str | None) -> ApiError:
    """A 400 that names the field."""
    return ApiError(400, message, param=param)


def refused(refusal: Refusal) -> ApiError:
    """The backend's refusal as the client sees it."""
    return ApiError(refusal.status, refusal.message, retry_after_s=refusal.retry_after_s)


def install(app: FastAPI) -> None:
    """Registers the handlers: our errors, the framework's (unknown route, wrong method), and everything else."""

    @app.exception_handler(ApiError)
    async def _known(_: Request, error: ApiError) -> JSONResponse:
        return error.response()

    @app.exception_handler(HTTPException)
    async def _framework(request: Request, error: HTTPException) -> JSONResponse:
        message = f"{error.detail}: {request.method} {request.url.path}"
        response = ApiError(error.status_code, message).response()
        response.headers.update(error.headers or {})  # a 405 must say what is allowed
        return response

    @app.exception_handler(Exception)
    async def _unexpected(request: Request, error: Exception) -> JSONResponse:
        return unexpected(error, where=request.url.path).response()


def unexpected(error: Exception, *, where: str) -> ApiError:
    """Logs what happened and tells the client nothing of it: a trace may quote another user's text."""
    logger.error("request to %s failed", where, exc_info=error)
    return ApiError(500, "the server failed to answer this request; its log says why")
