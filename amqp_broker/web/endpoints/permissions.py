"""Permissions and topic permissions."""

from __future__ import annotations

import msgspec

from amqp_broker.protocol.json_values import JsonObject, JsonValue
from amqp_broker.system_client import SystemRequestError
from amqp_broker.web.access import Access
from amqp_broker.web.answer import Answer, created, no_content
from amqp_broker.web.asked import Asked
from amqp_broker.web.body import read_body
from amqp_broker.web.endpoint import Endpoint
from amqp_broker.web.endpoints.lists import find_row, show_rows
from amqp_broker.web.errors import bad_request, object_not_found
from amqp_broker.web.listing import cut, read_columns

#: What a filter looks at; a topic permission has an exchange, too.
WHOSE = ("user", "vhost", "exchange")


class PermissionBody(msgspec.Struct):
    """Patterns of names."""

    configure: str
    write: str
    read: str


class TopicBody(msgspec.Struct):
    """Patterns of routing keys, of one exchange."""

    exchange: str
    write: str
    read: str


def list_permissions(asked: Asked) -> Answer:
    return show_rows(asked, asked.objects("permissions").rows, *WHOSE)


def show_permission(asked: Asked) -> Answer:
    row = find_row(asked, "permissions", user=asked.name("user"), vhost=asked.name("vhost"))
    return Answer(value=cut(row, read_columns(asked.query)))


def put_permission(asked: Asked) -> Answer:
    body, where = read_body(asked.body, PermissionBody), _where(asked)
    was_there = bool(_rows(asked, "permissions"))
    _change(asked, "permission.put", **where, configure=body.configure, write=body.write, read=body.read)
    return created(was_there)


def delete_permission(asked: Asked) -> Answer:
    _found(asked, "permissions")
    _change(asked, "permission.delete", **_where(asked))
    return no_content()


def list_topic_permissions(asked: Asked) -> Answer:
    return show_rows(asked, asked.objects("topic_permissions").rows, *WHOSE)


def list_topic_permissions_of(asked: Asked) -> Answer:
    return show_rows(asked, _found(asked, "topic_permissions"), *WHOSE)


def put_topic_permission(asked: Asked) -> Answer:
    body, where = read_body(asked.body, TopicBody), _where(asked)
    was_there = bool(_rows(asked, "topic_permissions", exchange=body.exchange))
    _change(asked, "topic_permission.put", **where, exchange=body.exchange, write=body.write, read=body.read)
    return created(was_there)


def delete_topic_permissions(asked: Asked) -> Answer:
    """Those of one exchange, or of all."""
    of = {"exchange": asked.name("exchange")} if "exchange" in asked.names else {}
    for row in _found(asked, "topic_permissions", **of):
        _change(asked, "topic_permission.delete", **_where(asked), exchange=row["exchange"])
    return no_content()


def _where(asked: Asked) -> dict[str, str]:
    return {"vhost": asked.name("vhost"), "user": asked.name("user")}


def _rows(asked: Asked, kind: str, **more: str) -> list[JsonObject]:
    """Those of the user in the virtual host."""
    wanted = {**_where(asked), **more}
    return [row for row in asked.objects(kind).rows if all(row[key] == value for key, value in wanted.items())]


def _found(asked: Asked, kind: str, **more: str) -> list[JsonObject]:
    """As _rows. Raises ApiError where there are none."""
    found = _rows(asked, kind, **more)
    if not found:
        raise object_not_found()
    return found


def _change(asked: Asked, verb: str, **fields: JsonValue) -> None:
    try:
        asked.change(verb, **fields)
    except SystemRequestError as error:
        if error.code == "not_found":
            raise bad_request("vhost_or_user_not_found") from None
        raise
    asked.services.sessions.end_of(asked.name("user"))


_ONE = "/permissions/{vhost}/{user}"
_TOPICS = "/topic-permissions/{vhost}/{user}"
ENDPOINTS = (
    Endpoint("GET", "/permissions", list_permissions, Access.ADMINISTRATOR),
    Endpoint("GET", _ONE, show_permission, Access.ADMINISTRATOR),
    Endpoint("PUT", _ONE, put_permission, Access.ADMINISTRATOR, body=PermissionBody),
    Endpoint("DELETE", _ONE, delete_permission, Access.ADMINISTRATOR),
    Endpoint("GET", "/topic-permissions", list_topic_permissions, Access.ADMINISTRATOR),
    Endpoint("GET", _TOPICS, list_topic_permissions_of, Access.ADMINISTRATOR),
    Endpoint("PUT", _TOPICS, put_topic_permission, Access.ADMINISTRATOR, body=TopicBody),
    Endpoint("DELETE", _TOPICS, delete_topic_permissions, Access.ADMINISTRATOR),
    Endpoint("DELETE", f"{_TOPICS}/{{exchange}}", delete_topic_permissions, Access.ADMINISTRATOR),
)
