"""TurnShare: how much a turn does for connections that ask for much before everybody else has a turn.

What goes to very many queues is a few octets to read and much to do: one read of a publisher may hold millions of
copies; and one read of anybody holds thousands of requests. So a connection that has used up the turn's share is
parked, as one that waits for an answer is: nothing more is read from it, and what is there is handled when the others
were looked at. Those that are parked take turns.

What they have delivered to others is held back meanwhile, for `max_delivery_delay`: a turn of that size has a few
copies for each of a hundred consumers, and to write to a socket costs as much as to make many. Whatever else is said to
one of these takes it along.

The measure is time, which the driver has (Pace), and the copy of a message; everything else counts as the copies that
take about as long.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from amqp_broker.flow.reason import Reason
from amqp_broker.protocol import constants as c
from queues.background import Pace, Unhurried

if TYPE_CHECKING:
    from amqp_broker.flow.client import Client
    from amqp_broker.flow.clients import Clients
    from amqp_broker.flow.pauses import Pauses

#: Messages for fewer queues than this are not counted: they cost what others cost.
WIDE = 16
#: A message that has to be looked at, and a request, which is decoded, counts as so many copies.
LONG_WAY = REQUEST = 16
#: One that changes queues, exchanges and bindings.
_CHANGE = 100
_CHANGING = (c.CLASS_QUEUE, c.CLASS_EXCHANGE)
#: So many of those that rest go on in one turn, however little they have to be done.
_RESUMED = 512
_SHARE = int(Reason.SHARE)


class TurnShare:
    """copies: what this turn has done so far; `work` begins another. most: of a turn. held_ms: what those that are
    parked have delivered is held back for so long at most. resting: who is parked, always this object."""

    def __init__(self, pauses: Pauses, clients: Clients, most: int, held_ms: int) -> None:
        self.copies = 0
        self._pauses = pauses
        self._clients = clients
        self._held_ms = held_ms
        self._held_since = 0
        self._most = most
        self._pace: Pace = Unhurried()
        self.resting: deque[Client] = deque()

    def set_pace(self, pace: Pace) -> None:
        """From now on a turn's share lasts as long as this one says."""
        self._pace = pace

    def work(self, now: int) -> None:
        """The inputs of this turn have had their share: nothing was done of the next."""
        self.copies = 0

    def record_request(self, connection: Client, index: int) -> None:
        """A request of a connection was handled, or a channel of it was opened. index: its method's."""
        self.note(connection, _CHANGE if index >> 16 in _CHANGING else REQUEST)

    def note(self, connection: Client, copies: int) -> None:
        """A message of a connection went to so many queues, or something else that counts as much."""
        if not self.copies:
            self._pace.start()
        self.copies += copies
        if not self._is_used_up() or connection.is_parked:
            return
        self._pauses.pause(connection, _SHARE)
        self.resting.append(connection)

    def _is_used_up(self) -> bool:
        return self.copies >= self._most or (self.copies > 0 and not self._pace.goes_on())

    def tick(self, now: int) -> None:
        """Due at once, if somebody rests: they have a share of their own, in order; who is parked again stands last."""
        self.copies = 0
        clients = self._clients
        if not clients.held:
            self._held_since = now
        clients.hold_back(self._held_ms > 0)
        try:
            for _ in range(min(_RESUMED, len(self.resting))):
                self._pauses.resume(self.resting.popleft(), _SHARE, now)
                if self._is_used_up():
                    break
        finally:
            clients.hold_back(False)

    def end_turn(self, now: int) -> None:
        """What was held back leaves as soon as nobody rests, or when it has waited long enough."""
        if not self.resting or not self._held_since <= now < self._held_since + self._held_ms:
            self._clients.release()
