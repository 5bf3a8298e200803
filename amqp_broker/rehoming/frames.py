"""What nodes say to each other while the home of a queue changes (frame kind QUEUE_MOVE).

A payload is u8 version (1), u8 what, u64 the number of the move, and: u64 numbers (SESSION, READY, TAKEN, DROP, END two
of them), octets of a page (PAGE, PLACED), JSON (the rest).

    WISH    asked -> old home    {"vhost", "name", "home"}           have this queue live there
    SAID    old home -> asked    {"error", "is_over", "messages", "octets"}   how far it is
    ASK     old -> new home      {"vhost", "name", "queue_id", "new_queue_id"}   would you take it?
    SESSION new -> old home      yes, in this session of its stream of metadata commands
    NO      new -> old home      {"error"}
    HOLD    old home -> all      {"vhost", "name", "queue_id"}       nobody uses it for a moment
    HELD    all -> old home      {}                                  and all that was said before is done
    FREE    old home -> all      {}                                  it stays
    PAGE    old -> new home      messages, behind those before       PLACED: where their numbers say
    TAKEN   new -> old home      octets so far
    END     old -> new home      how many there were, the number of the next one that is published
    READY   new -> old home      all of it is on the disk
    STILL   new -> old home      {}                                  is this move going on?
    DROP    old -> new home      no, as of this index of the metadata
"""

from __future__ import annotations

import json
from typing import Final

from amqp_broker.protocol.json_values import JsonObject
from raft.errors import PeerProtocolError

_VERSION: Final = 1
_NUMBER: Final = 8
_HEAD: Final = 2 + _NUMBER
(
    WISH, SAID, ASK, SESSION, NO, HOLD, HELD, FREE, PAGE, PLACED, TAKEN, END, READY, STILL, DROP,
) = range(1, 16)  # fmt: skip


def frame(what: int, move: int, rest: bytes = b"") -> bytes:
    """A payload."""
    return bytes([_VERSION, what]) + move.to_bytes(_NUMBER, "big") + rest


def numbers(*values: int) -> bytes:
    """As a frame has them."""
    return b"".join(value.to_bytes(_NUMBER, "big") for value in values)


def fields(**values: object) -> bytes:
    """As a frame has them."""
    return json.dumps(values, separators=(",", ":")).encode("ascii")


class Frame:
    """One payload. Raises PeerProtocolError where it is none. what: 0 for one of a version that is not known."""

    def __init__(self, node: str, payload: bytes) -> None:
        if len(payload) < _HEAD:
            raise PeerProtocolError(f"{node} sends {len(payload)} octets about the move of a queue")
        self.node = node
        self.what = payload[1] if payload[0] == _VERSION else 0
        self.move = int.from_bytes(payload[2:_HEAD], "big")
        self.octets = payload[_HEAD:]

    def number(self, place: int = 0) -> int:
        """One of its numbers. Raises PeerProtocolError."""
        octets = self.octets[_NUMBER * place : _NUMBER * (place + 1)]
        if len(octets) != _NUMBER:
            raise self._malformed()
        return int.from_bytes(octets, "big")

    def json(self) -> JsonObject:
        """Its fields. Raises PeerProtocolError."""
        try:
            found: object = json.loads(self.octets)
        except ValueError as error:
            raise self._malformed() from error
        if not isinstance(found, dict):
            raise self._malformed()
        return found

    def text(self, name: str) -> str:
        """A field. Raises PeerProtocolError."""
        found = self.json().get(name)
        if not isinstance(found, str):
            raise self._malformed()
        return found

    def count(self, name: str) -> int:
        """A field that is a number. Raises PeerProtocolError."""
        found = self.json().get(name)
        if not isinstance(found, int):
            raise self._malformed()
        return found

    def _malformed(self) -> PeerProtocolError:
        return PeerProtocolError(f"{self.node} says something malformed ({self.what}) about the move of a queue")
