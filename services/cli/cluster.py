"""deployed: the application on Ray, from an empty machine to an answering URL and back."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout

import httpx
import ray
from ray import serve
from ray.serve.context import _get_global_client
from ray.serve.schema import ServeInstanceDetails

from services.app import application, cluster
from services.cli.interruption import heed_stop_signals, ignore_stop_signals
from services.config import AppArgs
from services.free_port import free_port
from services.local_ray import start_ray

APP_NAME = "paradraft"
ROUTE_PREFIX = "/"
EVERY_INTERFACE = frozenset({"0.0.0.0", ""})  # noqa: S104
FIRST_ANSWER_TIMEOUT_S = 120.0


@contextmanager
def deployed(args: AppArgs, *, say: Callable[[str], None], verbose: bool) -> Iterator[str]:
    """Yields the URL once the model has answered there. Leaving takes down the application and what it was started on.

    On a cluster that was there before, only the application goes, and only if it was started here. ValueError where its
    name, its route or the port is taken; RuntimeError with the reason where the application does not come up.
    """
    own, started = not os.environ.get("RAY_ADDRESS"), False
    if own:
        args = args.model_copy(update={"port": free_port(args.host, args.port)})
    try:
        _connect(own=own, verbose=verbose)
        serve.start(http_options={"host": args.host, "port": args.port})
        url = _url(args, own=own)
        _check_room()
        say(f"loading {args.model}")
        started = True
        _deploy(args, own=own)
        say("waiting for the first answer")
        _await_answer(url)
        yield url
    finally:
        say("stopping")
        ignore_stop_signals()
        # Ray reports on standard output that its controller was killed, which is what a shutdown does.
        with redirect_stdout(None):
            _take_down(own=own, started=started)


def _connect(*, own: bool, verbose: bool) -> None:
    level = logging.INFO if verbose else logging.ERROR
    if own:
        start_ray(address="local", include_dashboard=False, log_to_driver=verbose, logging_level=level)
    else:
        try:
            ray.init(log_to_driver=verbose, logging_level=level)
        except (ConnectionError, RuntimeError) as error:
            if "RAY_AUTH_MODE" in os.environ:
                raise
            raise RuntimeError(f"{error}; if the cluster asks for a token, set RAY_AUTH_MODE=token") from error
    heed_stop_signals()  # Ray has put a handler of its own there, which aborts the process
    logging.getLogger("ray.serve").setLevel(level)


def _take_down(*, own: bool, started: bool) -> None:
    if not ray.is_initialized():
        return
    if own:
        serve.shutdown()  # type: ignore[no-untyped-call]
    elif started:
        serve.delete(APP_NAME)
    ray.shutdown()


def _url(args: AppArgs, *, own: bool) -> str:
    """Where Serve listens. One that ran before keeps its address; ValueError where another one is asked for."""
    if own:
        return f"http://{'127.0.0.1' if args.host in EVERY_INTERFACE else args.host}:{args.port}"
    details = _details()
    options = details.http_options
    assert options is not None, details
    for name, actual in (("host", options.host), ("port", options.port)):
        if name in args.model_fields_set and getattr(args, name) != actual:
            raise ValueError(
                f"{name} is {getattr(args, name)!r}, but Serve runs on this cluster already with {name} {actual!r}; "
                f"leave --{name} out"
            )
    nodes = [proxy.node_ip for proxy in details.proxies.values()]
    return f"http://{nodes[0] if options.host in EVERY_INTERFACE and nodes else options.host}:{options.port}"


def _check_room() -> None:
    for name, running in _details().applications.items():
        if name == APP_NAME or running.route_prefix == ROUTE_PREFIX:
            raise ValueError(
                f"application {name!r} is on this cluster already, at route {running.route_prefix}; "
                f"to replace it, remove it first with `serve delete {name}`"
            )


def _details() -> ServeInstanceDetails:
    """More than `serve.status()` tells: routes, and where Serve listens."""
    client = _get_global_client()
    assert client is not None
    return ServeInstanceDetails(**client.get_serve_details())


def _deploy(args: AppArgs, *, own: bool) -> None:
    try:
        serve.run(application(args, cluster(grows=not own)), name=APP_NAME, route_prefix=ROUTE_PREFIX)
    except RuntimeError as error:
        raise RuntimeError(_reason() or str(error)) from error


def _reason() -> str:
    """What a replica died of: the last line of the trace that Serve keeps, which a ValueError says in its own words."""
    ours = serve.status().applications.get(APP_NAME)
    deployments = ours.deployments.values() if ours else ()
    traces = [each.message.strip() for each in deployments if "Error" in each.message]
    return traces[0].splitlines()[-1].removeprefix("ValueError: ") if traces else ""


def _await_answer(url: str) -> None:
    """/health decodes one token for real; another server on that address would not."""
    deadline = time.monotonic() + FIRST_ANSWER_TIMEOUT_S
    answer = "nothing answers"
    while time.monotonic() < deadline:
        try:
            response = httpx.get(f"{url}/health", timeout=10)
        except httpx.HTTPError as error:
            answer = str(error)
        else:
            if response.is_success:
                return
            answer = f"status {response.status_code}: {response.text[:200]}"
        time.sleep(0.1)
    raise RuntimeError(f"{url}/health gives no answer after {FIRST_ANSWER_TIMEOUT_S:.0f} s ({answer})")
