"""Acquaintance: one link to another member, and what is said on it before what it says counts (acquaintances.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_broker.links.generation import FIRST
from raft.memory import Point

if TYPE_CHECKING:
    from amqp_broker.links.levels import Levels
    from amqp_broker.protocol.json_values import JsonValue

# What is said: the field "what" of a frame.
GREETING = "greeting"
REMEMBERS = "remembers"
RECORDED = "recorded"
POINT = "point"
FORGOTTEN = "forgotten"
GENERATION = "generation"
WORKER = "worker"


class Acquaintance:
    """A link to another member, admitted or not. point: where that one is, as it has said on this link. generation:
    of the cluster, as it has said. since: what the cluster had applied of the metadata when it was added. folder: of a
    worker, the identity of its node's, hexadecimal."""

    def __init__(self) -> None:
        self.since = 0
        self.folder = ""
        #: What it speaks; None while it has not said so.
        self.levels: Levels | None = None
        self.is_current = False  # of this version: it names its generation
        self.has_promised = False  # it has logs of groups, and so promises that it may forget
        self.greets = False  # this node it, once its own life is on the disk
        self.is_strange = False  # each knows the other under another folder
        self.knows_it = False  # it has known this node before, under this folder
        self.is_removed = False  # by the metadata, after it was added
        self.generation = FIRST
        self.point: Point | None = None
        self.told: Point | None = None
        self.remembers = False
        self.is_on_disk = False  # where it is
        self.has_said_so = False
        self.is_recorded = False  # this node, by that one
        self.is_admitted = False


def show_point(point: Point) -> list[object]:
    """As it is said."""
    return [point.identity.hex(), point.number, point.mark, point.position]


def read_point(shown: list[JsonValue]) -> Point:
    """As it was said. Raises ValueError, TypeError."""
    identity, number, mark, position = shown
    return Point(bytes.fromhex(identity), int(number), int(mark), int(position))
