"""The brokers of the campaign: one node, or three with quorum queues; whoever dies is started again after a while."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import amqp_broker
from amqp_broker.client import ClientError, Connection
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.methods import ExchangeDeclare, QueueBind, QueueDeclare
from amqp_broker.system_client import SystemClient, SystemRequestError
from amqp_broker.testing.embedded import BrokerStartError, RunningBroker

QUEUES = ("in", "in2", "out")
DOWN_S = 1.5


class Brokers:
    """A context manager. `nodes` is 1 or 3. A moment that wants a broker's death takes a leader."""

    def __init__(self, moments: Path, nodes: int, flags: dict[str, Any]) -> None:
        self.restarts = 0
        self._moments = moments
        self._nodes = nodes
        self._flags = flags
        self._stack = ExitStack()
        self._running: list[RunningBroker] = []
        self._dead_since: dict[int, float] = {}

    def __enter__(self) -> Self:
        if self._nodes == 1:
            self._running = [self._stack.enter_context(amqp_broker.running(**self._flags))]
        else:
            cluster = self._stack.enter_context(amqp_broker.running_cluster(self._nodes, **self._flags))
            self._running = [node.broker for node in cluster.nodes]
        kind = Table({"x-queue-type": "quorum"} if self._nodes > 1 else {})
        with Connection.open(self._running[0].url) as connection, connection.channel() as channel:
            channel.call(ExchangeDeclare(exchange="feed", type="fanout", durable=True))
            for queue in QUEUES:
                channel.call(QueueDeclare(queue=queue, durable=True, arguments=kind))
            for queue in ("in", "in2"):
                channel.call(QueueBind(queue=queue, exchange="feed"))
        self.note_victim()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def url(self) -> str:
        """All nodes, as the option `uri` has them."""
        return ",".join(broker.url for broker in self._running)

    def tend(self) -> None:
        """Starts those again that have been dead for a while."""
        for number, broker in enumerate(self._running):
            if broker.is_running:
                continue
            since = self._dead_since.setdefault(number, time.monotonic())
            if time.monotonic() - since >= DOWN_S:
                del self._dead_since[number]
                broker.end(kill=True)  # which has happened; it forgets the process
                with suppress(BrokerStartError):
                    broker.launch()
                    broker.wait_until_ready(60)
                    self.restarts += 1
        self.note_victim()

    def note_victim(self) -> None:
        """Writes down whom to kill when a moment wants a broker."""
        leader = self._leader()
        alive = [broker for broker in self._running if broker.is_running]
        chosen = leader if leader is not None and leader.is_running else alive[0] if alive else None
        if chosen is not None:
            new = self._moments / "broker.new"
            new.write_text(str(chosen.process.pid))
            new.rename(self._moments / "broker.pid")

    def _leader(self) -> RunningBroker | None:
        """The node that leads the queues in whose Raft group most happens."""
        if self._nodes == 1:
            return self._running[0]
        for broker in self._running:
            if not broker.is_running:
                continue
            try:
                with SystemClient(broker.url) as client:
                    groups = client.request("cluster.status")["groups"]
            except (ClientError, SystemRequestError):
                continue
            busiest = max((each for each in groups if each["group"]), key=lambda each: int(each["commit_index"]))
            names = [f"n{number + 1}" for number in range(self._nodes)]
            if busiest["leader"] in names:
                return self._running[names.index(busiest["leader"])]
        return None
