"""Probes for whoever runs the broker: no login, no work.

`/livez`: this process answers. `/livez/node`: the node takes a connection and answers, whether or not it serves
clients. `/readyz`: it serves clients. `/startupz`: it has done so once. An alarm is nobody's reason to restart a
broker, so none of them looks at alarms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from amqp_broker.system_client import SystemRequestError
from amqp_broker.web.answer import Answer
from amqp_broker.web.node_client import NodeGone
from amqp_broker.web.services import Services

#: A node that has not answered for so long stands still, seconds.
LIVE_DEADLINE_S: Final = 5.0

Probe = Callable[[Services], Answer]


def live(services: Services) -> Answer:
    return Answer(200, {"status": "ok"})


def node_live(services: Services) -> Answer:
    """Whoever restarts a broker for this answer has waited for it longer than for any other."""
    try:
        services.node.greet(LIVE_DEADLINE_S)
    except NodeGone as error:
        return Answer(503, {"status": "failed", "reason": str(error)})
    return Answer(200, {"status": "ok"})


def ready(services: Services) -> Answer:
    try:
        health = services.node.request("health")
    except (NodeGone, SystemRequestError) as error:
        return Answer(503, {"status": "failed", "reason": str(error)})
    if not health.get("ready", True) or health.get("is_draining"):
        reason = "the node is being drained" if health.get("is_draining") else "the node is not ready"
        return Answer(503, {"status": "failed", "reason": reason})
    services.record_ready()
    return Answer(200, {"status": "ok"})


def started(services: Services) -> Answer:
    return Answer(200, {"status": "ok"}) if services.was_ready else ready(services)


PROBES: Final[Mapping[str, Probe]] = {
    "/livez": live, "/livez/node": node_live, "/readyz": ready, "/startupz": started,
}  # fmt: skip
