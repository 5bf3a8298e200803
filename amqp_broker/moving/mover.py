"""Mover: takes messages from a queue, publishes each elsewhere, and acknowledges it when it is safe there.

    basic.get -> not wanted, or without a place -> held -> put back at the end
              -> publish, mandatory -> confirmed          -> basic.ack
                                    -> returned, refused  -> held -> put back at the end

It is a client as any other: what the broker lets its user do it does, and whatever ends it (a crash, a lost connection,
somebody who cancels) puts back what was not acknowledged.

Invariants:
1. Nothing is acknowledged before its copy is confirmed, and was not returned.
2. It takes at most as many messages as were ready when it began, and moves none that it has published itself, also
   where that came back as a dead letter: whatever comes behind the tail, it ends.
3. What it holds in RAM is bounded: of messages that stay it keeps their number, and of those that go a window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from amqp_broker.client.channel import Channel
from amqp_broker.client.connection import Connection
from amqp_broker.client.errors import ChannelClosed, ClientError
from amqp_broker.client.messages import Delivery
from amqp_broker.moving.copies import copied_properties, mark_of
from amqp_broker.moving.destinations import Destination, Place
from amqp_broker.moving.paced import WINDOW, Paced
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.errors import MalformedInput
from amqp_broker.protocol.properties import decode_properties

#: Octets on their way at once, unless one message is larger.
_WINDOW_BYTES = 8 << 20
#: So many messages that stay are held at most: they are unacknowledged meanwhile, and marked as redelivered afterwards.
MOST_HELD = 10_000
#: How long a confirm may take: a leader may have to be elected.
CONFIRM_TIMEOUT_S = 60.0

#: Which deliveries are wanted.
Wanted = Callable[[Delivery], bool]


class CannotMove(Exception):
    """Why nothing more is moved; the text names the way out."""


@dataclass(slots=True)
class Progress:
    """What has been done. ready: messages when it began. moved: published, confirmed and acknowledged; by_place: the
    same by where they went. Of those that stay, why: left_over (not wanted), without_place (nothing says where they
    came from), unroutable (no queue there), refused (a full queue), own (the mover has published them)."""

    ready: int = 0
    taken: int = 0
    moved: int = 0
    left_over: int = 0
    without_place: int = 0
    unroutable: int = 0
    refused: int = 0
    own: int = 0
    is_cancelled: bool = False
    by_place: dict[Place, int] = field(default_factory=dict)

    def told(self) -> str:
        """In one line."""
        stay = {
            "not wanted": self.left_over, "of unknown origin": self.without_place, "unroutable": self.unroutable,
            "refused by a full queue": self.refused, "moved already": self.own,
        }  # fmt: skip
        said = ", ".join(f"{count} {why}" for why, count in stay.items() if count)
        done = f"{self.moved} of {self.ready} messages moved" + (f"; put back: {said}" if said else "")
        return f"{done}; cancelled" if self.is_cancelled else done


@dataclass(frozen=True, slots=True)
class Move:
    """What is to be done. name: of this move, unlike any other's. limit: so many messages at most; rate: so many a
    second."""

    name: str
    queue: str
    destination: Destination
    wanted: Wanted
    limit: int | None = None
    rate: float | None = None

    def begin(
        self, connection: Connection, user: str, clock: Callable[[], float], pause: Callable[[float], object]
    ) -> Mover:
        """Who does it."""
        return Mover(connection, user, self, clock, pause)


class Mover(Paced):
    """See the module's docstring, and Paced."""

    def __init__(
        self,
        connection: Connection,
        user: str,
        move: Move,
        clock: Callable[[], float],
        pause: Callable[[float], object],
    ) -> None:
        super().__init__(connection, user, move.rate, clock, pause)
        self._move = move
        self._held = 0
        self._largest = 0
        self._last_tag = 0
        self._is_empty = False
        self.progress = Progress()

    def run(self, on_progress: Callable[[Progress], None] = lambda progress: None) -> Progress:
        """Raises CannotMove, ClientError; what was moved by then is in `progress`."""
        progress, move = self.progress, self._move
        source, target = self._connection.channel(), self._connection.channel()
        progress.ready = source.call(m.QueueDeclare(queue=move.queue, passive=True)).message_count
        target.confirm_select()
        most = progress.ready if move.limit is None else min(progress.ready, move.limit)
        window = 1
        self._begin()
        with self._putting_back(source):
            while progress.moved < most and progress.taken < progress.ready and not self._is_empty:
                if self.wants_end:
                    progress.is_cancelled = True
                    break
                size = min(window, most - progress.moved, progress.ready - progress.taken)
                self._move_some(source, target, size)
                on_progress(progress)
                if self._held > MOST_HELD:
                    raise CannotMove(
                        f"{self._held} messages in front have to stay, and so many are held back at most: "
                        "move those first, or choose fewer with --limit"
                    )
                window = self._next_window(window)
                self._keep_rate(progress.moved)
        return progress

    def _next_window(self, window: int) -> int:
        """It begins with one message: how large they are is not known before."""
        return self._window(min(2 * window, WINDOW, max(1, _WINDOW_BYTES // max(1, self._largest))))

    # -- one window ----------------------------------------------------------------------------------------------------

    def _move_some(self, source: Channel, target: Channel, most: int) -> None:
        on_the_way: dict[int, tuple[int, Place]] = {}
        published: dict[int, int] = {}
        for delivery in self._get(source, most):
            self._largest = max(self._largest, len(delivery.body))
            place = self._place_of(delivery)
            if place is None:
                self._held += 1
                continue
            self._numbers += 1
            properties = copied_properties(
                delivery.raw_properties, f"{self._move.name}/{self._numbers}", self._user
            )
            confirm = target.publish(place.exchange, place.routing_key, delivery.body, properties, mandatory=True)
            on_the_way[self._numbers] = (delivery.delivery_tag, place)
            published[confirm] = self._numbers
        if on_the_way:
            self._settle(source, target, on_the_way, published)

    def _get(self, source: Channel, most: int) -> list[Delivery]:
        """The next messages. They are asked for all at once: each of them may have to go through a log."""
        found = source.get_many(self._move.queue, most)
        self._is_empty = len(found) < most
        self.progress.taken += len(found)
        if found:
            self._last_tag = found[-1].delivery_tag
        return found

    def _place_of(self, delivery: Delivery) -> Place | None:
        progress = self.progress
        try:
            headers: Mapping[str, object] = decode_properties(delivery.raw_properties).headers or {}
            is_own = mark_of(delivery.raw_properties).startswith(f"{self._move.name}/")
        except MalformedInput:
            progress.without_place += 1
            return None
        if is_own:
            progress.own += 1
            return None
        if not self._move.wanted(delivery):
            progress.left_over += 1
            return None
        place = self._move.destination(headers)
        if place is None:
            progress.without_place += 1
        return place

    def _settle(
        self, source: Channel, target: Channel, on_the_way: dict[int, tuple[int, Place]], published: dict[int, int]
    ) -> None:
        """Wait for the confirms; acknowledge what is safe, and hold the rest."""
        progress = self.progress
        refused = {published[confirm] for confirm in target.wait_for_confirms(CONFIRM_TIMEOUT_S)}
        returned = {_number_of(each.raw_properties) for each in target.take_returned()}
        for number, (tag, place) in on_the_way.items():
            if number in returned:
                progress.unroutable += 1
                self._held += 1
            elif number in refused:
                progress.refused += 1
                self._held += 1
            else:
                source.ack(tag)
                progress.moved += 1
                progress.by_place[place] = progress.by_place.get(place, 0) + 1

    @contextmanager
    def _putting_back(self, source: Channel) -> Iterator[None]:
        """What stays goes back to its place, and the broker has heard all when this ends."""
        try:
            yield
        finally:
            if source.is_open:
                try:
                    if self._held:
                        source.nack(self._last_tag, multiple=True, requeue=True)
                    source.close()
                except ClientError:
                    self._connection.abort()  # which puts it back as well


def _number_of(raw_properties: bytes) -> int:
    return int(mark_of(raw_properties).rpartition("/")[2])


def require_place(connection: Connection, place: Place) -> None:
    """What all messages are to go to has to be there before anything is begun. Raises ClientError."""
    channel = connection.channel()
    if place.exchange:
        channel.call(m.ExchangeDeclare(exchange=place.exchange, passive=True))
    else:
        channel.call(m.QueueDeclare(queue=place.routing_key, passive=True))
    channel.close()


def why_not(error: Exception) -> str:
    """What somebody is told who wanted it moved."""
    if isinstance(error, ChannelClosed) and error.reply_text:
        return error.reply_text
    return str(error)
