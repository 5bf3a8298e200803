"""A type of queues need not have lease groups: who asks for them is told so."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.queue_types.classic.type import ClassicType
from amqp_broker.queue_types.declaration import QueueDeclaration
from queues.arguments import QueueArguments
from queues.classic import ClassicQueue
from tests.leases.service_on_node import ServiceOnNode
from tests.node.node_driver import NodeDriver
from tests.queue_types.registering import register


class _Unleased(ClassicQueue):
    def leases(self) -> None:
        """It has none."""


class _UnleasedType(ClassicType):
    name = "unleased"
    policy_kind = "unleased_queues"

    def _make(self, declaration: QueueDeclaration, queue_id: int, settings: QueueArguments) -> Any:
        host = self._host
        queue = _Unleased(
            declaration.name, queue_id, declaration.is_durable, settings, host.store, host.timers, host.background,
            host.dead_letters,
        )  # fmt: skip
        queue.declaration = declaration
        return queue


@pytest.mark.parametrize("verb", ["open", "claim", "fetch", "ack", "release", "stat", "browse"])
def test_a_queue_without_lease_groups_says_so(verb: str) -> None:
    with register(_UnleasedType):
        driver = NodeDriver()
        service = ServiceOnNode(driver)
        service.declare("q", x_queue_type="unleased")
        answer = service.ask(f"lease.{verb}", queue="q", group="g", owner="me")
        assert answer.code == "invalid"
        assert answer.fields["error"] == f"lease.{verb}: queue 'q' is of a type that has no lease groups"
