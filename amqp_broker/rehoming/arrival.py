"""Arrivals: queues that are being brought to this node, which is to be their home.

    ASK  -> SESSION: yes -> PAGE ... -> written, in slices -> END -> on the disk -> READY
         -> NO                                                     -> the metadata have it here: `create` takes it
                                                                   -> DROP, or the link is lost before READY: gone

Invariants:
1. A queue that is staged is in no virtual host, delivers nothing and gives up nothing.
2. Its id was never used before. Until the metadata give it to a queue, what a crash leaves of it is nobody's, and goes.
3. After READY it stays until the metadata have it here, or the old home says that they never will.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from amqp_broker.protocol.fields import decode_table
from amqp_broker.queue_types.contract.declaration import QueueDeclaration
from amqp_broker.rehoming import frames
from amqp_broker.rehoming.frames import Frame, frame, numbers
from queues.page import AddressBook, Page
from raft.errors import PeerProtocolError

if TYPE_CHECKING:
    from amqp_broker.links.tenants import Send
    from amqp_broker.metadata.entities import QueueRecord
    from amqp_broker.vhosts.broker import Broker
    from queues.classic import ClassicQueue
    from queues.message import Entry
    from queues.timers import Timer

log = logging.getLogger("amqp_broker.cluster")

#: So many messages are written in one slice.
_SLICE: Final = 128
#: So often the old home of a queue that is all here is asked whether it is still to come, milliseconds.
ASK_AGAIN_MS: Final = 2000


class Arrival:
    """One queue. home: where it still lives. entries: that have come and are not written; octets: taken so far, of
    pages. is_whole: END has come; is_ready: READY was said. written_at: up to there the journal has to be on the disk.
    dropped_at: it is not to come, as of this index of the metadata."""

    def __init__(self, move: int, home: str, record: QueueRecord, queue: ClassicQueue) -> None:
        self.move = move
        self.home = home
        self.vhost, self.name, self.old_id = record.vhost, record.name, record.queue_id
        self.queue = queue
        self.entries: deque[tuple[Entry, bool, int]] = deque()
        self.octets = self.count = 0
        self.is_whole = self.is_ready = self.is_working = False
        self.written_at = -1
        self.dropped_at: int | None = None
        self.timer: Timer | None = None


class Arrivals:
    """why_not(): why this node takes no queue, "" if it does."""

    def __init__(self, broker: Broker, send: Send, why_not: Callable[[], str]) -> None:
        self._broker = broker
        self._store, self._background = broker.store, broker.background
        self._clock, self._timers, self._staged = broker.clock, broker.timers, broker.staged
        self._send = send
        self._why_not = why_not
        self._addresses = AddressBook()
        self.by_move: dict[int, Arrival] = {}

    # -- what the old home says ----------------------------------------------------------------------------------------

    def on_ask(self, said: Frame, now: int) -> None:
        """Would this node take a queue? Raises PeerProtocolError."""
        fields = said.json()
        broker = self._broker
        record = broker.metadata.queue(said.text("vhost"), said.text("name"))
        why = self._why_not()
        if not why and (record is None or record.queue_id != fields.get("queue_id") or record.home != said.node):
            why = "the metadata are not so far there: ask again"
        new_id = fields.get("new_queue_id")
        if why or record is None or not isinstance(new_id, int):
            self._send(said.node, frame(frames.NO, said.move, frames.fields(error=why)))
            return
        declaration = QueueDeclaration(
            record.name, record.durable, record.auto_delete, None, decode_table(record.arguments_raw), record.vhost,
            record.type, record.part_of,
        )  # fmt: skip
        queue = broker.types[record.type].stage(declaration, new_id)
        self.by_move[said.move] = Arrival(said.move, said.node, record, queue)
        self._staged[new_id] = queue
        self._send(said.node, frame(frames.SESSION, said.move, numbers(broker.replication.session)))

    def on_page(self, said: Frame, now: int) -> None:
        """Messages. Raises PeerProtocolError."""
        arrival = self._find(said)
        if arrival is None or arrival.is_whole:
            return
        try:
            entries = Page(said.octets, 0, 0, 0, 0).entries(self._addresses)
        except ValueError as error:
            raise PeerProtocolError(f"{said.node}: {error}") from error
        is_placed = said.what == frames.PLACED
        last = len(entries) - 1
        arrival.entries.extend(
            (entry, is_placed, len(said.octets) if place == last else 0) for place, entry in enumerate(entries)
        )
        self._work_on(arrival)

    def on_end(self, said: Frame, now: int) -> None:
        """That was all. Raises PeerProtocolError."""
        arrival = self._find(said)
        if arrival is None or arrival.is_whole:
            return
        if arrival.count + len(arrival.entries) != said.number(0):
            self._drop(arrival, f"{arrival.count + len(arrival.entries)} of {said.number(0)} messages have come")
            return
        arrival.is_whole = True
        arrival.queue.go_on_from(said.number(1))
        self._work_on(arrival)

    def on_drop(self, said: Frame, now: int) -> None:
        """It is not to come. Raises PeerProtocolError."""
        arrival = self._find(said)
        if arrival is not None:
            arrival.dropped_at = said.number()
            self._look(arrival)

    def _find(self, said: Frame) -> Arrival | None:
        arrival = self.by_move.get(said.move)
        return arrival if arrival is not None and arrival.home == said.node else None

    # -- in slices -----------------------------------------------------------------------------------------------------

    def _work_on(self, arrival: Arrival) -> None:
        if not arrival.is_working:
            arrival.is_working = True
            self._background.add(lambda now: self._work(arrival, now))

    def _work(self, arrival: Arrival, now: int) -> bool:
        """A slice: some of what has come is written. Returns whether there is more."""
        before, left = arrival.octets, _SLICE
        while arrival.entries and left and arrival.move in self.by_move:
            left -= 1
            entry, is_placed, octets = arrival.entries.popleft()
            arrival.queue.take_over(entry, is_placed)
            arrival.count += 1
            arrival.octets += octets
        if arrival.move not in self.by_move:
            arrival.entries.clear()
        elif arrival.octets != before:
            self._send(arrival.home, frame(frames.TAKEN, arrival.move, numbers(arrival.octets)))
        arrival.is_working = bool(arrival.entries)
        if arrival.is_whole and not arrival.is_working and arrival.written_at < 0:
            arrival.written_at = self._store.position
            self.synced(self._store.synced_position)
        return arrival.is_working

    def synced(self, position: int) -> None:
        """The journal is on the disk up to there. It need not be called while there is none."""
        for arrival in self.by_move.values():
            is_written = not arrival.is_ready and 0 <= arrival.written_at <= position
            if is_written and self._send(arrival.home, frame(frames.READY, arrival.move)):
                arrival.is_ready = True
                self._ask_later(arrival)

    # -- the end -------------------------------------------------------------------------------------------------------

    def _ask_later(self, arrival: Arrival) -> None:
        at = self._clock.now + ASK_AGAIN_MS
        arrival.timer = self._timers.at(at, lambda now: self._ask_again(arrival))

    def _ask_again(self, arrival: Arrival) -> None:
        arrival.timer = None
        self._look(arrival)
        if arrival.move in self.by_move:
            self._send(arrival.home, frame(frames.STILL, arrival.move, frames.fields()))
            self._ask_later(arrival)

    def _look(self, arrival: Arrival) -> None:
        """Whether it is over."""
        broker = self._broker
        if arrival.queue.queue_id not in self._staged:
            self._forget(arrival)
            return
        record = broker.metadata.queue(arrival.vhost, arrival.name)
        is_gone = record is None or record.queue_id != arrival.old_id
        is_refused = arrival.dropped_at is not None and arrival.dropped_at <= broker.replication.last_applied
        if is_gone or is_refused or (arrival.dropped_at is not None and not arrival.is_ready):
            self._drop(arrival, "")

    def peer_disconnected(self, node: str) -> None:
        """The link to an old home is lost: what is not all here goes."""
        for arrival in list(self.by_move.values()):
            if arrival.home == node and not arrival.is_ready:
                self._drop(arrival, "")

    def _forget(self, arrival: Arrival) -> None:
        self.by_move.pop(arrival.move, None)
        if arrival.timer is not None:
            arrival.timer.cancel()

    def _drop(self, arrival: Arrival, why: str) -> None:
        """What was brought is nobody's."""
        self._forget(arrival)
        queue = arrival.queue
        self._staged.pop(queue.queue_id, None)
        queue.delete()
        self._store.drop_pages(queue.queue_id)
        if why:
            log.warning("queue '%s' in vhost '%s' does not come here: %s", arrival.name, arrival.vhost, why)
            self._send(arrival.home, frame(frames.NO, arrival.move, frames.fields(error=why)))
