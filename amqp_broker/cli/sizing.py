"""How many processes, nodes, networks and disks a load takes: arithmetic over what was measured.

A message costs `message + octet * size + read / batch` microseconds of processor time (Cost), where a batch is what one
read of a socket brings: a message that comes alone pays the whole read. A process carries what it can do in the share
of its time that it may be busy. This is a model of one machine, from `benchmarks/sizing.py`, which measures and writes
sizing.json beside this file: points, the costs that fit the smallest and the largest batch of each, the machine. The
points in between are held against it by tests/cli/test_size_command.py. Rates that were never run are said to be such.

It knows no sockets and no broker.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

MEASURED: Final = Path(__file__).with_name("sizing.json")
#: Octets of frames around a body, with short names, as a publish and as a delivery.
PUBLISH_FRAMES_BYTES: Final = 67
DELIVERY_FRAMES_BYTES: Final = 77
#: What a connection with a channel takes of the broker's memory, without what it has unsent.
CONNECTION_BYTES: Final = 11 * 1024
#: What a process takes of memory before anybody uses it.
PROCESS_BYTES: Final = 62 * 1024 * 1024
#: What is kept in memory of a message that waits there, besides its octets.
MESSAGE_BYTES: Final = 160


@dataclass(frozen=True)
class Cost:
    """Of a message, microseconds of processor time of all nodes that have to do with it: fixed, an octet of its body,
    and a read, which the messages of a batch share."""

    message: float
    octet: float
    read: float

    def of(self, size: int, batch: float) -> float:
        """size: octets of the body. batch: messages that a read brings."""
        return self.message + self.octet * size + self.read / batch


@dataclass(frozen=True)
class Written:
    """Octets that the disks of all nodes take for a durable message: fixed, and for each octet of its body."""

    message: float
    octet: float

    def of(self, size: int) -> float:
        return self.message + self.octet * size


@dataclass(frozen=True)
class Measured:
    """costs: by kind (transient, durable, quorum) and by who is not at the queue's process: nobody (home), the
    producers, the consumer. written: by kind. points: as measured. replicas: those of a quorum queue then."""

    machine: str
    costs: Mapping[str, Mapping[str, Cost]]
    written: Mapping[str, Written]
    points: tuple[Mapping[str, object], ...]
    replicas: int


@cache
def measured() -> Measured:
    """What sizing.json has."""
    found = json.loads(MEASURED.read_text(encoding="utf-8"))
    return Measured(
        machine=found["machine"],
        costs={
            kind: {place: Cost(**cost) for place, cost in places.items()} for kind, places in found["costs"].items()
        },
        written={kind: Written(**octets) for kind, octets in found["written"].items()},
        points=tuple(found["points"]),
        replicas=found["replicas"],
    )


@dataclass(frozen=True)
class Load:
    """What is asked for. producers: connections, of `rate` messages a second each, of `size` octets. replicas: 1 for a
    classic queue. batch: messages that a read brings. hops: the share of messages whose producer, and whose consumer,
    is at another process than their queue. busy: the share of its time that a process may work. consumers:
    connections."""

    producers: int
    rate: float
    size: int
    is_durable: bool
    replicas: int
    batch: float
    hops: float
    busy: float
    consumers: int

    @property
    def messages(self) -> float:
        """All of a second."""
        return self.producers * self.rate

    @property
    def is_replicated(self) -> bool:
        """Whether it goes through quorum queues."""
        return self.replicas > 1

    @property
    def kind(self) -> str:
        """As in Measured."""
        if self.is_replicated:
            return "quorum"
        return "durable" if self.is_durable else "transient"


@dataclass(frozen=True)
class Size:
    """What a load takes. cost_us: processor time a message, of all processes. in_bits, out_bits, between_bits,
    disk_octets: a second, of all nodes together; between_bits are those from process to process. memory_octets: without
    messages that wait. waiting_octets: of the messages of a second, if they wait."""

    cost_us: float
    processes: int
    nodes: int
    in_bits: float
    out_bits: float
    between_bits: float
    disk_octets: float
    memory_octets: int
    waiting_octets: int


def cost_us(load: Load, source: Measured | None = None) -> float:
    """Processor time a message. More replicas than were measured cost as many times the whole."""
    known = source or measured()
    places = known.costs[load.kind]
    home = places["home"].of(load.size, load.batch)
    away = sum(places[place].of(load.size, load.batch) - home for place in ("producers", "consumer") if place in places)
    copies = load.replicas / known.replicas if load.is_replicated else 1.0
    return (home + load.hops * max(0.0, away)) * copies


def size_of(load: Load, source: Measured | None = None) -> Size:
    """What the load takes. A node of quorum queues is one process; one of classic queues is all of its workers."""
    known = source or measured()
    cost = cost_us(load, known)
    processes = max(load.replicas, math.ceil(load.messages * cost / 1e6 / load.busy))
    messages = load.messages
    copies = messages * load.size * 8
    written = known.written[load.kind].of(load.size) if load.kind in known.written else 0.0
    if load.is_replicated:
        written *= load.replicas / known.replicas
    return Size(
        cost_us=cost,
        processes=processes,
        nodes=processes if load.replicas > 1 else 1,
        in_bits=messages * (load.size + PUBLISH_FRAMES_BYTES) * 8,
        out_bits=messages * (load.size + DELIVERY_FRAMES_BYTES) * 8,
        between_bits=(load.replicas - 1 + 2 * load.hops) * copies,
        disk_octets=messages * written,
        memory_octets=processes * PROCESS_BYTES + (load.producers + load.consumers) * CONNECTION_BYTES,
        waiting_octets=math.ceil(messages) * (load.size + MESSAGE_BYTES) * load.replicas,
    )
