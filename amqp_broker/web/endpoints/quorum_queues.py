"""Quorum queues: which there are, and the group behind one: terms, members with their lag, who led when and why."""

from __future__ import annotations

from amqp_broker.web.answer import Answer
from amqp_broker.web.asked import Asked
from amqp_broker.web.endpoint import Endpoint
from amqp_broker.web.endpoints.lists import read_objects, show_rows

_COLUMNS = ("name", "vhost", "type", "leader", "members", "online", "state", "messages")


def list_quorum_queues(asked: Asked) -> Answer:
    rows = [row for row in read_objects(asked, "queues").rows if row.get("members") is not None]
    return show_rows(asked, [{name: row.get(name) for name in _COLUMNS} for row in rows])


def show_quorum_queue(asked: Asked) -> Answer:
    answer = asked.verb("quorum.view", vhost=asked.name("vhost"), name=asked.name("queue"))
    return Answer(value={key: value for key, value in answer.items() if key != "ok"})


ENDPOINTS = (
    Endpoint("GET", "/v1/quorum-queues", list_quorum_queues),
    Endpoint("GET", "/v1/quorum-queues/{vhost}", list_quorum_queues),
    Endpoint("GET", "/v1/quorum-queues/{vhost}/{queue}", show_quorum_queue),
)
