"""Queues: lists, one, declare, delete, purge, and their messages."""

from __future__ import annotations

import msgspec

from amqp_broker.protocol import methods as m
from amqp_broker.protocol.constants import MAX_SHORT_STRING
from amqp_broker.protocol.json_values import JsonValue
from amqp_broker.web.access import Access
from amqp_broker.web.answer import Answer, created, no_content
from amqp_broker.web.asked import Asked
from amqp_broker.web.body import flag, read_body
from amqp_broker.web.endpoint import ANSWER, NO_ANSWER, Endpoint
from amqp_broker.web.endpoints.lists import is_there, read_objects, show_object, show_objects
from amqp_broker.web.endpoints.messages import GetBody, get_messages
from amqp_broker.web.errors import bad_request, kind_not_found, object_not_found
from amqp_broker.web.field_values import to_table
from amqp_broker.web.hints import with_hints
from amqp_broker.web.listing import answer_list, read_query
from amqp_broker.web.shapes import QUEUE

#: What a list without statistics has.
_PLAIN_FIELDS = (
    "name", "vhost", "type", "node", "state", "arguments", "auto_delete", "durable", "exclusive", "leader", "members",
    "online",
)  # fmt: skip
_TOTALS = ("messages", "messages_ready", "messages_unacknowledged")


class QueueBody(msgspec.Struct):
    """What a queue is declared with."""

    durable: JsonValue = None
    auto_delete: JsonValue = None
    arguments: JsonValue = None
    node: JsonValue = None
    exclusive: JsonValue = None


class ActionBody(msgspec.Struct):
    """An action of mirrored queues, which there are none of."""

    action: str


def list_queues(asked: Asked) -> Answer:
    if asked.query.get("disable_stats") != "true":
        return show_objects(asked, QUEUE)
    fields = _PLAIN_FIELDS + (_TOTALS if asked.query.get("enable_queue_totals") == "true" else ())
    found = read_objects(asked, "queues").rows
    rows = [{name: row[name] for name in fields if row.get(name) is not None} for row in found]
    return Answer(value=answer_list(rows, read_query(asked.query)))


def show_queue(asked: Asked) -> Answer:
    return show_object(asked, QUEUE, with_hints, vhost=asked.name("vhost"), name=asked.name("queue"))


def put_queue(asked: Asked) -> Answer:
    vhost, name = asked.name("vhost"), asked.name("queue")
    check_name(name)
    body = read_body(asked.body, QueueBody)
    arguments = to_table(body.arguments, "arguments")
    _check_node(asked, body.node)
    was_there = is_there(asked, "queues", vhost=vhost, name=name)
    declare = m.QueueDeclare(
        queue=name, durable=flag(body.durable), auto_delete=flag(body.auto_delete), arguments=arguments
    )
    asked.call(vhost, declare)
    return created(was_there)


def delete_queue(asked: Asked) -> Answer:
    vhost, name = asked.name("vhost"), asked.name("queue")
    require(asked, "queues", vhost, name)
    if_unused, if_empty = (asked.query.get(key) == "true" for key in ("if-unused", "if-empty"))
    asked.call(vhost, m.QueueDelete(queue=name, if_unused=if_unused, if_empty=if_empty))
    return no_content()


def purge_queue(asked: Asked) -> Answer:
    vhost, name = asked.name("vhost"), asked.name("queue")
    require(asked, "queues", vhost, name)
    asked.call(vhost, m.QueuePurge(queue=name))
    return no_content()


def act(asked: Asked) -> Answer:
    """Mirrored queues could be told to synchronise; there is nothing to be done here."""
    body = read_body(asked.body, ActionBody)
    if not is_there(asked, "queues", vhost=asked.name("vhost"), name=asked.name("queue")):
        raise kind_not_found("queue")
    if body.action not in ("sync", "cancel_sync"):
        raise bad_request(["unknown", body.action])
    return no_content()


class ReplicaBody(msgspec.Struct):
    """Which node is to have a replica, or none any more."""

    node: str


class PatternBody(msgspec.Struct):
    """Of which queues, in RabbitMQ; here queues share groups, and all groups are meant."""

    strategy: str = "all"
    vhost_pattern: str = ".*"
    queue_pattern: str = ".*"


def change_replica(asked: Asked) -> Answer:
    """The group of a queue, with all other queues that are in it, is on a node, or is there no more."""
    body = read_body(asked.body, ReplicaBody)
    verb = "queues.grow" if asked.method == "POST" else "queues.shrink"
    asked.change(verb, node=body.node, vhost=asked.name("vhost"), queue=asked.name("queue"))
    return no_content()


def change_replicas(asked: Asked) -> Answer:
    """All groups are on a node, or none is any more."""
    body = read_body(asked.body or b"{}", PatternBody)
    if (body.strategy, body.vhost_pattern, body.queue_pattern) != ("all", ".*", ".*"):
        raise bad_request("queues share groups, which grow and shrink as a whole: leave out strategy and patterns")
    answer = asked.change("queues.grow" if asked.method == "POST" else "queues.shrink", node=asked.name("node"))
    return Answer(value=answer["groups"])


def check_name(name: str) -> None:
    """Raises ApiError."""
    octets = len(name.encode("utf-8", "surrogateescape"))
    if octets > MAX_SHORT_STRING:
        raise bad_request(f"a name has at most {MAX_SHORT_STRING} octets, not {octets}")
    if "\r" in name or "\n" in name:
        raise bad_request(f"{name!r}: declarations leave out the ends of lines in a name; write it without them")


def require(asked: Asked, kind: str, vhost: str, name: str) -> None:
    """Raises ApiError where it is not there: AMQP deletes what is not there without a word."""
    if not is_there(asked, kind, vhost=vhost, name=name):
        raise object_not_found()


def _check_node(asked: Asked, node: JsonValue) -> None:
    """A queue lives where the broker puts it; a name that is no member is a mistake."""
    if node is None:
        return
    members = asked.services.node.request("node")["members"]
    if node not in members:
        raise bad_request(f"node {node!r} is no member; there are {', '.join(members)}")


_REPLICAS = "/queues/quorum/{vhost}/{queue}/replicas"

ENDPOINTS = (
    Endpoint("GET", "/queues", list_queues, refused=(404,)),
    Endpoint("GET", "/queues/detailed", list_queues, refused=(404,)),
    Endpoint("GET", "/queues/{vhost}", list_queues),
    Endpoint("GET", "/queues/{vhost}/{queue}", show_queue),
    Endpoint("PUT", "/queues/{vhost}/{queue}", put_queue, body=QueueBody),
    Endpoint("DELETE", "/queues/{vhost}/{queue}", delete_queue),
    Endpoint("DELETE", "/queues/{vhost}/{queue}/contents", purge_queue),
    Endpoint("POST", "/queues/{vhost}/{queue}/get", get_messages, body=GetBody),
    Endpoint("POST", "/queues/{vhost}/{queue}/actions", act, Access.ADMINISTRATOR, body=ActionBody, done=NO_ANSWER),
    Endpoint("POST", f"{_REPLICAS}/add", change_replica, Access.ADMINISTRATOR, body=ReplicaBody, done=NO_ANSWER),
    Endpoint("DELETE", f"{_REPLICAS}/delete", change_replica, Access.ADMINISTRATOR, body=ReplicaBody),
    Endpoint("POST", "/queues/quorum/replicas/on/{node}/grow", change_replicas, Access.ADMINISTRATOR, body=PatternBody),
    Endpoint("DELETE", "/queues/quorum/replicas/on/{node}/shrink", change_replicas, Access.ADMINISTRATOR, done=ANSWER),
)
