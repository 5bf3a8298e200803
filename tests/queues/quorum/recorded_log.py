"""Logs of a queue group with what came of them, kept in a file: members of different versions have to agree about it.

    python -m tests.queues.quorum.recorded_log    writes recorded/logs.json.gz anew

That is for a change that members agree upon by a version, and for nothing else. A record is a list of steps:

    ["session", node, session]     from now on effects come for this session of the node
    ["leads", node, is_leader]     the node's member becomes the leader, or is it no more
    ["entry", hexadecimal, {node: effects}, deadline, digest]
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import amqp_broker  # noqa: F401  # decides whether compiled or plain modules run
from queues.arguments import Overflow
from queues.effects import Effect, GetAnswered
from queues.quorum.commands import (
    Attach,
    Batch,
    Command,
    Dispatched,
    Enqueue,
    Get,
    How,
    OpenQueue,
    Purge,
    Settle,
    Tick,
    encode_batch,
    encode_leader_batch,
)
from queues.quorum.lease_commands import AckLease, Claim, OpenLease, ReleaseLease
from tests.queues.queue_world import message_named, name_of
from tests.queues.quorum.digest import digest_of
from tests.queues.quorum.quorum_world import START, Member, settings_of
from tests.queues.quorum.random_log import RandomGroup

FILE = Path(__file__).parent / "recorded" / "logs.json.gz"
SEEDS = range(500, 512)
STEPS = 150
#: More than one command may drop (AT_ONCE of queues/quorum/queue.py), several times.
MANY = 2300


def plain(effects: list[Effect]) -> list[Any]:
    """Effects as JSON knows them: messages by name."""
    found: list[Any] = json.loads(json.dumps([[type(each).__name__, *map(_plain, _agreed(each))] for each in effects]))
    return found


def _agreed(effect: Effect) -> Effect:
    """What members have to agree on of it. What is left where a Get has found nothing is in no log: versions that do
    not ask again say 0."""
    return effect._replace(ready=0) if isinstance(effect, GetAnswered) and effect.message is None else effect


def _plain(field: Any) -> Any:
    if hasattr(field, "body_bytes"):
        return name_of(field)
    if isinstance(field, tuple):
        return [_plain(each) for each in field]
    return str(field) if not isinstance(field, int | str) else field


class Recorder:
    """Members that apply what is recorded. A log of its own: `entry`."""

    def __init__(self, nodes: list[str]) -> None:
        self.members = {name: Member(name) for name in nodes}
        self.log: list[bytes] = []
        self.steps: list[list[Any]] = []

    def session(self, node: str, session: int) -> None:
        self.members[node].machine.begin_session(session)
        self.steps.append(["session", node, session])

    def leads(self, node: str, is_leader: bool) -> None:
        self.members[node].machine.role_changed(is_leader, node if is_leader else None, 1, 0)
        self.steps.append(["leads", node, is_leader])

    def entry(self, data: bytes) -> dict[str, list[Effect]]:
        """Apply an entry everywhere. Returns the effects by node."""
        self.log.append(data)
        found = {name: member.apply(self.log) for name, member in self.members.items()}
        machine = next(iter(self.members.values())).machine
        effects = {name: plain(each) for name, each in found.items()}
        self.steps.append(["entry", data.hex(), effects, machine.next_deadline(), digest_of(machine).hex()])
        return found


def replay(steps: list[list[Any]]) -> list[list[Any]]:
    """The steps again: what they say now."""
    recorder = Recorder(list(next(step[2] for step in steps if step[0] == "entry")))
    for kind, *rest in steps:
        if kind == "entry":
            recorder.entry(bytes.fromhex(rest[0]))
        elif kind == "session":
            recorder.session(*rest)
        else:
            recorder.leads(*rest)
    return recorder.steps


def record_random(seed: int) -> list[list[Any]]:
    """Random traffic; who leads changes."""
    group = RandomGroup(seed)
    recorder = Recorder([node.member.name for node in group.nodes])
    leader = ""
    known: dict[str, int] = {}
    for number in range(STEPS):
        if number % 40 == 5:
            if leader:
                recorder.leads(leader, False)
            leader = group.chance.choice(group.nodes).member.name
            recorder.leads(leader, True)
        sessions = {node.member.name: node.session for node in group.nodes}
        before = len(group.log)
        group.step()
        for name, session in sessions.items():
            if known.get(name) != session:
                known[name] = session
                recorder.session(name, session)
        for data in group.log[before if number else 0 :]:
            recorder.entry(data)
    return recorder.steps


class Script:
    """One node, which also leads, and the commands that it sends; queue 1."""

    def __init__(self, **arguments: Any) -> None:
        self.recorder = Recorder(["n1"])
        self.recorder.session("n1", 7)
        self.recorder.leads("n1", True)
        self.now = START
        self.sequence = 0
        self.names = 0
        self.send(OpenQueue(1, settings_of(**arguments)))

    def send(self, *commands: Command) -> list[Effect]:
        first = self.sequence + 1
        self.sequence += len(commands)
        batch = Batch(self.now, "n1", 7, first, 0, list(commands))
        return self.recorder.entry(encode_batch(batch))["n1"]

    def publish(self, count: int, **options: Any) -> None:
        commands = []
        for _ in range(count):
            self.names += 1
            commands.append(Enqueue((1,), message_named(self.names, **options)))
        self.send(*commands)

    def lead(self, *commands: Any) -> None:
        self.recorder.entry(encode_leader_batch(self.now, list(commands) or [Tick()]))

    def advance(self, milliseconds: int) -> None:
        """Time passes, and what is due happens, so often at most."""
        self.now += milliseconds
        for _ in range(4):
            self.lead()


def record_expiry() -> list[list[Any]]:
    """More expires than one command may drop: behind a dispatch, a get, a claim, and nothing at all."""
    script = Script(dead_letter_exchange="dlx", message_ttl=None)
    for command in (
        Attach(1, 1, 5, False, 0, False, "a"),
        Get(2, 1),
        Claim(1, "g", "0" * 32, "o", 0, 10, 1 << 30, False),
        Tick(),
    ):
        script.publish(MANY, expiration=50)
        script.publish(20)
        script.send(OpenLease(1, "g", "0" * 32, "o"))
        script.now += 60
        if isinstance(command, Tick):
            script.lead()
        else:
            script.send(command)
        script.advance(1)
        script.lead(Dispatched(1, 1500))
        script.send(Purge(1))
    return script.recorder.steps


def record_limits() -> list[list[Any]]:
    """A policy that leaves room for few; what comes back finds a full queue; a delivery limit without dead letters."""
    script = Script(delivery_limit=1)
    script.publish(MANY)
    for consumer, tag in ((1, "a"), (2, "b"), (3, "c")):
        script.send(Attach(consumer, 1, 40, False, consumer % 2, False, tag))
    script.send(Settle(1, How.REQUEUE, ((1, 40),)))
    script.send(Settle(2, How.REQUEUE, ((1, 40),)), Settle(3, How.RETURN, ((1, 20),)))
    for consumer in (1, 2, 3):
        script.send(Settle(consumer, How.REQUEUE, ((1, 1 << 40),)))
    limited: dict[str, Any] = {"delivery_limit": 1, "max_length": 30, "dead_letter_exchange": "dlx"}
    script.send(OpenQueue(1, settings_of(**limited)))
    script.advance(1)
    script.publish(50)
    script.send(Settle(1, How.REJECT, ((1, 1 << 40),)))
    script.send(OpenQueue(1, settings_of(**limited, overflow=Overflow.REJECT_PUBLISH_DLX)))
    script.publish(50)
    script.send(OpenQueue(1, settings_of(max_length_bytes=100, overflow=Overflow.REJECT_PUBLISH)))
    script.publish(50, body_size=7)
    script.send(OpenQueue(1, settings_of(max_length_bytes=60)))
    script.publish(20, body_size=7)
    script.advance(1)
    return script.recorder.steps


def record_turns() -> list[list[Any]]:
    """Consumers take turns; what has expired takes a turn, too."""
    script = Script(max_priority=3)
    for consumer in range(1, 6):
        script.send(Attach(consumer, 1, 3, consumer == 4, consumer // 3, False, f"c{consumer}"))
    for number in range(40):
        script.publish(2, expiration=3 if number % 3 else -1, priority=number % 5)
        script.now += number % 4
        holder = number % 5 + 1
        how = (How.ACK, How.REQUEUE, How.REJECT, How.RETURN)[number % 4]
        script.send(Settle(holder, how, ((1, number + 1),)))
    script.advance(10)
    return script.recorder.steps


def record_delays() -> list[list[Any]]:
    """A queue that holds back, and one whose lease groups put back more than one step may."""
    script = Script(holds_back=True, dead_letter_exchange="dlx")
    for number in range(60):
        script.publish(1, expiration=(number * 37) % 50)
        script.now += number % 2
    for _ in range(10):
        script.advance(7)
    return script.recorder.steps


def record_leases() -> list[list[Any]]:
    """Claims, and a release of more than goes back at a time, past limits and a consumer."""
    script = Script(max_length=5500, dead_letter_exchange="dlx", delivery_limit=0)
    caller = (1, "g", "1" * 32, "o")
    script.send(OpenLease(*caller))
    for _ in range(3):
        script.publish(2000)
        script.send(Claim(*caller, 0, 1 << 30, 1 << 40, True))
    script.send(AckLease(*caller, 100))
    script.publish(30)
    script.send(OpenQueue(1, settings_of(max_length=5500, delivery_limit=3)))
    script.send(ReleaseLease(*caller))
    script.send(Attach(1, 1, 10, False, 0, False, "a"))
    script.advance(1)
    script.send(Settle(1, How.ACK, ((1, 10),)))
    return script.recorder.steps


RECORDS: dict[str, Callable[[], list[list[Any]]]] = {
    "expiry": record_expiry,
    "limits": record_limits,
    "turns": record_turns,
    "delays": record_delays,
    "leases": record_leases,
    **{f"seed {seed}": partial(record_random, seed) for seed in SEEDS},
}


def write() -> None:
    """Record everything."""
    text = json.dumps({name: record() for name, record in RECORDS.items()}, separators=(",", ":"))
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def read() -> dict[str, list[list[Any]]]:
    """The records, by name."""
    found: dict[str, list[list[Any]]] = json.loads(gzip.decompress(FILE.read_bytes()))
    return found


if __name__ == "__main__":
    write()
