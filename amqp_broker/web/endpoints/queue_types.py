"""The types of queues: what there are, what can be said of one, and what it can do. The node's register knows."""

from __future__ import annotations

from amqp_broker.web.answer import Answer
from amqp_broker.web.asked import Asked
from amqp_broker.web.endpoint import Endpoint


def list_queue_types(asked: Asked) -> Answer:
    """Each type of queue with its arguments and keys of policies, and the type of a queue of which none is said."""
    found = asked.verb("queue.types")
    return Answer(value={"default": found["default"], "types": found["types"]})


ENDPOINTS = (Endpoint("GET", "/v1/queue-types", list_queue_types),)
