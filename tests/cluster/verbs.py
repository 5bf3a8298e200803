"""The verbs about the cluster of a node without clients."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from amqp_broker.management.request import Request
from amqp_broker.management.verbs.cluster import Answer
from amqp_broker.node import Node
from amqp_broker.turn.task import Steps


def verbs_of(node: Node) -> dict[str, Callable[[Request], Answer]]:
    """By their names; what is done in slices is done at once."""
    return {name: partial(_answer, verb) for name, verb in node.system.cluster.verbs.items()}


def _answer(verb: Callable[[Request], Answer | Steps], request: Request) -> Answer:
    found = verb(request)
    if isinstance(found, tuple):
        return found
    while True:
        try:
            assert next(found) is None
        except StopIteration as end:
            return end.value, None
