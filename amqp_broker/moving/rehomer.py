"""Rehomer: classic queues come to live elsewhere, one after the other, each for as long as it takes (`queue.rehome`).

It is a client as any other: a queue that is on its way goes on though its asker is gone, and what is refused stays
where it is. `ask` sends a verb of amq.system and returns the answer's fields.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from amqp_broker.client.connection import Connection
from amqp_broker.moving.mover import CannotMove, Progress
from amqp_broker.moving.spreading import Change, Weighed, spread
from amqp_broker.moving.survey import Ask
from amqp_broker.protocol.json_values import JsonObject

#: So long one queue may take, seconds: who has asked hears nothing before it is over.
MOVE_DEADLINE_S: Final = 3600.0
_SYSTEM_EXCHANGE: Final = "amq.system"
_COLUMNS: Final = [
    "vhost", "name", "node", "type", "durable", "exclusive", "auto_delete", "messages", "message_bytes",
]  # fmt: skip
_PAGE_ROWS: Final = 500


@dataclass(slots=True)
class RehomeProgress(Progress):
    """queues: that live where they were to; stayed: the others, and why. ready, moved: messages, as they were counted
    before, and that were brought."""

    queues: int = 0
    stayed: list[tuple[Weighed, str]] = field(default_factory=list)

    def told(self) -> str:
        """In one line."""
        done = f"{self.queues} queues live elsewhere now, with {self.moved} messages"
        stay = f"; {len(self.stayed)} stay" if self.stayed else ""
        return done + stay + ("; cancelled" if self.is_cancelled else "")


@dataclass(frozen=True, slots=True)
class Rehome:
    """What is to be done. name: of this move, unlike any other's. queue: the one that moves, "" where there may be
    several. host: from where the user asks, for the audit log."""

    name: str
    queue: str
    changes: tuple[Change, ...]
    host: str

    def begin(
        self, connection: Connection, user: str, clock: Callable[[], float], pause: Callable[[float], object]
    ) -> Rehomer:
        """Who does it. connection: of an administrator, who asks for the user."""
        return Rehomer(connection, user, self)


class Rehomer:
    """See the module's docstring."""

    def __init__(self, connection: Connection, user: str, rehome: Rehome) -> None:
        self._connection = connection
        self._user = user
        self._rehome = rehome
        self._wants_end = False
        self.progress = RehomeProgress(ready=sum(change.queue.messages for change in rehome.changes))

    def cancel(self) -> None:
        """It ends behind the queue that is on its way. From any thread."""
        self._wants_end = True

    def run(self) -> RehomeProgress:
        """Raises CannotMove, ClientError; what was moved by then is in `progress`."""
        progress, channel = self.progress, self._connection.channel()
        for queue, home in self._rehome.changes:
            if self._wants_end:
                progress.is_cancelled = True
                break
            fields = {
                "vhost": queue.vhost, "name": queue.name, "home": home, "as_user": self._user,
                "as_host": self._rehome.host,
            }  # fmt: skip
            body = json.dumps(fields).encode()
            answer = json.loads(channel.request(_SYSTEM_EXCHANGE, "queue.rehome", body, timeout=MOVE_DEADLINE_S).body)
            if answer["ok"]:
                progress.queues += 1
                progress.moved += answer["messages"]
            else:
                progress.stayed.append((queue, answer["error"]))
        if progress.stayed:
            raise CannotMove("; ".join(why for _, why in progress.stayed[:3]))
        return progress


def plan(ask: Ask) -> tuple[list[str], list[Change]]:
    """The homes that there are, and which queues have to move so that all have about as much."""
    found = ask("queue.homes")
    return found["homes"], spread(list(_movable(ask, found["types"])), found["homes"], found.get("busy"))


def _movable(ask: Ask, types: list[str]) -> Iterator[Weighed]:
    after: dict[str, str] = {}
    while True:
        page = ask("objects.page", kind="queues", columns=_COLUMNS, limit=_PAGE_ROWS, **after)
        for values in page["rows"]:
            row = dict(zip(page["columns"], values, strict=True))
            if row["type"] in types and row["durable"] and not row["exclusive"] and not row["auto_delete"]:
                yield weighed(row)
        if page["next"] is None:
            return
        after = {"after": page["next"]}


def weighed(row: JsonObject) -> Weighed:
    """A queue as its row has it; what was not counted counts nothing."""
    return Weighed(row["vhost"], row["name"], row["node"], row["messages"] or 0, row["message_bytes"] or 0)
