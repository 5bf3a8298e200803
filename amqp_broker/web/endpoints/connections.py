"""Connections: lists, one, of a user, and their end."""

from __future__ import annotations

from amqp_broker.web.access import Access
from amqp_broker.web.answer import Answer, no_content
from amqp_broker.web.asked import Asked
from amqp_broker.web.endpoint import Endpoint
from amqp_broker.web.endpoints.lists import show_object, show_objects
from amqp_broker.web.errors import bad_request
from amqp_broker.web.shapes import CHANNEL, CONNECTION

_REASON = "Closed via management plugin"


def list_connections(asked: Asked) -> Answer:
    return show_objects(asked, CONNECTION)


def list_of_user(asked: Asked) -> Answer:
    user = asked.name("user")
    return show_objects(asked, CONNECTION, lambda row: row.get("user") == user)


def show_connection(asked: Asked) -> Answer:
    return show_object(asked, CONNECTION, name=asked.name("connection"))


def list_channels(asked: Asked) -> Answer:
    name = asked.name("connection")
    asked.verb("object", kind="connections", name=name)
    return show_objects(asked, CHANNEL, lambda row: (row.get("connection_details") or {}).get("name") == name)


def list_sessions(asked: Asked) -> Answer:
    asked.verb("object", kind="connections", name=asked.name("connection"))
    raise bad_request("sessions are of AMQP 1.0, and this connection speaks AMQP 0-9-1")


def close_connection(asked: Asked) -> Answer:
    name = asked.name("connection")
    asked.verb("object", kind="connections", name=name)
    asked.change("connection.close", name=name, reason=asked.headers.get("x-reason", _REASON))
    return no_content()


def close_of_user(asked: Asked) -> Answer:
    asked.change("connection.close", user=asked.name("user"), reason=asked.headers.get("x-reason", _REASON))
    return no_content()


ENDPOINTS = (
    Endpoint("GET", "/connections", list_connections, refused=(404,)),
    Endpoint("GET", "/vhosts/{vhost}/connections", list_connections),
    Endpoint("GET", "/connections/username/{user}", list_of_user),
    Endpoint("DELETE", "/connections/username/{user}", close_of_user, Access.ADMINISTRATOR),
    Endpoint("GET", "/connections/{connection}", show_connection),
    Endpoint("DELETE", "/connections/{connection}", close_connection),
    Endpoint("GET", "/connections/{connection}/channels", list_channels),
    Endpoint("GET", "/connections/{connection}/sessions", list_sessions),
)
