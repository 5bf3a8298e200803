"""Whoever looks between any two operations: clients hear the same, octet for octet, and the queue holds the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_broker.protocol import methods
from tests.example_counts import examples
from tests.management.test_peek import PLACES
from tests.node.node_driver import NodeDriver, consume, declare, small_config
from tests.node.system_service import SystemService

LOOKS: list[dict[str, Any]] = [
    {}, {"from": "newest", "limit": 3}, {"from": 3, "backwards": True}, {"limit": 100, "filter": "2"},
    {"state": "unacked"}, {"state": "unacked", "from": "newest", "filter": "1"}, {"body_from": 10, "max_body_bytes": 7},
]  # fmt: skip

operations = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 12)),
        st.tuples(st.just("get"), st.integers(1, 4)),
        st.tuples(st.just("ack"), st.integers(0, 6)),
        st.tuples(st.just("requeue"), st.integers(0, 6)),
        st.tuples(st.just("reject"), st.integers(0, 6)),
        st.tuples(st.just("consume"), st.integers(1, 5)),
        st.tuples(st.just("cancel"), st.just(0)),
        st.tuples(st.just("purge"), st.just(0)),
        st.tuples(st.just("wait"), st.integers(1, 400)),
    ),
    max_size=25,
)


class _Life:
    """A queue that is used, and looked at, or not."""

    def __init__(self, queue_type: str, place: str, looks: bool) -> None:
        self.driver = NodeDriver(small_config(**PLACES[place]))
        self.service = SystemService(self.driver)
        self.client: Any = self.driver.client(1)
        self.looks = looks
        self.tags = 0
        self.asked = 0
        limits = {"x_message_ttl": 500, "x_delivery_limit": 2, "x_dead_letter_exchange": ""}
        self._send(declare("dead", x_queue_type=queue_type))
        self._send(declare("q", x_queue_type=queue_type, x_dead_letter_routing_key="dead", **limits))

    def _send(self, *said: Any) -> None:
        self.client.send(1, *said)
        self._rest()

    def _rest(self) -> None:
        self.driver.settle()
        self.driver.wait(30)

    def look(self) -> None:
        fields = LOOKS[self.asked % len(LOOKS)]
        self.asked += 1
        # Both ask something, so that both have as many turns.
        name = "q" if self.looks else "nothing"
        answer = self.service.ask("queue.peek", vhost="/", name=name, **fields)
        assert answer["ok"] is self.looks

    def do(self, what: str, number: int) -> None:
        if what == "publish":
            for each in range(number):
                self.client.publish(1, "q", b"%d" % each * 50, persistent=each % 2 == 0)
            self._rest()
        elif what == "get":
            self._send(*[methods.BasicGet(0, "q", False)] * number)
        elif what == "consume":
            self.tags += 1
            self._send(methods.BasicQos(0, number, False), consume("q", f"tag{self.tags}"))
        elif what == "cancel":
            self._send(methods.BasicCancel(f"tag{self.tags}", False))
        elif what == "purge":
            self._send(methods.QueuePurge(queue="q"))
        elif what == "wait":
            self.driver.wait(number)
        else:
            self._settle(what, number)

    def _settle(self, what: str, number: int) -> None:
        """The delivery with this tag, if it is outstanding; 0: all."""
        channel = self.client.connection.channels[1]
        if number and not channel.is_outstanding(number):
            return
        if what == "ack":
            self._send(methods.BasicAck(number, number == 0)) if channel.unacked else None
        elif channel.unacked:
            self._send(methods.BasicNack(number, number == 0, what == "requeue"))

    def end(self) -> tuple[bytes, list[int]]:
        self._send(methods.BasicRecover(True))
        counts = [self.driver.queue(name).message_count() for name in ("q", "dead")]
        self._send(*[methods.BasicGet(0, name, False) for name in ("q", "dead") for _ in range(5)])
        return self.client.heard, counts


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
@given(done=operations)
@settings(max_examples=examples(12))
def test_whoever_looks_changes_nothing(queue_type: str, place: str, done: list[tuple[str, int]]) -> None:
    lives = [_Life(queue_type, place, looks) for looks in (True, False)]
    for what, number in done:
        for life in lives:
            life.look()
            life.do(what, number)
    assert lives[0].end() == lives[1].end()
