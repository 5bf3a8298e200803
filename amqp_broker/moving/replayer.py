"""Replayer: publishes a range of a stream again, elsewhere; the stream stays as it is.

    stream.offsets -> where the range begins and ends, when it begins
    stream.fetch   -> a blob -> what is wanted -> publish, mandatory -> confirmed -> the next blob

It is a client as any other, and moves nothing: whoever has ended it goes on at `progress.next_offset`. What a crash, or
a confirm that never came, leaves open may be there twice then.

Invariants:
1. All before `progress.next_offset` is confirmed, or not wanted, or no queue takes it.
2. It ends at an offset that it knew when it began, also where it publishes to the stream that it reads.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from amqp_broker.client.channel import Channel
from amqp_broker.client.connection import Connection
from amqp_broker.client.messages import Delivery
from amqp_broker.moving.blobs import deliveries_of
from amqp_broker.moving.copies import copied_properties
from amqp_broker.moving.destinations import Place
from amqp_broker.moving.mover import CONFIRM_TIMEOUT_S, CannotMove, Progress
from amqp_broker.moving.paced import WINDOW, Paced
from amqp_broker.protocol.errors import MalformedInput
from amqp_broker.protocol.message_filter import MessageFilter
from amqp_broker.protocol.properties import decode_properties

_SYSTEM_EXCHANGE = "amq.system"
_BLOB_BYTES = 4 << 20
#: What a broker says to somebody who asks too much at once: again, a little later.
_BUSY = "busy"
_PAUSE_S = 0.1
_MOST_PAUSES = 300
#: What is said of where messages went that have kept their routing keys.
_OWN_KEY = "(its own)"


@dataclass(slots=True)
class ReplayProgress(Progress):
    """next_offset: where somebody else would go on. ready: offsets of the range. is_enough: so many were wanted at most
    as were published; some of the range are left."""

    next_offset: int = 0
    is_enough: bool = False

    def told(self) -> str:
        """In one line."""
        left = {"not wanted": self.left_over, "unroutable": self.unroutable, "with malformed properties":
                self.without_place}  # fmt: skip
        said = ", ".join(f"{count} {why}" for why, count in left.items() if count)
        done = f"{self.moved} of {self.ready} messages published again" + (f"; {said}" if said else "")
        why = "cancelled" if self.is_cancelled else "that is the limit" if self.is_enough else ""
        return f"{done}; {why}, the next one is offset {self.next_offset}" if why else done


@dataclass(frozen=True, slots=True)
class End:
    """Where a range begins or ends: an offset, or a time, milliseconds since the epoch."""

    offset: int | None = None
    time: int | None = None

    def of(self, said: Mapping[str, int]) -> int:
        """As `stream.offsets` has answered."""
        return said["at"] if self.time is not None else self.offset or 0


@dataclass(frozen=True, slots=True)
class Replay:
    """What is to be done. name: of this replay, unlike any other's. routing_key: None for that of each message. first,
    below: the range, None for its end then. values: of x-stream-filter-value. wanted: which of them. limit: so many at
    most; rate: so many a second."""

    name: str
    queue: str
    exchange: str
    routing_key: str | None
    first: End
    below: End | None = None
    values: tuple[str, ...] = ()
    wanted: MessageFilter = field(default_factory=lambda: MessageFilter(""))
    limit: int | None = None
    rate: float | None = None

    def begin(
        self, connection: Connection, user: str, clock: Callable[[], float], pause: Callable[[float], object]
    ) -> Replayer:
        """Who does it."""
        return Replayer(connection, user, self, clock, pause)


class Replayer(Paced):
    """See the module's docstring, and Paced."""

    def __init__(
        self,
        connection: Connection,
        user: str,
        replay: Replay,
        clock: Callable[[], float],
        pause: Callable[[float], object],
    ) -> None:
        super().__init__(connection, user, replay.rate, clock, pause)
        self._replay = replay
        self.progress = ReplayProgress()

    def run(self, on_progress: Callable[[Progress], None] = lambda progress: None) -> Progress:
        """Raises CannotMove, ClientError; what was done by then is in `progress`."""
        progress = self.progress
        source, target = self._connection.channel(), self._connection.channel()
        target.confirm_select()
        first, below = self._range(source)
        progress.next_offset, progress.ready = first, below - first
        size = self._window(WINDOW)
        self._begin()
        while progress.next_offset < below and not self._is_enough():
            if self.wants_end:
                progress.is_cancelled = True
                break
            blob, end = self._fetch(source, progress.next_offset, below)
            for window in _windows(blob, size):
                is_whole = self._publish(target, window)
                on_progress(progress)
                self._keep_rate(progress.moved)
                if self.wants_end or not is_whole or self._is_enough():
                    end = progress.next_offset  # what is left of the blob is had again, if it is wanted yet
                    break
            progress.next_offset = end
            on_progress(progress)
        progress.is_enough = self._is_enough() and progress.next_offset < below
        return progress

    def _is_enough(self) -> bool:
        return self._replay.limit is not None and self.progress.moved >= self._replay.limit

    # -- the stream ----------------------------------------------------------------------------------------------------

    def _range(self, source: Channel) -> tuple[int, int]:
        """Where it begins and ends, as far as the stream has it."""
        replay = self._replay
        said = self._offsets(source, replay.first)
        first = replay.first.of(said)
        if first < said["first"]:
            raise CannotMove(f"stream '{replay.queue}' begins at offset {said['first']}: {first} is gone")
        below = said["next"]
        if replay.below is not None:
            below = min(below, replay.below.of(self._offsets(source, replay.below)))
        return first, max(first, below)

    def _offsets(self, source: Channel, end: End) -> Mapping[str, int]:
        fields = {"stream": self._replay.queue} | ({} if end.time is None else {"time": end.time})
        answer = json.loads(self._ask(source, "stream.offsets", fields).body)
        if parts := answer.get("partitions"):
            raise CannotMove(
                f"stream '{self._replay.queue}' has partitions, each with offsets of its own: replay these, one after "
                f"the other: '{parts[0]}' to '{parts[-1]}'"
            )
        found: Mapping[str, int] = answer
        return found

    def _fetch(self, source: Channel, first: int, below: int) -> tuple[bytes, int]:
        fields: dict[str, object] = {
            "stream": self._replay.queue, "from": first, "to": below, "max_bytes": _BLOB_BYTES,
            "columns": ["body", "properties", "address"],
        }  # fmt: skip
        if self._replay.values:
            fields["filter"] = list(self._replay.values)
        for _ in range(_MOST_PAUSES):
            delivery = self._ask(source, "stream.fetch", fields)
            end = int(dict(delivery.properties.headers or {})["x-end"])
            if end > first:
                return delivery.body, end
            self._pause(_PAUSE_S)  # a node of the version before has not heard of that yet
        raise CannotMove(f"stream '{self._replay.queue}' ends at offset {first} now, before {below}")

    def _ask(self, source: Channel, verb: str, fields: Mapping[str, object]) -> Delivery:
        for _ in range(_MOST_PAUSES):
            delivery = source.request(_SYSTEM_EXCHANGE, verb, json.dumps(fields).encode())
            if delivery.properties.content_type != "application/json":
                return delivery
            answer = json.loads(delivery.body)
            if answer["ok"]:
                return delivery
            if answer["code"] != _BUSY:
                raise CannotMove(answer["error"])
            self._pause(_PAUSE_S)
        raise CannotMove(answer["error"])

    # -- one window ----------------------------------------------------------------------------------------------------

    def _publish(self, target: Channel, window: list[Delivery]) -> bool:
        """Returns whether it was all of them; if not, that is as many as there may be, unless some come back."""
        replay, progress = self._replay, self.progress
        on_the_way, count = 0, len(window)
        for number, delivery in enumerate(window):
            if replay.limit is not None and progress.moved + on_the_way >= replay.limit:
                window = window[:number]
                break
            progress.taken += 1
            place = self._place_of(delivery)
            if place is None:
                continue
            self._numbers += 1
            properties = copied_properties(delivery.raw_properties, f"{replay.name}/{self._numbers}", self._user)
            target.publish(place.exchange, place.routing_key, delivery.body, properties, mandatory=True)
            on_the_way += 1
        refused = target.wait_for_confirms(CONFIRM_TIMEOUT_S) if on_the_way else []
        returned = len(target.take_returned())
        progress.unroutable += returned
        progress.moved += on_the_way - len(refused)
        progress.moved -= returned
        if progress.moved:
            progress.by_place = {Place(replay.exchange, replay.routing_key or _OWN_KEY): progress.moved}
        if refused:
            progress.refused += len(refused)
            raise CannotMove(
                f"a queue that gets them is full and has refused {len(refused)} of them: make room, and go on at "
                f"offset {progress.next_offset}; some behind it may be there twice then"
            )
        if window:
            progress.next_offset = window[-1].delivery_tag + 1
        return len(window) == count

    def _place_of(self, delivery: Delivery) -> Place | None:
        replay, progress = self._replay, self.progress
        try:
            decode_properties(delivery.raw_properties)
        except MalformedInput:
            progress.without_place += 1
            return None
        if not replay.wanted.takes(
            delivery.exchange, delivery.routing_key, delivery.raw_properties, delivery.body
        ):
            progress.left_over += 1
            return None
        key = delivery.routing_key if replay.routing_key is None else replay.routing_key
        return Place(replay.exchange, key)


def _windows(blob: bytes, size: int) -> Iterator[list[Delivery]]:
    """The messages of a blob, so many at a time."""
    window: list[Delivery] = []
    for delivery in deliveries_of(blob):
        window.append(delivery)
        if len(window) == size:
            yield window
            window = []
    if window:
        yield window
