"""What the verbs about streams do of one that has partitions: the same for each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from amqp_broker.management.refused import FAILED, Refused
from amqp_broker.management.verbs.stream_look import Seen
from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.turn.completion import Completion
from amqp_broker.turn.task import Steps
from queues.stream.source import Changed, StreamFigures, StreamSource, source_of

if TYPE_CHECKING:
    from queues.queue import Queue

Change = Callable[[StreamSource, Changed], None]
_EXTENT = ("messages", "first_offset", "next_offset", "stream_bytes", "stream_uncompressed_bytes")
#: Steps whose result is what was looked for of a partition, wherever that is.
LookAt = Callable[["Queue"], Steps]


def stat(queue: Queue, figures_of: LookAt) -> Steps:
    """stream.stat: its groups with where they are in each partition. figures_of: its result is Seen."""
    rows: list[JsonObject] = []
    found: list[StreamFigures | None] = []
    for part in queue.partitions():
        seen = yield from figures_of(part)
        found.append(seen.figures)
        rows.append(_row(part.name, seen))
        yield None
    groups = {name: None for figures in found if figures is not None for name in figures.groups}
    return {
        "name": queue.name,
        "vhost": queue.declaration.vhost,
        "consumers": queue.consumer_count(),
        "messages": sum([row["messages"] for row in rows]),
        "stream_bytes": sum([row["stream_bytes"] for row in rows]),
        "stream_uncompressed_bytes": sum([row["stream_uncompressed_bytes"] for row in rows]),
        "partitions": rows,
        "groups": [_group(name, found) for name in groups],
        "holds": [
            {"partition": number, "name": name, **hold._asdict()}
            for number, figures in enumerate(found) if figures is not None
            for name, hold in figures.holds.items()
        ],
    }  # fmt: skip


def _row(name: str, seen: Seen) -> JsonObject:
    figures = seen.figures
    row = {"name": name, "node": seen.node, **extent_of(figures)}
    if figures is None:
        return {**row, "leader": "", "first_time": None, "last_time": None, "producers": 0, "compaction": None}
    return {
        **row, "leader": figures.leader, "producers": figures.producers, "compaction": compaction_of(figures),
    }  # fmt: skip


def extent_of(figures: StreamFigures | None) -> JsonObject:
    """How much there is of a stream, and from when; None: of one that nobody could look at."""
    if figures is None:
        return dict.fromkeys(_EXTENT, 0)
    found = (figures.next - figures.first, figures.first, figures.next, figures.octets, figures.unpacked_octets)
    times = {"first_time": figures.first_time or None, "last_time": figures.last_time or None}
    return {**dict(zip(_EXTENT, found, strict=True)), **times}


def compaction_of(figures: StreamFigures) -> JsonObject | None:
    """Of a stream that is compacted: by what, and how far on the node that has answered."""
    settings, found = figures.settings, figures.compaction
    if found is None:
        return None
    return {"key": settings.key, "tombstone_age_ms": settings.tombstone_age, **found._asdict()}


def lag_of(figures: StreamFigures, position: int) -> int:
    """How many messages somebody at this position has before itself; what retention has taken is none."""
    return max(0, figures.next - max(position, figures.first))


def _group(name: str, found: Sequence[StreamFigures | None]) -> JsonObject:
    """owner: the node of who is to read a partition; reader: of who does, another one while it changes hands."""
    share = found[0].shares.get(name) if found[0] is not None else None
    rows: list[JsonObject] = []
    for number, figures in enumerate(found):
        group = figures.groups.get(name) if figures is not None else None
        if figures is not None and group is not None:
            owner = share.owners[number] if share is not None and number < len(share.owners) else ""
            lag = lag_of(figures, group.position)
            row = {"partition": number, "position": group.position, "lag": lag, "owner": owner, "reader": group.reader}
            rows.append(row)
    return {
        "name": name,
        "members": share.members if share is not None else 0,
        "lag": sum([row["lag"] for row in rows]),
        "partitions": rows,
    }


def find(queue: Queue, offset_of: LookAt) -> Steps:
    """stream.find. offset_of: its result is the offset in a partition."""
    offsets: list[JsonObject] = []
    for part in queue.partitions():
        offsets.append({"name": part.name, "offset": (yield from offset_of(part))})
        yield None
    return {"partitions": offsets}


def change(queue: Queue, key: str, do: Change) -> Steps:
    """The same in each partition, the last first. Returns what came of it under this key. Raises Refused; what was done
    in the others then is done."""
    found: list[JsonObject] = []
    for part in reversed(queue.partitions()):
        source = source_of(part)
        assert source is not None  # it is a stream
        found.insert(0, {"name": part.name, key: (yield from changed(partial(do, source)))})
    return {"partitions": found}


def forget(queue: Queue, group: str, figures_of: LookAt) -> Steps:
    """stream.forget: partition 0, which knows the members, is the last, so that it can be tried again."""
    for part in reversed(queue.partitions()):
        seen, source = (yield from figures_of(part)), source_of(part)
        assert source is not None  # it is a stream
        is_there = seen.figures is not None and group in seen.figures.groups
        if is_there or part is queue.partitions()[0]:
            yield from changed(partial(source.forget, group))
    return {}


def changed(do: Callable[[Changed], None]) -> Steps:
    """Wait for a change. Returns the offset that came of it. Raises Refused."""
    done: Completion[tuple[Exception | None, int]] = Completion()
    do(lambda refusal, offset: done.complete((refusal, offset)))
    refusal, offset = yield done
    if refusal is not None:
        raise Refused(FAILED, str(refusal))
    return offset
