"""Quorum queues: which there are, and the group behind one: terms, members with their lag, who led when and why."""

from __future__ import annotations

from typing import Final

from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.web.answer import Answer
from amqp_broker.web.asked import Asked
from amqp_broker.web.endpoint import Endpoint
from amqp_broker.web.endpoints.lists import read_objects, show_rows

#: What RabbitMQ calls what a member says of the group; texts are empty where it does not answer.
_OF_A_MEMBER: Final = {
    "Last Log Index": "last_index",
    "Last Written": "synced_index",
    "Last Applied": "applied_index",
    "Commit Index": "commit_index",
    "Snapshot Index": "checkpoint_index",
    "Term": "term",
    "Machine Version": "level",
}
#: The state of a member that does not answer.
_NO_ANSWER: Final = "noproc"
_COLUMNS = ("name", "vhost", "type", "leader", "members", "online", "state", "messages")


def list_quorum_queues(asked: Asked) -> Answer:
    rows = [row for row in read_objects(asked, "queues").rows if row.get("members") is not None]
    return show_rows(asked, [{name: row.get(name) for name in _COLUMNS} for row in rows])


def show_quorum_queue(asked: Asked) -> Answer:
    answer = asked.verb("quorum.view", vhost=asked.name("vhost"), name=asked.name("queue"))
    return Answer(value={key: value for key, value in answer.items() if key != "ok"})


def show_status(asked: Asked) -> Answer:
    """As RabbitMQ has it: one row a member; of whatever has members. Raises ApiError."""
    members = asked.verb("quorum.view", vhost=asked.name("vhost"), name=asked.name("queue"))["members"]
    return Answer(value=[status_of(each) for each in members])


def status_of(member: JsonObject) -> JsonObject:
    """The row of a member, of which `quorum.view` knows this."""
    is_known = "term" in member
    return {
        "Node Name": member["node"],
        "Raft State": member["role"] if is_known else _NO_ANSWER,
        "Membership": ("voter" if member["is_voter"] else "promotable") if is_known else "",
        **{theirs: member.get(ours, "") for theirs, ours in _OF_A_MEMBER.items()},
    }


ENDPOINTS = (
    Endpoint("GET", "/v1/quorum-queues", list_quorum_queues, refused=(404,)),
    Endpoint("GET", "/v1/quorum-queues/{vhost}", list_quorum_queues),
    Endpoint("GET", "/v1/quorum-queues/{vhost}/{queue}", show_quorum_queue),
    Endpoint("GET", "/queues/quorum/{vhost}/{queue}/status", show_status),
)
