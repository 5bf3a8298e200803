"""Homes of classic queues: which there are, and where queues are to live. A move is a job, for as long as it takes."""

from __future__ import annotations

import uuid

import msgspec

from amqp_broker.moving.rehomer import Rehome, plan, weighed
from amqp_broker.moving.spreading import Change
from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.web.access import Access
from amqp_broker.web.answer import Answer
from amqp_broker.web.asked import Asked
from amqp_broker.web.body import read_body
from amqp_broker.web.endpoint import JOB_OR_PREVIEW, Endpoint
from amqp_broker.web.endpoints.queues import require
from amqp_broker.web.errors import bad_request
from amqp_broker.web.user_sessions import Key


class RehomeBody(msgspec.Struct):
    """home: a node, or a worker such as n1/2. dry_run: only what would happen."""

    home: str
    dry_run: bool = False


class SpreadBody(msgspec.Struct):
    """dry_run: only what would happen."""

    dry_run: bool = False


def list_homes(asked: Asked) -> Answer:
    """The nodes and workers that take queues, and the types of queues that have a home."""
    found = asked.verb("queue.homes")
    return Answer(value={"homes": found["homes"], "types": found["types"]})


def list_homes_of_queue(asked: Asked) -> Answer:
    """Where it lives, and where else it might."""
    require(asked, "queues", asked.name("vhost"), asked.name("queue"))
    found = _homes_of_queue(asked)
    return Answer(value={"home": found["home"], "homes": found["homes"]})


def rehome(asked: Asked) -> Answer:
    """A job: see /v1/jobs."""
    body, vhost, name = read_body(asked.body, RehomeBody), asked.name("vhost"), asked.name("queue")
    row = asked.verb("object", kind="queues", vhost=vhost, name=name)["object"]
    found = _homes_of_queue(asked)
    if body.home == found["home"]:
        raise bad_request(f"queue '{name}' in vhost '{vhost}' lives at {body.home} already")
    if body.home not in found["homes"]:
        raise bad_request(f"no node or worker '{body.home}'; there are {', '.join(found['homes'])}")
    change = Change(weighed(row), body.home)
    if body.dry_run:
        held = {key: row.get(key) or 0 for key in ("messages_unacknowledged", "consumers")}
        return Answer(value=_shown(change) | held)
    return _begin(asked, "rehome", name, vhost, [change])


def spread_queues(asked: Asked) -> Answer:
    """A job: see /v1/jobs."""
    body = read_body(asked.body, SpreadBody)
    homes, changes = plan(asked.verb)
    if body.dry_run:
        return Answer(value={"homes": homes, "moves": [_shown(change) for change in changes]})
    return _begin(asked, "rebalance", "", "", changes)


def _homes_of_queue(asked: Asked) -> JsonObject:
    return asked.verb("queue.homes", vhost=asked.name("vhost"), name=asked.name("queue"))


def _shown(change: Change) -> JsonObject:
    queue = change.queue
    return {
        "vhost": queue.vhost, "name": queue.name, "from": queue.home, "home": change.home, "messages": queue.messages,
        "message_bytes": queue.octets,
    }  # fmt: skip


def _begin(asked: Asked, kind: str, queue: str, vhost: str, changes: list[Change]) -> Answer:
    """Homes are the administrator's, also in virtual hosts that he may not use: the node is asked for him."""
    move = Rehome(uuid.uuid4().hex, queue, tuple(changes), asked.host)
    services = asked.services
    job = services.jobs.start(kind, Key(asked.user.name, vhost, asked.host), move, services.node.connect)
    return Answer(202, job.shown(), {"location": f"/api/v1/jobs/{move.name}"})


ENDPOINTS = (
    Endpoint("GET", "/v1/homes", list_homes, Access.ADMINISTRATOR),
    Endpoint("GET", "/v1/queues/{vhost}/{queue}/homes", list_homes_of_queue, Access.ADMINISTRATOR),
    Endpoint(
        "POST",
        "/v1/queues/{vhost}/{queue}/rehome",
        rehome,
        Access.ADMINISTRATOR,
        body=RehomeBody,
        done=JOB_OR_PREVIEW,
    ),
    Endpoint(
        "POST",
        "/v1/rebalance/classic-queues",
        spread_queues,
        Access.ADMINISTRATOR,
        body=SpreadBody,
        done=JOB_OR_PREVIEW,
    ),
)
