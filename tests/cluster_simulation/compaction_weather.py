"""CompactionWeather: a run with streams that each node compacts for itself, and one of which it compresses, too.

Again and again the copies of all nodes are compared, record by record, with what was published:

    C1  what is at an offset is what was published there
    C2  the newest message of each key is there, and every message without a key
    C3  where a tombstone is gone, no node serves what it has hidden
"""

from __future__ import annotations

from typing import Any

from queues.stream.stream import Stream
from storage.errors import CorruptRecord
from tests.cluster_simulation.cluster_node import MS
from tests.cluster_simulation.stream_clients import StreamConsumer, StreamPublisher
from tests.cluster_simulation.stream_model import StreamKind, read_records
from tests.cluster_simulation.stream_weather import StreamWeather
from tests.simulation.observer import message_number
from tests.simulation.state import Violation

_LOOK_EVERY_MS = 20


class CompactionWeather(StreamWeather):
    """A mixture, as StreamWeather is. Most of what is published goes to streams that are compacted."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.compacted = [
            StreamKind("values", is_compacted=True, is_packed=True),
            StreamKind("values-kept", max_bytes=20_000, is_compacted=True),
        ]
        self.stream_kinds += self.compacted
        self.publishers = [_Publisher(f"publisher{number}", self) for number in range(3)]
        self.consumers = [_Consumer(f"reader{number}", self) for number in range(4)]
        for node in self.nodes.values():
            object.__setattr__(node.config, "stream_compaction_ms", self.chance.choice([10, 30]))
            object.__setattr__(node.config, "stream_compression_ms", 10)
            object.__setattr__(node.config, "stream_compaction_percent", self.chance.choice([1, 30]))
            object.__setattr__(node.config, "stream_compaction_keys_bytes", self.chance.choice([600, 100_000]))

    def _act_later(self) -> None:
        super()._act_later()
        self._inspect_later()

    def _inspect_later(self) -> None:
        def inspect() -> None:
            self.inspect()
            if not self.is_calm:
                self._inspect_later()

        self.after(_LOOK_EVERY_MS * MS, inspect)

    def _compare(self, kind: StreamKind) -> None:
        """See StreamWeather."""
        super()._compare(kind)
        self.inspect()

    def inspect(self) -> None:
        """Compare all copies of all streams that are compacted."""
        for kind in self.compacted:
            gone: dict[str, int] = {}
            found: list[tuple[str, dict[int, str]]] = []
            for node in self.serving():
                _, stream = self._find(node, kind)
                if stream is None or not stream.log.compacted.is_enough:
                    continue
                try:
                    there = self._look_at(node.name, kind, stream, gone)
                except (CorruptRecord, OSError):
                    continue
                found.append((node.name, there))
                self.counts["packed pages seen"] += sum(part.is_packed for part in stream.log.parts())
                self.counts["records taken"] += stream.next - stream.first - len(there)
            self.counts["tombstones taken"] += len(gone)
            for name, there in found:
                for offset, key in there.items():
                    if key and offset < gone.get(key, 0):
                        raise Violation(f"{name}: '{kind.name}' has {offset} of key '{key}', and the tombstone of "
                                        f"{gone[key]} is gone elsewhere")  # fmt: skip

    def _look_at(self, node: str, kind: StreamKind, stream: Stream, gone: dict[str, int]) -> dict[int, str]:
        """The keys of what a node has, by offset. gone: of each key, the newest tombstone that is not there."""
        model = self.stream_model
        there: dict[int, str] = {}
        for stored in stream.log.chunks(stream.first):
            chunk = stored.chunk
            for number, body, _ in read_records(chunk.octets, chunk.start, end=chunk.end):
                offset = stored.first + number
                message = model.at(kind.name, offset)
                if message.number != message_number(body) or message.body != body:
                    raise Violation(f"{node}: '{kind.name}' has {body[:20]!r} at {offset}, not {message.number}")
                if offset >= stream.first:
                    there[offset] = message.key
        newest: dict[str, int] = {}
        for offset in range(stream.next - 1, stream.first - 1, -1):
            message = model.at(kind.name, offset)
            is_newest = newest.setdefault(message.key, offset) == offset
            if offset in there or (message.key and not is_newest):
                continue
            if not message.key or not message.is_tombstone:
                raise Violation(f"{node}: '{kind.name}' lacks {offset}, the newest of key '{message.key}'")
            gone[message.key] = max(offset, gone.get(message.key, 0))
        return there


class _Publisher(StreamPublisher):
    def choose(self) -> StreamKind:
        return _choose(self)


class _Consumer(StreamConsumer):
    def choose(self) -> StreamKind:
        return _choose(self)


def _choose(client: Any) -> StreamKind:
    """Mostly one of those that are compacted."""
    world, chance = client.streams, client.world.chance
    kind: StreamKind = chance.choice(world.compacted if chance.random() < 0.8 else world.stream_kinds)
    return kind
