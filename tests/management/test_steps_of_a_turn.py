"""Whatever is asked of a node, and however much it has: no turn of it does much.

A node of 10,000 queues, 2,000 connections, 20,000 bindings and 2,000 parameters is asked each verb that looks. Of each
turn until the answer is counted how many lines of Python ran, how much memory was taken at a time, and how many objects
were given back: what makes a list of all queues in one go, or forgets one, has few lines. A turn does one slice of
background work here.
"""

from __future__ import annotations

import gc
import json
import sys
import tracemalloc
from collections.abc import Iterator
from types import FrameType
from typing import Any, NamedTuple

import pytest

from amqp_broker.management.access import LOOKING, PATIENT
from amqp_broker.metadata import commands
from amqp_broker.metadata.commands import Command
from amqp_broker.metadata.entities import BindingRecord
from amqp_broker.protocol import methods
from amqp_broker.protocol.frames import encode_method_frame
from tests.node.node_driver import NodeDriver, consume, handshake_octets
from tests.node.one_slice import OneSlice
from tests.node.system_service import SystemService

#: One worker of a parallel run makes the node, once.
pytestmark = pytest.mark.xdist_group("steps of a turn")
QUEUES, CONNECTIONS, PARAMETERS = 10_000, 2_000, 2_000
#: Between two ends alone.
PAIRED = QUEUES
BATCH = 500
#: Of a page; of definitions that are compared with those of the node.
ROWS = 50
SOME = 1_000
#: In one turn: lines, octets that are taken at a time, objects that are given back.
MOST_LINES = 5_000
MOST_TAKEN = 64 * 1024
MOST_FREED = 1_500
#: Of so many turns of an answer lines are counted; behind them of one of so many, as they are alike.
FIRST, ONE_OF = 200, 50
#: Up to there an integer is no new object.
_FEW = 250
#: Of who asks: an answer is cut to frames.
FRAME_MAX = 16 * 1024

#: By what is asked: the verb, and its arguments. DEFINITIONS stands for some of the node's own.
DEFINITIONS = "definitions"
QUEUE = {"vhost": "/", "name": "q00007"}
ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    **{
        f"objects.page {kind}": ("objects.page", {"kind": kind, "limit": ROWS})
        for kind in (
            "connections", "channels", "consumers", "queues", "exchanges", "bindings", "vhosts", "users", "permissions",
            "topic_permissions", "policies", "operator_policies", "vhost_limits", "user_limits", "parameters",
            "global_parameters", "unroutable",
        )
    },
    "object": ("object", {"kind": "queues", **QUEUE}),
    "object bindings": (
        "object",
        {
            "kind": "bindings", "vhost": "/", "source": "amq.direct", "destination": "q00000",
            "destination_type": "queue", "properties_key": "p07000",
        },
    ),
    **{verb: (verb, {}) for verb in (
        "whoami", "health", "totals", "node", "node.settings", "statistics", "definitions.export", "cluster.status",
        "audit.page", "node.guard", "queue.homes", "queue.types",
    )},
    "cluster.status brief": ("cluster.status", {"brief": True}),
    "definitions.diff": ("definitions.diff", {DEFINITIONS: DEFINITIONS}),
    "quorum.view": ("quorum.view", {"vhost": "/", "name": "s"}),
    "queue.list": ("queue.list", {"vhost": "/"}),
    "queue.peek": ("queue.peek", QUEUE),
    "policy.preview": ("policy.preview", {"vhost": "/", "pattern": "^q", "definition": {"max-length": 1}}),
    "route.test": ("route.test", {"vhost": "/", "exchange": "amq.fanout", "routing_key": "k"}),
    "route.test of one queue": ("route.test", {"vhost": "/", "exchange": "amq.direct", "routing_key": "p07000"}),
    "stream.stat": ("stream.stat", {"vhost": "/", "name": "s"}),
    "stream.find": ("stream.find", {"vhost": "/", "name": "s", "time": 1}),
    "stream.find at a place": ("stream.find", {"vhost": "/", "name": "s", "at": "last"}),
    "stream.segments": ("stream.segments", {"vhost": "/", "name": "s"}),
    "login": ("login", {"user": "u", "password": "p", "host": "::1"}),
    "tap.list": ("tap.list", {}),
    "tap.read": ("tap.read", {}),
}  # fmt: skip


class Load(NamedTuple):
    """What a turn did."""

    lines: int
    taken: int
    freed: int


