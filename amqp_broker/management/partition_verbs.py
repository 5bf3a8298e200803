"""What the verbs about streams do of one that has partitions: the same for each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from amqp_broker.management.refused import FAILED, Refused, precondition
from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.turn.completion import Completion
from amqp_broker.turn.task import Steps
from queues.stream.source import Changed, StreamFigures, StreamSource
from storage.errors import CorruptRecord

if TYPE_CHECKING:
    from queues.queue import Queue

Change = Callable[[StreamSource, Changed], None]
#: Wait until what is to be looked at is in RAM.
ReadFirst = Callable[[StreamSource], Steps]


def figures_of(queue: Queue) -> StreamFigures | None:
    """Raises Refused."""
    source = queue.stream_source()
    assert source is not None  # it is a stream
    try:
        return source.figures()
    except (CorruptRecord, OSError) as error:
        raise unreadable(queue, source, error) from None


def unreadable(queue: Queue, source: StreamSource, error: Exception) -> Refused:
    """What is answered where a page is damaged, which is had from another node if one has it."""
    if source.mend(error):
        return precondition(
            f"queue '{queue.name}': a page of it cannot be read on this node, and is had from another one: try again "
            f"in a moment"
        )
    return Refused(FAILED, f"queue '{queue.name}' cannot be read: {error}")


def stat(queue: Queue, read_first: ReadFirst) -> Steps:
    """stream.stat: its groups with where they are in each partition."""
    rows: list[JsonObject] = []
    found: list[StreamFigures | None] = []
    for part in queue.partitions():
        source = part.stream_source()
        assert source is not None  # it is a stream
        yield from read_first(source)
        figures = figures_of(part)
        found.append(figures)
        rows.append(_row(part.name, figures))
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
    }


def _row(name: str, figures: StreamFigures | None) -> JsonObject:
    if figures is None:
        return {
            "name": name, "messages": 0, "first_offset": 0, "next_offset": 0, "stream_bytes": 0, "leader": "",
            "stream_uncompressed_bytes": 0, "first_time": None, "last_time": None, "compaction": None,
        }  # fmt: skip
    return {
        "name": name,
        "messages": figures.next - figures.first,
        "first_offset": figures.first,
        "next_offset": figures.next,
        "stream_bytes": figures.octets,
        "stream_uncompressed_bytes": figures.unpacked_octets,
        "leader": figures.leader,
        "first_time": figures.first_time or None,
        "last_time": figures.last_time or None,
        "compaction": compaction_of(figures),
    }


def compaction_of(figures: StreamFigures) -> JsonObject | None:
    """Of a stream that is compacted: by what, and how far on the node that is asked."""
    settings, found = figures.settings, figures.compaction
    if found is None:
        return None
    return {"key": settings.key, "tombstone_age_ms": settings.tombstone_age, **found._asdict()}


def _group(name: str, found: Sequence[StreamFigures | None]) -> JsonObject:
    """owner: the node of who is to read a partition; reader: of who does, another one while it changes hands."""
    share = found[0].shares.get(name) if found[0] is not None else None
    rows: list[JsonObject] = []
    for number, figures in enumerate(found):
        group = figures.groups.get(name) if figures is not None else None
        if figures is not None and group is not None:
            owner = share.owners[number] if share is not None and number < len(share.owners) else ""
            lag = max(0, figures.next - group.position)
            row = {"partition": number, "position": group.position, "lag": lag, "owner": owner, "reader": group.reader}
            rows.append(row)
    return {
        "name": name,
        "members": share.members if share is not None else 0,
        "lag": sum([row["lag"] for row in rows]),
        "partitions": rows,
    }


def find(queue: Queue, time: int, read_first: ReadFirst) -> Steps:
    """stream.find"""
    offsets: list[JsonObject] = []
    for part in queue.partitions():
        source = part.stream_source()
        assert source is not None  # it is a stream
        yield from read_first(source)
        try:
            offsets.append({"name": part.name, "offset": source.find(time)})
        except (CorruptRecord, OSError) as error:
            raise unreadable(part, source, error) from None
        yield None
    return {"partitions": offsets}


def change(queue: Queue, key: str, do: Change) -> Steps:
    """The same in each partition, the last first. Returns what came of it under this key. Raises Refused; what was done
    in the others then is done."""
    found: list[JsonObject] = []
    for part in reversed(queue.partitions()):
        source = part.stream_source()
        assert source is not None  # it is a stream
        found.insert(0, {"name": part.name, key: (yield from changed(partial(do, source)))})
    return {"partitions": found}


def forget(queue: Queue, group: str) -> Steps:
    """stream.forget: partition 0, which knows the members, is the last, so that it can be tried again."""
    for part in reversed(queue.partitions()):
        figures, source = figures_of(part), part.stream_source()
        assert source is not None  # it is a stream
        if (figures is not None and group in figures.groups) or part is queue.partitions()[0]:
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
