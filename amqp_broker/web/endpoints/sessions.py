"""Logging in from a form, as the pages of RabbitMQ do: the token is what HTTP Basic would say."""

from __future__ import annotations

import base64
from urllib.parse import parse_qs

from amqp_broker.web.access import Access
from amqp_broker.web.answer import Answer, no_content
from amqp_broker.web.asked import Asked
from amqp_broker.web.endpoint import Endpoint
from amqp_broker.web.endpoints.users import whoami
from amqp_broker.web.errors import ApiError, bad_request

_FORM = "application/x-www-form-urlencoded"


def log_in(asked: Asked) -> Answer:
    if not asked.headers.get("content-type", "").lower().startswith(_FORM):
        raise ApiError(415)
    form = parse_qs(asked.body.decode("ascii", "replace"), keep_blank_values=True, errors="surrogateescape")
    if "username" not in form or "password" not in form:
        raise bad_request("the form has to have username and password")
    name, password = form["username"][0], form["password"][0]
    asked.ask_as(asked.services.logins.check(name, password, asked.host))
    asked.require(Access.VIEWER)
    value = base64.b64encode(f"{name}:{password}".encode("utf-8", "surrogateescape")).decode("ascii")
    return Answer(value={"token": {"type": "basic", "value": value}, "user": whoami(asked)})


def log_out(asked: Asked) -> Answer:
    """The token is the client's to forget."""
    return no_content()


ENDPOINTS = (
    Endpoint("POST", "/login", log_in, Access.NOBODY_ASKED, refused=(401, 415)),
    Endpoint("DELETE", "/login", log_out, Access.NOBODY_ASKED),
)
