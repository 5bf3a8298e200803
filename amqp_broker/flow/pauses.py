"""Pauses: the one place that pauses connections, for reasons of which several may hold at once, and resumes them.

A connection whose frames are not handled, or that does not read what it is sent, is not read from either. Publishers
wait while the node's disk, a queue group or a home to which they have published is behind, or while an alarm is on at
either: the gate is shut. A connection is served until its next basic.publish, and paused in front of that until the
gate opens: what it acknowledges meanwhile makes room.

Invariants:
1. After `choose`, `is_paused` of each connection says whether it is paused for anything, and the driver has been told.
2. A turn looks at those only whose state has changed or that wait at the gate, however many others there are.
3. `held` has exactly the connections that are paused in front of a publish, in the order in which they came.
4. `resume` alone lets a connection go on with the frames that wait, and only when nothing else keeps it from that.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

from amqp_broker.flow.reason import HANDLING, Reason
from amqp_broker.flow.state import CLOSED, CLOSING

if TYPE_CHECKING:
    from amqp_broker.flow.client import Client
    from queues.background import Background


# As integers of this module, which a compiled one compares in C.
_OUTPUT = int(Reason.OUTPUT)
_GATE = int(Reason.GATE)
_REPLIES = int(Reason.OUTPUT | Reason.REPLIES)
_HANDLING = HANDLING
_CLOSING = CLOSING
_CLOSED = CLOSED
#: So many publishers are told of an alarm in one slice.
_TOLD = 32


class Pauses:
    """is_shut: some publishers have to wait. changed: connections that were paused or resumed in this turn. reading:
    those of whom the driver has to hear. is_alarmed: publishers were told of an alarm that is on. publishers: all that
    have published since they were opened. notify: tells a publisher of alarms that concern it, or that are over."""

    def __init__(self, background: Background, notify: Callable[[Client], None]) -> None:
        self.is_shut = False
        self.changed: list[Client] = []
        self.reading: list[Client] = []
        self.publishers: dict[Client, None] = {}
        self.notify = notify
        self._background = background
        self.held: dict[Client, None] = {}
        self._all_wait = False
        self._home_backlog: int | None = None
        self.is_alarmed = False
        self._told: list[str] = []
        self._untold: dict[Client, None] = {}
        self._is_letting_in = False

    # -- reasons ---------------------------------------------------------------------------------------------------

    def pause(self, client: Client, reason: int) -> None:
        """Until it is resumed for this reason, and for every other one."""
        client.paused_for |= reason
        self.changed.append(client)

    def resume(self, client: Client, reason: int, now: int, answer: Callable[[], None] | None = None) -> None:
        """The reason is gone. What is to be said first says `answer`, which may pause the connection again; then it
        goes on with the frames that wait, unless something else keeps it from that."""
        client.paused_for &= ~reason
        self.changed.append(client)
        if answer is not None:
            answer()
        if reason & _HANDLING and not client.paused_for & _HANDLING and client.state != _CLOSED:
            client.receive_data(b"", now)

    def pause_output(self, client: Client) -> None:
        """Its unsent output is too long, because the client does not read its replies: read nothing more from it until
        `relieve`. At its end it is read all the same."""
        if client.state < _CLOSING:
            self.pause(client, _OUTPUT)

    def pause_replies(self, client: Client) -> None:
        """What this turn has to say to it is too long: handle no more of its frames either until `relieve`."""
        if client.state < _CLOSING:
            self.pause(client, _REPLIES)
            client.starve()

    def resume_output(self, client: Client, now: int) -> None:
        """It has read what it was sent."""
        if client.paused_for & _REPLIES:
            self.resume(client, client.paused_for & _REPLIES, now)

    def forget(self, client: Client) -> None:
        """It is at its end: nothing keeps it from being read, and it never publishes again."""
        client.paused_for = 0
        client.has_published = False
        self.held.pop(client, None)
        self.publishers.pop(client, None)
        if client.is_paused:
            self.changed.append(client)

    # -- the gate --------------------------------------------------------------------------------------------------

    def holds_back(self, client: Client) -> bool:
        """It is about to publish: for the first time, or where it may leave for another worker, or while the gate is
        shut. Returns whether it has to wait."""
        if not client.has_published:
            client.has_published = True
            self.publishers[client] = None
            self.notify(client)
            if client.steered is not None and client.steered.leaves(client):
                return True
        if not self._has_to_wait(client):
            return False
        self.held[client] = None
        self.pause(client, _GATE)
        return True

    def _has_to_wait(self, client: Client) -> bool:
        backlog = self._home_backlog
        return self._all_wait or (backlog is not None and any(link.is_behind(backlog) for link in client.homes))

    def set_gate(self, all_wait: bool, home_backlog: int | None) -> None:
        """At the end of a turn. all_wait: every publisher has to. home_backlog: so many octets may be on their way to
        a home (Home.is_behind), None: no home is behind."""
        self._all_wait = all_wait
        self._home_backlog = home_backlog
        self.is_shut = all_wait or home_backlog is not None
        if all_wait or self._is_letting_in or all(map(self._has_to_wait, self.held)):
            return
        self._is_letting_in = True
        self._background.add(self._let_in)

    def _let_in(self, now: int) -> bool:
        """A background job: one that has waited goes on with its publish. Returns whether there are more."""
        client = next((each for each in self.held if not self._has_to_wait(each)), None)
        if client is not None:
            del self.held[client]
            self.resume(client, _GATE, now)
            self._is_letting_in = bool(self.held)
        else:
            self._is_letting_in = False
        return self._is_letting_in

    def tell(self, blocking: list[str]) -> None:
        """blocking: what has an alarm, this node or others, by name. Publishers are told what has changed, the first of
        them now, very many in slices. `notify` says what is true when it is called, and nothing twice."""
        if blocking != self._told:
            self._told = blocking
            self.is_alarmed = bool(blocking)
            is_telling = bool(self._untold)
            self._untold = dict(self.publishers)
            if self._tell_some(0) and not is_telling:
                self._background.add(self._tell_some)

    def _tell_some(self, now: int) -> bool:
        """A slice of `tell`. Returns whether there are more."""
        untold = self._untold
        for client in list(islice(untold, _TOLD)):
            del untold[client]
            if client in self.publishers:
                self.notify(client)
        return bool(untold)

    # -- the driver ------------------------------------------------------------------------------------------------

    def choose(self) -> None:
        """Note of those that have changed whom the driver is to read, or is not to."""
        changed, self.changed = self.changed, []
        for client in changed:
            is_paused = client.paused_for != 0
            if is_paused != client.is_paused:
                client.is_paused = is_paused
                self.reading.append(client)

    def take_reading(self) -> list[Client]:
        """Those whose `is_paused` has changed."""
        reading, self.reading = self.reading, []
        return reading