class Asked:
    """A node with much in it, and who asks it. answer: the last that came. asked_bytes: of the last
    request: a body becomes text in one go. counts: what turns do is counted, as it is until they do too much."""

    def __init__(self) -> None:
        self.answer: dict[str, Any] = {}
        self.asked_bytes = 0
        self.counts = True
        self.driver = NodeDriver()
        self._fill()
        client = self.driver.raw_client()
        client.send_octets(handshake_octets(frame_max=FRAME_MAX))
        self.service = SystemService(self.driver, client)
        found = self.service.ask("definitions.export")["definitions"]
        self.definitions = {**found, "queues": found["queues"][:SOME], "bindings": found["bindings"][:SOME]}
        background = self.driver.node.background
        background.set_pace(OneSlice())
        background.set_patience(OneSlice())

    def _fill(self) -> None:
        driver = self.driver
        names = [f"q{number:05}" for number in range(QUEUES)]
        for number, name in enumerate(names):
            self._apply(commands.declare_queue("/", name, number + 1))
        self._apply(commands.declare_queue("/", "s", QUEUES + 1, type_name="stream"))
        self._bind("amq.fanout", [(name, "") for name in names])
        self._bind("amq.direct", [(names[0], f"p{number:05}") for number in range(PAIRED)])
        for number in range(PARAMETERS):
            self._apply(commands.set_parameter("/", "component", f"p{number:05}", {"of": ["some", "value"]}))
        octets = handshake_octets() + encode_method_frame(1, methods.ChannelOpen())
        for number in range(CONNECTIONS):
            client = driver.raw_client()
            client.connection.transport = Deaf()
            client.send_octets(octets + encode_method_frame(1, consume(names[number])))
            if number % BATCH == 0:
                driver.settle()
        driver.settle()

    def _bind(self, exchange: str, ends: list[tuple[str, str]]) -> None:
        for name, key in ends:
            self._apply(commands.add_binding("/", BindingRecord(exchange, "queue", name, key, b"")))

    def _apply(self, command: Command) -> None:
        self.driver.node.broker.propose(command)

    def loads(self, verb: str, fields: dict[str, Any]) -> Iterator[Load]:
        """Of each turn until the answer, and of some behind it, in which what it took is given back."""
        if DEFINITIONS in fields:
            fields = {**fields, DEFINITIONS: self.definitions}
        if verb == "tap.read":
            opened = self.service.ask("tap.open", kind="tail", vhost="/", exchange="amq.direct", seconds=60)
            fields = {**fields, "id": opened["id"]}
        driver = self.driver
        driver.wait(2000)  # an answer of a moment ago is not given again
        body = json.dumps(fields).encode()
        self.asked_bytes, self.counts = len(body), True
        self.service.send(verb, body)
        tracemalloc.start(1)
        behind = None
        turns = 0
        while behind is None or behind > 0:
            turns += 1
            yield self._counted(self.counts and (behind is not None or turns <= FIRST or turns % ONE_OF == 0))
            behind = None if behind is None else behind - 1
            if answers := self.service.answers():
                (self.answer,) = answers
                behind = 100

    def let_go_by(self) -> None:
        """It is known that turns do too much: of the rest nothing is counted, which takes many times as long."""
        self.counts = False
        tracemalloc.stop()

    def _counted(self, counts: bool) -> Load:
        """A turn, and what it leaves to be done elsewhere, which is not counted. counts: lines, too, which takes a
        hundred times as long."""
        driver = self.driver
        driver.now += 1
        lines = _Lines()
        before, blocks = tracemalloc.get_traced_memory()[0], sys.getallocatedblocks()
        tracemalloc.reset_peak()
        if counts:
            sys.settrace(lines.trace)
        turn = driver.node.end_turn(driver.now)
        sys.settrace(None)
        freed = blocks - sys.getallocatedblocks()
        most = tracemalloc.get_traced_memory()[1]
        for connection in turn.dirty:
            connection.transport.hear(b"".join(connection.take_output()))
        for check in turn.checks:
            check.run()
            driver.node.checked(check, driver.now)
        if turn.wants_sync and (job := driver.node.take_sync()) is not None:
            job.run()
            driver.node.synced(job, driver.now)
        return Load(lines.count(), most - before, freed)


class Deaf:
    """A transport."""

    def hear(self, octets: bytes) -> None:
        """Nothing comes of it."""


class _Lines:
    """How many lines have run. trace: for sys.settrace. It is called for each of millions of lines, so it is a plain
    function, and counts in small integers: larger ones are objects that tracemalloc would have to note."""

    def __init__(self) -> None:
        few = many = 0

        def trace(frame: FrameType, event: str, argument: object) -> Any:
            nonlocal few, many
            few += 1
            if few == _FEW:
                few = 0
                many += 1
            return trace

        self.trace = trace
        self.count = lambda: _FEW * many + few


@pytest.fixture(scope="module")
def asked() -> Iterator[Asked]:
    found = Asked()
    gc.collect()
    gc.disable()
    yield found
    tracemalloc.stop()
    gc.enable()


def test_each_verb_that_looks_is_asked() -> None:
    assert {verb for verb, _ in ASKED.values()} >= LOOKING | PATIENT


def test_each_list_is_asked_for(asked: Asked) -> None:
    list(asked.loads("objects.page", {"kind": "nothing"}))
    kinds = str(asked.answer["error"]).partition("one of ")[2].rpartition(", got")[0].split(", ")
    assert len(kinds) > 10
    assert {f"objects.page {kind}" for kind in kinds} <= set(ASKED)


@pytest.mark.parametrize("what", ASKED)
def test_no_turn_does_much(asked: Asked, what: str) -> None:
    verb, fields = ASKED[what]
    most = Load(0, 0, 0)
    for load in asked.loads(verb, fields):
        most = Load(*map(max, most, load))
        if asked.counts and not is_little(most, asked.asked_bytes):
            asked.let_go_by()
    assert asked.answer["ok"] or what == "login", asked.answer
    assert most.lines <= MOST_LINES
    assert most.taken <= MOST_TAKEN + asked.asked_bytes
    assert most.freed <= MOST_FREED


def is_little(load: Load, known: int) -> bool:
    """Whether a turn may do so much. known: octets that may be taken besides."""
    return load.lines <= MOST_LINES and load.taken <= MOST_TAKEN + known and load.freed <= MOST_FREED
