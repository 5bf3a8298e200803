"""LeaseGroup: one group of one queue, as its owner sees it (docs/leases.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from spark_connector.errors import ConnectorError, Refused
from spark_connector.service import Service, explained

#: A claim that has so much of the octets that it asked for had to stop at a message that was too large.
_FULL_SHARE: Final = 0.9


@dataclass(frozen=True)
class Tail:
    """How far a queue reaches: `ready` messages nobody has yet; `end` is the group's end once it had them."""

    ready: int
    end: int


@dataclass(frozen=True)
class Claimed:
    """The end of a claim, and whether it has all that it asked for: then there may be more."""

    end: int
    is_full: bool


@dataclass(frozen=True)
class Claim:
    """What to claim of a group: up to `most` messages behind `after`."""

    group: LeaseGroup
    after: int
    most: int


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
    def claim_all(claims: Sequence[Claim], octets: int, wait: float) -> list[Claimed]:
        """Claims of several groups, asked at the same time, of so many octets each at most. Waits up to `wait` seconds
        for what is empty."""
        if not claims:
            return []
        groups = [each.group for each in claims]
        try:
            answers = groups[0]._service.ask_all("lease.claim", _requests(claims, octets, wait), wait)
        except Refused as error:
            raise groups[0]._explained(error, [group.queue for group in groups]) from error
        found = []
        for claim, answer in zip(claims, answers, strict=True):
            end = int(answer.fields["end"])
            claim.group.next = max(claim.group.next, end)
            is_full = end - claim.after >= claim.most or int(answer.fields["bytes"]) >= octets * _FULL_SHARE
            found.append(Claimed(end, is_full))
        return found

    @staticmethod
    def claim_ahead(claims: Sequence[Claim], octets: int) -> None:
        """Asks for what `claim_all` is going to ask for, without waiting."""
        if claims:
            claims[0].group._service.ask_ahead("lease.claim", _requests(claims, octets, 0))

    def _mine(self) -> dict[str, object]:
        return {"owner": self._owner, "incarnation": self.incarnation}

    def _ask(self, verb: str, fields: Mapping[str, object]) -> Mapping[str, Any]:
        try:
            return self._service.ask(verb, {"queue": self.queue, "group": self.group, **fields}).fields
        except Refused as error:
            raise self._explained(error, [self.queue]) from error

    def _explained(self, error: Refused, queues: Sequence[str]) -> ConnectorError:
        return explained(error, ", ".join(queues), self.group)


def _requests(claims: Sequence[Claim], octets: int, wait: float) -> list[tuple[dict[str, object], None]]:
    requests: list[tuple[dict[str, object], None]] = []
    for each in claims:
        group = each.group
        fields: dict[str, object] = {
            "queue": group.queue, "group": group.group, **group._mine(), "after": each.after,
            "max_messages": each.most, "max_bytes": octets, "wait_ms": int(wait * 1000),
        }  # fmt: skip
        requests.append((fields, None))
    return requests
