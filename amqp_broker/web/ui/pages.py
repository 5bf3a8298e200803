"""Pages: an ASGI program before the API. It has the page at `/`, its files, logging in and out; the rest is the API's.

    POST /login (a form)  -> the cookie of a session
    GET /session          -> who that is, and the token that changes need
    POST /logout
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final
from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from amqp_broker.system_client import SystemRequestError
from amqp_broker.web.access import Access
from amqp_broker.web.answer import JSON, encode_json, takes_gzip
from amqp_broker.web.cookie import read_cookie, set_cookie
from amqp_broker.web.errors import ApiError, bad_request, node_gone, of_refused_verb
from amqp_broker.web.login import User
from amqp_broker.web.node_client import NodeGone
from amqp_broker.web.page_sessions import TOKEN_HEADER, check_origin, token_of
from amqp_broker.web.path import encode
from amqp_broker.web.receiving import receive
from amqp_broker.web.services import Services
from amqp_broker.web.ui.static_files import StaticFile, StaticFiles

log = logging.getLogger("amqp_broker.web")

HEADERS: Final = {
    "cache-control": "no-cache",
    "content-security-policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "vary": "accept-encoding, cookie",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_FOR_EVER: Final = "public, max-age=31536000, immutable"
#: A name and a password.
_FORM_LIMIT_OCTETS: Final = 8 << 10
_FORM_TIMEOUT_S: Final = 10.0
_FORM: Final = "application/x-www-form-urlencoded"
_NO_DIALOG: Final = b"www-authenticate"


class Pages:
    """`api` answers everything else."""

    def __init__(self, services: Services, api: ASGIApp, files: StaticFiles | None = None) -> None:
        self._sessions = services.page_sessions
        self._logins = services.logins
        self._hosts = services.hosts
        self._api = api
        self._files = files or StaticFiles()
        self._own = {
            ("GET", "/session"): self._who,
            ("POST", "/login"): self._log_in,
            ("POST", "/logout"): self._log_out,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        own = self._own.get((request.method, scope["path"]))
        if own is not None:
            response = await self._answer(request, own)
        elif request.method in ("GET", "HEAD"):
            found = self._find(scope["path"])
            if found is None:
                await self._ask_api(request, send)
                return
            response = found_response(*found, request)
        else:
            await self._ask_api(request, send)
            return
        await response(scope, receive, send)

    def _find(self, path: str) -> tuple[StaticFile, str] | None:
        """A file, and how long it may be kept."""
        if path in ("/", "/index.html"):
            return self._files.index, HEADERS["cache-control"]
        found = self._files.find(path[1:])
        return None if found is None else (found, _FOR_EVER)

    async def _ask_api(self, request: Request, send: Send) -> None:
        """What a page is refused must not open the browser's own dialog for a password."""
        is_page = TOKEN_HEADER in request.headers

        async def send_on(message: Message) -> None:
            if is_page and message["type"] == "http.response.start":
                message["headers"] = [each for each in message["headers"] if each[0].lower() != _NO_DIALOG]
            await send(message)

        await self._api(request.scope, request.receive, send_on)

    async def _answer(self, request: Request, own: Callable[[Request, dict[str, str]], Response]) -> Response:
        """`own` runs in a worker thread."""
        try:
            form = await _read_form(request) if request.method == "POST" else {}
            return await run_in_threadpool(own, request, form)
        except ApiError as error:
            return _refusal(error)
        except NodeGone as error:
            return _refusal(node_gone(str(error)))
        except SystemRequestError as error:
            return _refusal(of_refused_verb(error))

    def _log_in(self, request: Request, form: dict[str, str]) -> Response:
        if not request.headers.get("content-type", "").lower().startswith(_FORM):
            raise ApiError(415, "unsupported_media_type", f"logging in is a form: {_FORM}")
        self._hosts.check(request)
        check_origin(request.headers)
        if "username" not in form or "password" not in form:
            raise bad_request("the form has to have username and password")
        host = request.client.host if request.client else ""
        name = form["username"]
        try:
            user = self._logins.check(name, form["password"], host)
            if not Access.VIEWER.is_given_to(user.tags):
                raise Access.VIEWER.refusal(user.tags)
            number = self._sessions.begin(user, request.headers)
        except ApiError as error:
            log.info("POST /login by user '%s' from %s: %d", encode(name), host, error.status)
            raise
        log.info("POST /login by user '%s' from %s: 200", encode(name), host)
        return _json(_shown(user, number), cookie=set_cookie(request.headers, number))

    def _who(self, request: Request, form: dict[str, str]) -> Response:
        """200 without a session, too: it is a question, and the page asks it first."""
        number = read_cookie(request.headers)
        if not number:
            return _json({"user": None})
        try:
            user = self._sessions.user_of(number, "GET", request.headers)
        except ApiError:
            return _json({"user": None})
        return _json(_shown(user, number))

    def _log_out(self, request: Request, form: dict[str, str]) -> Response:
        number = read_cookie(request.headers)
        user = self._sessions.user_of(number, "POST", request.headers)
        self._sessions.end(number)
        log.info("POST /logout by user '%s': 204", encode(user.name))
        return Response(None, 204, {**HEADERS, "set-cookie": set_cookie(request.headers, "")})


def _shown(user: User, number: str) -> dict[str, object]:
    return {"user": {"name": user.name, "tags": list(user.tags)}, "token": token_of(number)}


def found_response(file: StaticFile, cache: str, request: Request) -> Response:
    """A file, packed for those who accept that."""
    headers = {**HEADERS, "cache-control": cache}
    body = file.body
    if takes_gzip(request.headers):
        body, headers["content-encoding"] = file.packed, "gzip"
    return Response(body, 200, headers, media_type=file.media)


def _json(value: object, cookie: str | None = None) -> Response:
    headers = HEADERS if cookie is None else {**HEADERS, "set-cookie": cookie}
    return Response(encode_json(value), 200, {**headers, "cache-control": "no-store"}, media_type=JSON)


def _refusal(error: ApiError) -> Response:
    headers = {name: value for name, value in error.headers.items() if name != _NO_DIALOG.decode()}
    return Response(encode_json(error.body), error.status, {**HEADERS, **headers}, media_type=JSON)


async def _read_form(request: Request) -> dict[str, str]:
    body = await receive(request, _FORM_LIMIT_OCTETS, _FORM_TIMEOUT_S)
    fields = parse_qs(body.decode("ascii", "replace"), keep_blank_values=True, errors="surrogateescape")
    return {name: values[0] for name, values in fields.items()}
