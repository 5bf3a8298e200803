"""TurnShare: how much a turn does for connections that ask for much before everybody else has a turn.

What goes to very many queues is a few octets to read and much to do: one read of a publisher may hold millions of
copies; and one read of anybody holds thousands of requests. So a connection that has used up the turn's share is
parked, as one that waits for an answer is: nothing more is read from it, and what is there is handled a little later.
Those that are parked take turns.

The measure is the copy of a message; everything else counts as the copies that take as long.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from amqp_broker.flow.reason import Reason
from amqp_broker.protocol import constants as c

if TYPE_CHECKING:
    from amqp_broker.flow.client import Client
    from amqp_broker.flow.pauses import Pauses
    from amqp_broker.turn.clock import TurnClock
    from queues.timers import Timers

#: Messages for fewer queues than this are not counted: they cost what others cost.
WIDE = 16
#: A message that has to be looked at, and a request, which is decoded, counts as so many copies.
LONG_WAY = REQUEST = 16
#: One that changes queues, exchanges and bindings.
_CHANGE = 100
_CHANGING = (c.CLASS_QUEUE, c.CLASS_EXCHANGE)
#: A parked connection goes on after so long, milliseconds.
_REST_MS = 1


class TurnShare:
    """copies: what this turn has done so far; the node asks for `begin_turn`. most: of a turn."""

    def __init__(self, pauses: Pauses, timers: Timers, clock: TurnClock, most: int) -> None:
        self.copies = 0
        self._pauses = pauses
        self._timers = timers
        self._clock = clock
        self._most = most
        self._resting: deque[Client] = deque()
        self._has_timer = False

    def begin_turn(self) -> None:
        """Nothing was done in it."""
        self.copies = 0

    def note_request(self, connection: Client, index: int) -> None:
        """A request of a connection was handled. index: its method's."""
        self.note(connection, _CHANGE if index >> 16 in _CHANGING else REQUEST)

    def note(self, connection: Client, copies: int) -> None:
        """A message of a connection went to so many queues, or something else that counts as much."""
        self.copies += copies
        if self.copies < self._most or connection.is_parked:
            return
        self._pauses.pause(connection, Reason.SHARE)
        self._resting.append(connection)
        self._rest()

    def _rest(self) -> None:
        if not self._has_timer:
            self._has_timer = True
            self._timers.at(self._clock.now + _REST_MS, self._go_on)

    def _go_on(self, now: int) -> None:
        """Those that rest go on in order, as long as there is something left; who is parked again stands last."""
        self._has_timer = False
        for _ in range(len(self._resting)):
            if self.copies >= self._most:
                break
            connection = self._resting.popleft()
            self._pauses.resume(connection, Reason.SHARE, now)
        if self._resting:
            self._rest()
