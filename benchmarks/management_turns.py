"""Turns of a node that is asked by the management: how much processor time a request adds to the longest of them.

A node with many queues and clients is driven without sockets, in this process; each verb of the management is asked in
turn, and the processor time of every turn until its answer is taken by `time.thread_time`, which does not count what
others do on the machine. A turn does one slice here, so that each round does the same in the same turns: of a turn the
least of all rounds counts, since what others have put into the processor's caches meanwhile can only add to it. In a
broker slices go on for `management_turn_time_us`, and the last one is ended: so much is added to those behind the turn
that reads the request, which has none. What Python's collector takes, as it does whatever makes many objects, is not
counted with a turn, and has a row of its own.
"""

from __future__ import annotations

import gc
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from amqp_broker.bench.link import LinkError
from amqp_broker.connection.connection import Connection
from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame
from amqp_broker.protocol.properties import encode_properties
from amqp_broker.server.collector import start_collector
from benchmarks.brokers import temporary_folder
from benchmarks.findings import Finding
from benchmarks.node_load import CHANNEL, DrivenNode

QUEUES, CONNECTIONS, BINDINGS, VHOSTS = 20_000, 2_000, 5_000, 20
ROUNDS = 15
#: No request lengthens a turn by more, milliseconds.
MOST_MS = 0.3
_REPLY_TO = "amq.rabbitmq.reply-to"
_BATCH = 200
#: The queue that has messages.
LAST = "the last"

#: Some of the node's queues, as in a file of definitions.
LISTED: list[dict[str, object]] = [
    {
        "name": f"q{number:05}", "vhost": "/", "durable": number % 2 == 1, "auto_delete": False, "type": "classic",
        "arguments": {},
    }
    for number in range(1000)
]  # fmt: skip

#: What the management process asks for, by what is said of it.
REQUESTS: dict[str, tuple[str, dict[str, object]]] = {
    "totals": ("totals", {}),
    "a page of 250 queues": ("objects.page", {"kind": "queues", "limit": 250}),
    "a page of 250 connections": ("objects.page", {"kind": "connections", "limit": 250}),
    "a page of 250 channels": ("objects.page", {"kind": "channels", "limit": 250}),
    "a page of 250 consumers": ("objects.page", {"kind": "consumers", "limit": 250}),
    "a page of 250 exchanges": ("objects.page", {"kind": "exchanges", "limit": 250}),
    "a page of 250 bindings": ("objects.page", {"kind": "bindings", "limit": 250}),
    "virtual hosts": ("objects.page", {"kind": "vhosts", "limit": 250}),
    "users": ("objects.page", {"kind": "users", "limit": 250}),
    "permissions": ("objects.page", {"kind": "permissions", "limit": 250}),
    "one queue": ("object", {"kind": "queues", "vhost": "/", "name": "q00100"}),
    "the node": ("node", {}),
    "its health": ("health", {}),
    "the cluster, in short": ("cluster.status", {"brief": True}),
    "the cluster": ("cluster.status", {}),
    "statistics": ("statistics", {}),
    "messages of a queue": ("queue.peek", {"vhost": "/", "name": LAST, "limit": 100}),
    "a route": ("route.test", {"vhost": "/", "exchange": "amq.topic", "routing_key": "a.b"}),
    "a route to each queue": ("route.test", {"vhost": "/", "exchange": "amq.fanout"}),
    "a policy, before it is set": ("policy.preview", {"vhost": "/", "pattern": "^q", "definition": {"max-length": 1}}),
    "definitions": ("definitions.export", {}),
    "definitions, compared with a file of 1,000 queues": ("definitions.diff", {"definitions": {"queues": LISTED}}),
    "unroutable messages": ("objects.page", {"kind": "unroutable", "limit": 250}),
    "the list of queues": ("queue.list", {"vhost": "/"}),
    "the audit log": ("audit.page", {"limit": 200}),
    "who one is": ("whoami", {}),
}


class OneSlice:
    """A Pace (queues/background.py) of one slice in each turn."""

    def start(self) -> None:
        """See Pace."""

    def goes_on(self) -> bool:
        """See Pace."""
        return False


