"""LeaseGroup: one group of one queue, as its owner sees it (docs/leases.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_connector.errors import ConnectorError, Refused
from spark_connector.service import Service, explained


@dataclass(frozen=True)
class Tail:
    """How far a queue reaches: `ready` messages nobody has yet; `end` is the group's end once it had them."""

    ready: int
    end: int


class LeaseGroup:
    """Opened when it is made: from then on older owners are fenced. Raises ConnectorError with the way out."""

    def __init__(self, service: Service, queue: str, group: str, owner: str) -> None:
        self.queue = queue
        self.group = group
        self._service = service
        self._owner = owner
        answer = self._ask("lease.open", {"owner": owner})
        self.incarnation = str(answer["incarnation"])
        self.trimmed = int(answer["trimmed"])
        self.next = int(answer["next"])

    def ack(self, upto: int) -> None:
        """Settles all before `upto`; nothing happens if that is done."""
        if upto > self.trimmed:
            self._ask("lease.ack", {**self._mine(), "upto": upto})
            self.trimmed = upto

    def tail(self) -> Tail:
        """How much there is."""
        answer = self._ask("lease.stat", {})
        ready = int(answer["ready"])
        ends = [int(each["next"]) for each in answer["groups"] if each["group"] == self.group]
        return Tail(ready, max([self.next, *ends]) + ready)

    @staticmethod
    def claim_all(
        groups: Sequence[LeaseGroup], after: Sequence[int], most: Sequence[int], octets: int, wait: float
    ) -> list[int]:
        """The new ends of several groups, asked at the same time. Waits up to `wait` seconds for what is empty."""
        if not groups:
            return []
        requests: list[tuple[dict[str, object], None]] = []
        for group, start, count in zip(groups, after, most, strict=True):
            fields: dict[str, object] = {
                "queue": group.queue, "group": group.group, **group._mine(), "after": start, "max_messages": count,
                "max_bytes": octets, "wait_ms": int(wait * 1000),
            }  # fmt: skip
            requests.append((fields, None))
        service = groups[0]._service
        try:
            answers = service.ask_all("lease.claim", requests, wait)
        except Refused as error:
            raise groups[0]._explained(error, [group.queue for group in groups]) from error
        for group, answer in zip(groups, answers, strict=True):
            group.next = max(group.next, int(answer.fields["end"]))
        return [int(answer.fields["end"]) for answer in answers]

    def _mine(self) -> dict[str, object]:
        return {"owner": self._owner, "incarnation": self.incarnation}

    def _ask(self, verb: str, fields: Mapping[str, object]) -> Mapping[str, Any]:
        try:
            return self._service.ask(verb, {"queue": self.queue, "group": self.group, **fields}).fields
        except Refused as error:
            raise self._explained(error, [self.queue]) from error

    def _explained(self, error: Refused, queues: Sequence[str]) -> ConnectorError:
        return explained(error, ", ".join(queues), self.group)
