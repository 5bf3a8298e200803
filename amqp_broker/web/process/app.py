"""The programs behind the two listeners: the API with its probes, and Prometheus'.

A request is read with limits of size and time on the loop, and answered in a worker thread: endpoints are plain
functions that may wait for the node.
"""

from __future__ import annotations

import gzip
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from amqp_broker.client.errors import ClientError
from amqp_broker.protocol.errors import EncodeError
from amqp_broker.settings.log_format import about
from amqp_broker.system_client import SystemRequestError
from amqp_broker.web.access import Access
from amqp_broker.web.answer import JSON, Answer, encode_json, takes_gzip
from amqp_broker.web.asked import Asked
from amqp_broker.web.endpoint import Endpoint, Endpoints
from amqp_broker.web.errors import (
    ApiError,
    bad_request,
    method_not_allowed,
    node_gone,
    object_not_found,
    of_amqp,
    of_refused_verb,
)
from amqp_broker.web.login import User
from amqp_broker.web.node_client import NodeGone
from amqp_broker.web.path import broken_escape, encode, split_path
from amqp_broker.web.process.probes import PROBES
from amqp_broker.web.receiving import receive
from amqp_broker.web.services import Services
from amqp_broker.web.who_asks import who_asks

log = logging.getLogger("amqp_broker.web")

#: How long a body may take to arrive.
BODY_TIMEOUT_S: Final = 30.0
_GZIP_FROM_OCTETS: Final = 1024
_NOBODY: Final = User("", ())
HEADERS: Final = {
    "cache-control": "no-cache",
    "content-security-policy": "default-src 'self'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "vary": "accept, accept-encoding, origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_WE_SPEAK: Final = ("*/*", "application/*", JSON)


class Api:
    """An ASGI program: finds the endpoint of a path, who asks, and the answer. `prefix` comes before each path."""

    def __init__(self, services: Services, endpoints: Endpoints, prefix: str = "/api") -> None:
        self._services = services
        self._endpoints = endpoints
        self._prefix = split_path(prefix)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        answer = await self._respond(request)
        with suppress(ClientDisconnect):  # who reads a stream may go at any time
            await answer(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        try:
            raw = (request.scope.get("raw_path") or request.scope["path"].encode()).partition(b"?")[0]
            path = raw.decode("latin-1")
            if broken := broken_escape(path):
                raise bad_request(f"'{broken}' in the path is no octet; a percent sign in a name is written %25")
            segments = split_path(path)
            found = self._endpoints.find(segments[len(self._prefix) :])
            if found is None or segments[: len(self._prefix)] != self._prefix:
                raise object_not_found()
            place, names = found
            if request.method == "OPTIONS":
                return _response(Answer(200, raw=b"", headers={"allow": place.allowed}), request.headers)
            endpoint = place.find(request.method)
            if endpoint is None:
                raise method_not_allowed(place.allowed)
            _check_framing(request.headers)
            _check_origin(endpoint, request.headers)
            if endpoint.access is not Access.NOBODY_ASKED or endpoint.method != "GET":  # with a login, or to log in
                self._services.hosts.check(request)
            body = await receive(request, endpoint.body_limit_bytes, BODY_TIMEOUT_S)
            asked = Asked(
                services=self._services,
                user=_NOBODY,
                method=request.method,
                path=path,
                names=names,
                query=dict(request.query_params),
                query_text=request.scope["query_string"].decode("latin-1"),
                headers=request.headers,
                body=body,
                host=request.client.host if request.client else "",
                endpoints=self._endpoints.all,
            )
            return await run_in_threadpool(self._answer, endpoint, asked)
        except ApiError as error:
            return refusal(error)

    def _answer(self, endpoint: Endpoint, asked: Asked) -> Response:
        """In a worker thread. What changes anything is written down, with its outcome; names as in paths, so that none
        of them begins a line of its own."""
        response = self._response(endpoint, asked)
        if endpoint.method != "GET":
            words = (asked.method, asked.path, encode(asked.user.name), asked.host, response.status_code)
            fields = about(
                "http_change", method=asked.method, path=asked.path, user=asked.user.name, peer=asked.host,
                status=response.status_code,
            )  # fmt: skip
            log.info("%s %s by user '%s' from %s: %d", *words, extra=fields)
        return response

    def _response(self, endpoint: Endpoint, asked: Asked) -> Response:
        try:
            _check_acceptable(endpoint, asked.headers)
            if endpoint.access is not Access.NOBODY_ASKED:
                asked.ask_as(who_asks(asked))
                asked.require(endpoint.needed)
            return _response(endpoint.answer(asked), asked.headers)
        except ApiError as error:
            return refusal(error)
        except NodeGone as error:
            return refusal(node_gone(str(error)))
        except SystemRequestError as error:
            return refusal(of_refused_verb(error))
        except ClientError as error:
            return refusal(of_amqp(error))
        except EncodeError as error:  # a name that is too long for AMQP, in the path or the body
            return refusal(bad_request(str(error)))
        except Exception:  # a fault of ours is one request's, and is written down
            log.exception("%s %s", asked.method, asked.path)
            return refusal(ApiError(500, "internal_server_error", "this is a fault of the server; its log says more"))


def _check_framing(headers: Mapping[str, str]) -> None:
    """A request that says its length twice is read in two ways by a proxy and by this server: what one takes for its
    body, the other takes for a request of somebody else."""
    if "content-length" in headers and "transfer-encoding" in headers:
        raise ApiError(400, "bad_request", "content-length and transfer-encoding", {"connection": "close"})


def _check_origin(endpoint: Endpoint, headers: Mapping[str, str]) -> None:
    """Browsers send what they know of a login with any page's request, and say whose page it is: nothing is changed for
    pages from elsewhere. A proxy says in a header of its own what the browser called it, which a page cannot."""
    origin = headers.get("origin")
    if origin is None or endpoint.method == "GET":
        return
    if origin.partition("://")[2] not in (headers.get("host"), headers.get("x-forwarded-host")):
        raise ApiError(403, "forbidden", f"the request comes from a page of {origin}, which is not this server")


def _check_acceptable(endpoint: Endpoint, headers: Mapping[str, str]) -> None:
    accept = headers.get("accept", "")
    kinds = [part.partition(";")[0].strip().lower() for part in accept.split(",") if part.strip()]
    if kinds and endpoint.method == "GET" and endpoint.media == JSON and not any(kind in _WE_SPEAK for kind in kinds):
        raise ApiError(406)


def _response(answer: Answer, headers: Mapping[str, str]) -> Response:
    said = {**HEADERS, **answer.headers}
    if answer.stream is not None:
        return StreamingResponse(answer.stream, answer.status, said, media_type=answer.media)
    body = answer.body()
    if len(body) >= _GZIP_FROM_OCTETS and takes_gzip(headers):
        body = gzip.compress(body, 1)
        said["content-encoding"] = "gzip"
    return Response(body, answer.status, said, media_type=answer.media if body else None)


def refusal(error: ApiError) -> Response:
    """An error as it is answered."""
    body = b"" if error.body is None else encode_json(error.body)
    return Response(body, error.status, {**HEADERS, **error.headers}, media_type=JSON if body else None)


def _probe_route(path: str, probe: Callable[[Services], Answer], services: Services) -> Route:
    def respond(request: Request) -> Response:
        return _response(probe(services), request.headers)

    return Route(path, respond, methods=["GET"])


def application(services: Services, api: ASGIApp) -> Starlette:
    """The probes, and everything else."""
    app = Starlette(routes=[_probe_route(path, probe, services) for path, probe in PROBES.items()])
    app.router.default = api
    return app
