"""A type of queues need not have lease groups: who asks for them is told so."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.protocol import methods
from amqp_broker.queue_types.classic.type import ClassicType
from amqp_broker.queue_types.contract.declaration import QueueDeclaration
from queues.arguments import QueueArguments
from queues.classic import ClassicQueue
from tests.leases.lease_service import blob_of
from tests.leases.service_on_node import ServiceOnNode
from tests.node.node_driver import NodeDriver
from tests.queue_types.last_value import LastValueType
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
        assert answer.fields["error"] == f"lease.{verb}: queue 'q' has no lease groups: its type has none"


def test_a_transaction_may_go_to_a_queue_of_any_type() -> None:
    with register(LastValueType):
        service = ServiceOnNode(NodeDriver())
        service.declare("last", x_queue_type="last-value")
        service.declare("q")
        for sequence, key in enumerate(("last", "q", "last")):
            blob = blob_of([b"%s %d" % (key.encode(), sequence)], routing_key=key)
            said = service.stage(blob, app="a", epoch=0, partition=0, attempt=1, sequence=sequence)
            assert said.code == "ok", said
        done = service.ask("txn.commit", app="a", epoch=0, attempts={"0": 1})
        assert done.fields == {"ok": True, "done": True, "published": 3, "unroutable": 0}
        for queue, body in (("last", b"last 2"), ("q", b"q 1")):
            service.client.send(2, methods.BasicGet(0, queue, True))
            service.run()
            (got,) = [event.body for event in service.client.take() if event.method.name == "basic.get-ok"]
            assert got == body