class AskedNode:
    """A node with many objects, and a connection that asks it."""

    def __init__(self, folder: Path, scale: float) -> None:
        self.driven = DrivenNode(folder)
        self._scale = scale
        self.longest_collection_ms = self._collecting = 0.0
        self._collection_began = 0
        self._fill()
        reply = methods.BasicConsume(queue=_REPLY_TO, consumer_tag="answers", no_ack=True)
        self._service = self.driven.connect(reply)
        self._service.take_output()
        config = self.driven.node.config
        self.slices_ms = config.management_turn_time_us / 1000
        background = self.driven.node.background
        background.set_pace(OneSlice())
        background.set_patience(OneSlice())

    def _fill(self) -> None:
        driven, scale = self.driven, self._scale
        client = driven.connect()
        for name in range(int(VHOSTS * scale)):
            self._send(client, [methods.ExchangeDeclare(0, f"x{name}", "topic", False, True, False, False, True)])
        names = [*(f"q{number:05}" for number in range(int(QUEUES * scale))), LAST]
        declare = [
            methods.QueueDeclare(0, name, False, number % 2 == 1, False, False, True, Table())
            for number, name in enumerate(names)
        ]
        self._send(client, declare)
        bound = names[: int(BINDINGS * scale)]
        self._send(client, [methods.QueueBind(0, name, "amq.topic", f"a.{name}", True, Table()) for name in bound])
        self._send(client, [methods.QueueBind(0, name, "amq.fanout", "", True, Table()) for name in names])
        section = encode_properties({"delivery_mode": 1})
        for _ in range(200):
            octets = encode_method_frame(CHANNEL, methods.BasicPublish(0, "", names[-1], False, False))
            head = b"\x00\x3c\x00\x00" + (100).to_bytes(8, "big") + section
            driven.feed(client, octets + _frame(2, head) + _frame(3, bytes(100)))
        for number in range(int(CONNECTIONS * scale)):
            consume = methods.BasicConsume(queue=names[number % len(names)], consumer_tag="c")
            driven.connect(consume).take_output()

    def _send(self, client: Connection, calls: Sequence[methods.Method]) -> None:
        """Without answers, many at a time."""
        for start in range(0, len(calls), _BATCH):
            self.driven.feed(
                client, b"".join(encode_method_frame(CHANNEL, call) for call in calls[start : start + _BATCH])
            )
            client.take_output()

    def collected(self, phase: str, about: object) -> None:
        """For gc.callbacks."""
        if phase == "start":
            self._collection_began = time.thread_time_ns()
        else:
            took = (time.thread_time_ns() - self._collection_began) / 1_000_000
            self._collecting += took
            self.longest_collection_ms = max(self.longest_collection_ms, took)

    def idle_turn_ms(self) -> float:
        """What a turn without anything takes."""
        return statistics.median(self._timed(self._turn) for _ in range(200))

    def turns_ms(self, verb: str, fields: dict[str, object]) -> tuple[list[float], bytes]:
        """Of those from a request to its answer; the answer's octets."""
        driven, service = self.driven, self._service
        driven.now += 2000  # an answer of a moment ago is not given again
        driven.node.tick(driven.now)
        self._turn()
        octets = self._request(verb, fields)

        def first() -> None:
            driven.node.receive_data(service, octets, driven.now)
            self._turn()

        turns = [self._timed(first)]
        while not (said := b"".join(service.take_output())):
            turns.append(self._timed(self._turn))
            if len(turns) > 1_000_000:
                raise LinkError(f"no answer to {verb}")
        return turns, said

    def _turn(self) -> None:
        """One turn, and what it leaves to be done elsewhere."""
        driven = self.driven
        driven.now += 1
        turn = driven.node.end_turn(driven.now)
        self._later = turn

    def _timed(self, step: Callable[[], None]) -> float:
        self._collecting = 0.0
        began = time.thread_time_ns()
        step()
        took = (time.thread_time_ns() - began) / 1_000_000 - self._collecting
        turn, node = self._later, self.driven.node
        for check in turn.checks:  # in threads of the driver
            check.run()
            node.checked(check, self.driven.now)
        if turn.wants_sync and (job := node.take_sync()) is not None:
            job.run()
            node.synced(job, self.driven.now)
        return took

    @staticmethod
    def _request(verb: str, fields: dict[str, object]) -> bytes:
        body = json.dumps(fields).encode()
        section = encode_properties({"reply_to": _REPLY_TO})
        octets = encode_method_frame(CHANNEL, methods.BasicPublish(0, "amq.system", verb, False, False))
        return octets + _frame(2, b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + section) + _frame(3, body)


def _frame(kind: int, payload: bytes) -> bytes:
    return bytes([kind]) + CHANNEL.to_bytes(2, "big") + len(payload).to_bytes(4, "big") + payload + b"\xce"


def measure(scale: float) -> Iterator[Finding]:
    """Each verb. Raises LinkError where one is refused."""
    with temporary_folder() as folder:
        node = AskedNode(folder / "data", scale)
        gc.collect()
        start_collector()
        gc.callbacks.append(node.collected)
        idle = node.idle_turn_ms()
        yield Finding("a turn without anything", "ms", idle)
        for name, (verb, fields) in REQUESTS.items():
            rounds = [node.turns_ms(verb, fields) for _ in range(ROUNDS)]
            if b'"ok":true' not in rounds[0][1].replace(b" ", b"")[:4096]:
                raise LinkError(f"{verb} {fields}: {rounds[0][1][:300]!r}")
            least = [min(each) for each in zip(*(found for found, _ in rounds), strict=False)]
            behind = max(least[1:], default=0.0) + (node.slices_ms if len(least) > 2 else 0)
            longest = max(least[0], behind) - idle
            yield Finding(f"turns, longer by: {name} ({len(least)} slices)", "ms", longest, MOST_MS)
        gc.callbacks.remove(node.collected)
        yield Finding("the collector's longest look meanwhile", "ms", node.longest_collection_ms)
        node.driven.disk.close()
