"""A request about a stream that has partitions, which all of these answer, one after the other."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from amqp_broker.leases.answer import Answer
from amqp_broker.leases.errors import LeaseError
from amqp_broker.turn.completion import Completion
from amqp_broker.turn.task import Steps

if TYPE_CHECKING:
    from amqp_broker.protocol.json_values import JsonObject
    from queues.queue import Queue


class _Noted(Answer):
    """Of one partition, for who puts them together. asker: who gets that."""

    def __init__(self, asker: Answer) -> None:
        self._asker = asker
        self.said: Completion[JsonObject] = Completion()

    @property
    def is_wanted(self) -> bool:
        return self._asker.is_wanted

    def send(self, content_type: str, body: bytes, headers: JsonObject) -> None:
        """See Answer: requests of which there is one for all partitions have no blob in their answers."""
        self.said.complete(json.loads(body))


def ask_each(parts: Sequence[Queue], ask: Callable[[Queue, Answer], None], answer: Answer) -> Steps:
    """`ask` raises LeaseError, or gives an answer at some time. The first partition that refuses ends it: what was done
    in those before it is done."""
    rows: list[JsonObject] = []
    try:
        for part in parts:
            noted = _Noted(answer)
            ask(part, noted)
            said = yield noted.said
            if not said.pop("ok"):
                raise LeaseError(said["code"], said["error"])
            rows.append({"name": part.name, **said})
    except LeaseError as error:
        done = f"; it is done in those before it, {len(rows)} of {len(parts)}: ask again" if rows else ""
        answer.refuse(LeaseError(error.code, f"partition '{part.name}': {error.text}{done}"))
        return
    answer.give({"partitions": rows})
