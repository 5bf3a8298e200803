"""Steered: what a connection does with queues of other workers, as far as it decides where the connection is to be.

It counts what is published to queues that another process writes: the home of a classic one, or who leads the group of
a quorum queue or stream. What is published to classic queues of this worker comes nowhere near it, and costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_broker.flow.client import Client
    from queues.message import Message
    from queues.write_group import WriteGroup

#: So many publishes to queues elsewhere are looked at together.
WINDOW = 32
#: A connection goes where so many tenths of what it says go.
_TENTHS = 9
#: Octets of a basic.publish besides its two short strings: frame (8), class, method (4), reserved (2), bits (1).
_METHOD_BYTES = 15
#: Octets of a frame besides its payload.
_FRAME_BYTES = 8


class Steered:
    """Of one connection. moves: how often it has moved. next_at: it does not before, milliseconds. has_consumed: it has
    asked queues for messages at this worker. move(connection, home): hold it for that; False: it cannot move now."""

    def __init__(self, moves: int, next_at: int, move: Callable[[Client, str], bool]) -> None:
        self.moves = moves
        self.next_at = next_at
        self.has_consumed = False
        self._move = move
        self._count = 0
        self._since = 0  # octets that it had said before these
        self._octets: dict[str, int] = {}

    def put_off(self, until: int) -> None:
        """It does not move before that."""
        self.next_at = until

    def consumes(self) -> None:
        """It asks a queue for messages."""
        self.has_consumed = True

    def record_publish(self, connection: Client, groups: list[WriteGroup], message: Message) -> None:
        """The message that has just come goes to queues of these groups, and maybe to others."""
        places = {place: None for group in groups if (place := group.written_at())}
        if not places:
            return
        if not self._count:
            self._since = connection.said_bytes()
            self._octets.clear()
        self._count += 1
        body = message.body_size + _FRAME_BYTES if message.body is not None else 0
        octets = len(message.raw) + _METHOD_BYTES + len(message.content) + body
        for place in places:
            self._octets[place] = self._octets.get(place, 0) + octets
        if self._count >= WINDOW:
            connection.ask_before_publish()

    def leaves(self, connection: Client) -> bool:
        """It is about to publish. Whether it is held, because most of what it has said goes to one other worker."""
        if self._count < WINDOW:
            return False
        self._count = 0
        said = connection.said_bytes() - self._since
        home = max(self._octets, key=self._octets.__getitem__)
        return 10 * self._octets[home] >= _TENTHS * said and self._move(connection, home)
