"""Offsets: what Spark writes into its checkpoint, as JSON: {"v": 1, "q": {queue: {"g": incarnation, "o": offset}}}.
Of streams there is "h" besides, the name of the query's hold.

An offset is the next one to read: a batch is [start, end) of every queue. The incarnation names the lease group that
the number belongs to, so that a checkpoint never reads another group's messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from spark_connector.errors import ConnectorError

VERSION: Final = 1


@dataclass(frozen=True, order=True)
class Position:
    """How far one queue is read."""

    incarnation: str
    offset: int


@dataclass(frozen=True)
class Offsets:
    """Positions by queue, in the order of the queues. hold: the name under which the query holds its streams."""

    positions: Mapping[str, Position]
    hold: str = ""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Offsets:
        """Raises ConnectorError for what another version, or another source, has written."""
        try:
            if value["v"] != VERSION:
                raise ConnectorError(
                    f"the checkpoint's offsets are of version {value['v']}, this connector reads {VERSION}: update it"
                )
            positions = {name: Position(str(each["g"]), int(each["o"])) for name, each in value["q"].items()}
            return cls(positions, str(value.get("h", "")))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConnectorError(
                f"the checkpoint holds no offsets of format amqp ({value!r}): start with another checkpointLocation"
            ) from error

    def to_json(self) -> dict[str, Any]:
        written = {name: {"g": at.incarnation, "o": at.offset} for name, at in self.positions.items()}
        return {"v": VERSION, "q": written, **({"h": self.hold} if self.hold else {})}

    def __getitem__(self, queue: str) -> Position:
        return self.positions[queue]

    def __contains__(self, queue: object) -> bool:
        return queue in self.positions

    def __iter__(self) -> Iterator[str]:
        return iter(self.positions)

    def moved(self, queue: str, offset: int) -> Offsets:
        """These, but one queue read up to `offset`."""
        return self.with_position(queue, replace(self.positions[queue], offset=offset))

    def with_position(self, queue: str, position: Position) -> Offsets:
        return replace(self, positions={**self.positions, queue: position})


def split(start: int, end: int, most_tasks: int, most_messages: int) -> list[tuple[int, int]]:
    """[start, end) in equal parts, in order: at most `most_tasks` unless they would hold more than `most_messages`.

    Small batches are not split: a task costs more than reading a thousand messages. One task keeps strict order.
    """
    count = end - start
    if count <= 0:
        return []
    parts = 1 if most_tasks == 1 else max(-(-count // most_messages), min(most_tasks, -(-count // SMALL)))
    return [(start + count * part // parts, start + count * (part + 1) // parts) for part in range(parts)]


#: So many messages are worth a task.
SMALL: Final = 1000
