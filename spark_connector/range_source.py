"""RangeSource: one queue that is a stream, as the driver sees it; and ranges of it, which tasks read (docs/leases.md).

Nothing is taken and nobody owns anything: a range may be read again by anybody, as long as the stream keeps it.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from spark_connector.decode import Decoder
from spark_connector.errors import ConnectorError, DataLoss, Refused
from spark_connector.fetch import fetch_range
from spark_connector.offsets import Position, split
from spark_connector.options import Options
from spark_connector.service import Service, explained

log = logging.getLogger("spark_connector")

#: So many places to cut at are asked for, about: tasks get runs of them.
_PIECES: Final = 4096
#: What a broker answers for a queue that is no stream, or where it knows no streams.
_NO_STREAM: Final = frozenset({"invalid", "bad_request", "not_authorised"})


class StreamRange(InputPartition):
    """[start, end) of one stream: what a task reads. partition: its number, where it is one of several; else 0."""

    def __init__(self, queue: str, incarnation: str, start: int, end: int, partition: int = 0) -> None:
        self.queue = queue
        self.partition = partition
        self.incarnation = incarnation
        self.start = start
        self.end = end


@dataclass(frozen=True)
class Bounds:
    """A stream has the offsets [first, next), so many octets. incarnation: of a stream that was made anew another one.
    at: where a time begins, if one was named."""

    incarnation: str
    first: int
    next: int
    octets: int
    at: int


def is_stream(service: Service, queue: str) -> bool:
    """Whether a queue has offsets. Raises ConnectorError where it is not there, or may not be read."""
    try:
        service.ask("stream.offsets", {"stream": queue})
    except Refused as error:
        if error.code not in _NO_STREAM:
            raise explained(error, queue, None) from error
        return False
    return True


class Streams:
    """The streams that some queues are, each with its number: one with partitions is these, and may get more."""

    def __init__(self, queues: tuple[str, ...]) -> None:
        self._partitions: dict[str, list[str] | None] = {queue: [] for queue in queues}

    def look(self, service: Service) -> dict[str, int]:
        """Those that there are now. Raises ConnectorError."""
        found: dict[str, int] = {}
        for queue, known in self._partitions.items():
            if known is not None:  # who has none never gets any
                try:
                    said = service.ask("stream.offsets", {"stream": queue}).fields
                except Refused as error:
                    raise explained(error, queue, None) from error
                self._partitions[queue] = known = said.get("partitions")
            found |= {name: number for number, name in enumerate(known or [queue])}
        return found


class RangeSource:
    """service: whom it asks. partition: the stream's number, where it is one of several. Raises ConnectorError with the
    way out."""

    def __init__(self, options: Options, service: Service, queue: str, partition: int = 0) -> None:
        self.queue = queue
        self.partition = partition
        self._options = options
        self._service = service

    def bounds(self, time: int | None = None) -> Bounds:
        """What it has now: all that was confirmed before this was asked. time: milliseconds since the epoch."""
        said = self._ask("stream.offsets", {} if time is None else {"time": time})
        return Bounds(said["incarnation"], said["first"], said["next"], said["bytes"], said.get("at", 0))

    def reach(self, at: Position, messages: int, octets: int, to: int | None) -> tuple[Position, Bounds]:
        """The end of a batch from `at` on, of so many messages and about so many octets, not beyond `to`. Raises
        DataLoss where the stream has not what is at `at`; if that may be, the batch begins where it can."""
        fields: dict[str, object] = {"from": at.offset, "max_messages": messages, "max_bytes": octets}
        if to is not None:
            fields["to"] = max(to, at.offset)
        said = self._ask("stream.offsets", fields)
        found = Bounds(said["incarnation"], said["first"], said["next"], said["bytes"], 0)
        start = self.checked(at, found)
        return Position(start.incarnation, max(said["end"], start.offset)), found

    def checked(self, at: Position, found: Bounds) -> Position:
        """Where a query goes on: there, or, if that is lost and may be, where it can."""
        if at.incarnation == found.incarnation and found.first <= at.offset <= found.next:
            return at
        if at.incarnation != found.incarnation:
            what = f"the checkpoint is of a stream of this name that was deleted: this one has {found.first} to "
        elif at.offset < found.first:
            what = f"offsets {at.offset} to {found.first} are gone, retention has taken them: it has {found.first} to "
        else:
            what = f"the checkpoint goes on at offset {at.offset}, but it has {found.first} to "
        lost(self._options, self.queue, f"{what}{found.next}")
        begins_anew = at.incarnation != found.incarnation
        return Position(found.incarnation, found.first if begins_anew or at.offset < found.first else found.next)

    def parts(self, at: Position, end: int, found: Bounds) -> list[StreamRange]:
        """The range in parts for tasks, of about as many octets each; small ones are not worth a task."""
        count = end - at.offset
        if count <= 0:
            return []
        most, most_messages = self._options.num_partitions, self._options.max_per_partition
        octets = found.octets * count // max(found.next - found.first, 1)
        said = self._ask(
            "stream.offsets", {"from": at.offset, "to": end, "cut_bytes": max(octets // _PIECES, 1)}
        )
        parts = _runs(at.offset, end, said["cuts"], len(split(at.offset, end, most, 1 << 62)))
        if most > 1:
            parts = [each for low, high in parts for each in _evenly(low, high, -(-(high - low) // most_messages))]
        return [StreamRange(self.queue, at.incarnation, low, high, self.partition) for low, high in parts]

    def hold(self, name: str, offset: int, seconds: float) -> None:
        """Keep what is from there on."""
        self._ask("stream.hold", {"name": name, "offset": offset, "for_ms": int(seconds * 1000)})

    def _ask(self, verb: str, fields: Mapping[str, object]) -> Mapping[str, Any]:
        try:
            return self._service.ask(verb, {"stream": self.queue, **fields}).fields
        except Refused as error:
            raise explained(error, self.queue, None) from error


def _runs(start: int, end: int, cuts: list[int], count: int) -> list[tuple[int, int]]:
    """[start, end) in `count` parts with as many pieces between the cuts each; where there are too few, by messages."""
    ends = [cut for cut in cuts if start < cut < end]
    if len(ends) + 1 < 2 * count:
        return _evenly(start, end, count)
    places = [start, *[ends[len(ends) * part // count] for part in range(1, count)], end]
    return list(itertools.pairwise(places))


def _evenly(start: int, end: int, count: int) -> list[tuple[int, int]]:
    """[start, end) in `count` parts with as many messages each."""
    places = [start + (end - start) * part // count for part in range(count + 1)]
    return list(itertools.pairwise(places))


def lost(options: Options, queue: str, what: str) -> None:
    """Messages are not there any more. Raises DataLoss, unless that may be."""
    text = f"queue '{queue}': {what}"
    if options.fail_on_data_loss:
        raise DataLoss(
            f"{text}; set failOnDataLoss=false to go on with what there is, or start with a new checkpointLocation. To "
            "keep what a query has not read, raise the stream's limits, and leave option 'hold' on"
        )
    log.warning("%s; going on with what there is (failOnDataLoss=false)", text)


def read_range(options: Options, decoder: Decoder, part: StreamRange) -> Iterator[pa.RecordBatch]:
    """The rows of a range, whatever happens to the connection meanwhile. Raises DataLoss, ConnectorError."""
    fields: dict[str, object] = {"stream": part.queue, "incarnation": part.incarnation}
    if options.filter_values is not None:
        fields |= {"filter": list(options.filter_values), "match_unfiltered": options.match_unfiltered}
    at, decoder = part.start, decoder.of_partition(part.partition)
    while at < part.end:
        try:
            yield from fetch_range(
                options, decoder, part.queue, part.incarnation, "stream.fetch", fields, at, part.end
            )
            return
        except Refused as error:
            if error.code != "gone":
                raise explained(error, part.queue, None) from error
            at = _behind_the_gap(options, part, at, error)


def _behind_the_gap(options: Options, part: StreamRange, at: int, error: ConnectorError) -> int:
    """Where a task goes on whose range is not there any more. Raises DataLoss."""
    lost(options, part.queue, f"of the range {part.start} to {part.end} something is gone: {error}")
    service = Service(options)
    try:
        found = RangeSource(options, service, part.queue).bounds()
    finally:
        service.close()
    if found.incarnation != part.incarnation:
        return part.end
    return min(max(found.first, at + 1), part.end)
