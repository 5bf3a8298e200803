"""ServiceOnNode: asks a Node that is driven by hand, without sockets, for lease.* and txn.*."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame
from amqp_broker.protocol.properties import decode_properties, encode_properties
from raft.errors import RaftStopped
from tests.leases.lease_service import Answer
from tests.node.node_driver import Client, NodeDriver, consume, frame_octets
from tests.simulation.simulated_disk import SimulatedCrash

REPLY_TO = "amq.rabbitmq.reply-to"


class ServiceOnNode:
    """One client of one node. run(): lets everything come to rest; by default that node alone."""

    def __init__(self, driver: NodeDriver, run: Callable[[], object] | None = None) -> None:
        self.driver = driver
        self._run = run or driver.settle
        self.client: Client = driver.client(1, 2)
        self.client.send(1, consume(REPLY_TO, "replies", no_ack=True))
        self._sent = 0
        self._answers: dict[str, Answer] = {}

    def run(self) -> None:
        """Raises SimulatedCrash when the disk went down, also where the node took that for a defect of a connection."""
        self._unless_down(self._run)

    def wait(self, milliseconds: int) -> None:
        """Let time pass. Raises SimulatedCrash."""
        self._unless_down(lambda: self.driver.wait(milliseconds))

    def _unless_down(self, go_on: Callable[[], object]) -> None:
        disk = self.driver.disk
        if not disk.is_down:
            try:
                go_on()
            except (RuntimeError, RaftStopped):
                if not disk.is_down:
                    raise
        if disk.is_down:
            raise SimulatedCrash

    def declare(self, queue: str, **arguments: object) -> None:
        table = Table({key.replace("_", "-"): value for key, value in arguments.items()})
        self.client.send(2, methods.QueueDeclare(0, queue, False, True, False, False, False, table))
        self.run()

    def fill(self, queue: str, count: int, first: int = 0) -> None:
        for number in range(first, first + count):
            self.client.publish(2, queue, b"m%d" % number)
        if self._run == self.driver.settle:
            self.wait(50)  # nobody waits for these to be synced
        self.run()

    def send(self, verb: str, body: bytes, headers: Mapping[str, object] | None = None) -> str:
        self._sent += 1
        name = str(self._sent)
        said: dict[str, object] = {"reply_to": REPLY_TO, "correlation_id": name}
        if headers is not None:
            said["headers"] = dict(headers)
        header = b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + encode_properties(said)
        octets = encode_method_frame(1, methods.BasicPublish(0, "amq.system", verb, False, False))
        octets += frame_octets(2, 1, header)
        for start in range(0, len(body), 4088):
            octets += frame_octets(3, 1, body[start : start + 4088])
        self.client.send_octets(octets)
        return name

    def answer(self, name: str) -> Answer | None:
        """The answer, if it has come."""
        for event in self.client.take():
            if event.method.name == "basic.deliver":
                said = decode_properties(event.properties)
                is_json = said.content_type == "application/json"
                fields: dict[str, Any] = json.loads(event.body) if is_json else {"ok": True}
                answer = Answer(fields, dict(said.headers or {}), b"" if is_json else event.body)
                self._answers[str(said.correlation_id)] = answer
        return self._answers.pop(name, None)

    def receive(self, name: str) -> Answer:
        self.run()
        answer = self.answer(name)
        assert answer is not None, "there is no answer"
        return answer

    def ask(self, verb: str, **fields: object) -> Answer:
        named = {key.rstrip("_"): value for key, value in fields.items()}
        return self.receive(self.send(verb, json.dumps(named).encode()))

    def stage(self, blob: bytes, **fields: object) -> Answer:
        return self.receive(self.send("txn.stage", blob, fields))

    def bodies(self, queue: str) -> list[bytes]:
        """What is ready in a queue."""
        from tests.leases.lease_service import rows

        found: list[bytes] = []
        answer = self.ask("lease.browse", queue=queue)
        found += [row.body for row in rows(answer.blob)]
        while answer.headers["x-more"]:
            answer = self.ask("lease.browse", queue=queue, from_sequence=answer.headers["x-end"])
            found += [row.body for row in rows(answer.blob)]
        return found
