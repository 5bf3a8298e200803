"""LeaseModel: what docs/leases.md promises of lease.*, judged by what was asked and answered, and nothing else.

    R1  a group holds at an offset one message as it was published, and the same octets however often they are read
    R2  a message is at one offset of one group; at another one only when its group may have been released
    R3  what a group holds, [trimmed, next), only moves up, and nobody takes back what was answered
    R4  a claim is offered first what the group holds already: the same claim has the same end
    R5  who was fenced changes nothing any more
    R6  `gone`, `fenced` and another incarnation have a cause
    R7  what is done with is done with: each message that was confirmed is settled once

It knows when each request was sent and when it was answered, so it judges what must have come before what. Moments are
those of transmission.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field

from tests.cluster_simulation.client_model import Sent
from tests.cluster_simulation.lease_blob import Row, read_blob
from tests.cluster_simulation.transmission import Transmission, succeeded_before
from tests.simulation.observer import message_number
from tests.simulation.state import Violation


@dataclass(slots=True, eq=False)
class Life:
    """One incarnation of a group. rows: what was read, by offset."""

    name: str
    rows: dict[int, Row] = field(default_factory=dict)
    claims: list[Transmission] = field(default_factory=list)
    acks: list[Transmission] = field(default_factory=list)
    releases: list[Transmission] = field(default_factory=list)

    @property
    def most_acked(self) -> int:
        """Nothing from this offset on can have been settled."""
        return max((int(each.fields["upto"]) for each in self.acks), default=0)

    def acked_before(self, moment: int) -> int:
        """What is below this offset was settled before that moment."""
        return max((int(each.fields["upto"]) for each in succeeded_before(self.acks, moment)), default=0)


@dataclass(slots=True, eq=False)
class Group:
    """A group by its name. lives: by incarnation, in the order in which they were heard of."""

    queue: str
    name: str
    opens: list[Transmission] = field(default_factory=list)
    lives: dict[str, Life] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"group '{self.name}' of '{self.queue}'"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a message is, or was."""

    group: Group
    life: Life
    offset: int


class LeaseModel:
    """See the module's docstring. messages: what was published, by number. lagging: queues of which a node reads what
    it has applied itself, so that after a restart it may still have what was acknowledged or released
    (docs/leases.md)."""

    def __init__(self, messages: Mapping[int, Sent], lagging: Container[str] = ()) -> None:
        self.messages = messages
        self._lagging = lagging
        self.counts: Counter[str] = Counter()
        self.groups: dict[tuple[str, str], Group] = {}
        self.places: dict[int, list[Place]] = {}

    def group(self, transmission: Transmission) -> Group:
        """The group that a request is about."""
        key = str(transmission.fields["queue"]), str(transmission.fields["group"])
        found = self.groups.get(key)
        if found is None:
            found = self.groups[key] = Group(*key)
        return found

    def _life(self, transmission: Transmission) -> Life:
        group, name = self.group(transmission), str(transmission.fields["incarnation"])
        if name not in group.lives:
            raise Violation(f"{transmission}: {group} has no such incarnation")
        return group.lives[name]

    # -- what is asked and answered ------------------------------------------------------------------------------------

    def sent(self, transmission: Transmission) -> None:
        """A request is on its way, for the first time or again."""
        if transmission.verb == "lease.open":
            self.group(transmission).opens.append(transmission)
        elif transmission.verb == "lease.claim":
            self._life(transmission).claims.append(transmission)
        elif transmission.verb == "lease.ack":
            self._life(transmission).acks.append(transmission)
        elif transmission.verb == "lease.release":
            self._life(transmission).releases.append(transmission)

    def answered(self, transmission: Transmission) -> None:
        """A request was answered, and not with `busy`. Raises Violation."""
        verb, answer = transmission.verb, transmission.answer
        assert answer is not None
        if verb == "lease.stat":
            if not answer.is_ok:
                raise Violation(f"{transmission} is answered {answer.code}: {answer.fields}")
        elif verb == "lease.open":
            self._opened(transmission)
        else:
            life = self._life(transmission)
            if answer.code in ("gone", "fenced"):
                self._refused(transmission, life)
                return
            if not answer.is_ok:
                raise Violation(f"{transmission} is answered {answer.code}: {answer.fields}")
            if verb == "lease.fetch":
                self._fetched(transmission, life)
                return
            self._check_owner(transmission)
            if verb == "lease.claim":
                self._claimed(transmission, life)
            elif verb == "lease.ack":
                self._acked(transmission, life)

    def _opened(self, transmission: Transmission) -> None:
        """R3 and R6."""
        answer, group = transmission.answer, self.group(transmission)
        assert answer is not None
        if not answer.is_ok:
            raise Violation(f"{transmission} is answered {answer.code}: {answer.fields}")
        name = str(answer.fields["incarnation"])
        trimmed, end = int(answer.fields["trimmed"]), int(answer.fields["next"])
        life = group.lives.get(name)
        if life is None:
            for other in group.lives.values():
                if not other.releases:
                    raise Violation(f"{group} was made anew, and nobody has released {other.name}: it is {name}")
            if trimmed or end:
                raise Violation(f"{group} is new, and holds {trimmed} to {end}: {name}")
            group.lives[name] = Life(name)
            self.counts["groups"] += 1
            return
        if succeeded_before(life.releases, transmission.sent_at):
            raise Violation(f"{group} was released, and is there again: {name}")
        if not life.acked_before(transmission.sent_at) <= trimmed <= life.most_acked:
            raise Violation(f"{group} is trimmed to {trimmed}; it was acknowledged up to {life.most_acked}")
        if end < self._claimed_before(life, transmission.sent_at):
            raise Violation(f"{group} ends at {end}, and more than that was claimed")

    @staticmethod
    def _claimed_before(life: Life, moment: int) -> int:
        """What is below this offset was in the group before that moment."""
        ends = [int(each.answer.fields["end"]) for each in succeeded_before(life.claims, moment) if each.answer]
        return max(ends, default=0)

    def _claimed(self, transmission: Transmission, life: Life) -> None:
        """R3 and R4."""
        answer, group = transmission.answer, self.group(transmission)
        assert answer is not None
        after, most, end = (
            int(transmission.fields["after"]), int(transmission.fields["max_messages"]), int(answer.fields["end"])
        )  # fmt: skip
        if not after <= end <= after + most:
            raise Violation(f"{transmission} ends at {end}")
        held = self._claimed_before(life, transmission.sent_at)
        if held > after and end < min(held, after + most):
            raise Violation(f"{transmission} ends at {end}, and {group} held everything up to {held} already")
        if after < life.acked_before(transmission.sent_at):
            raise Violation(f"{transmission} has success, and what is there was acknowledged")
        self.counts["claimed"] += end - after
        same = ("after", "max_messages", "max_bytes")
        for other in succeeded_before(life.claims, transmission.sent_at):
            assert other.answer is not None
            before = int(other.answer.fields["end"])
            if before == after or any(other.fields[name] != transmission.fields[name] for name in same):
                continue
            if any(int(each.fields["after"]) > after for each in life.claims):
                continue  # more was claimed behind it meanwhile
            self.counts["claimed again"] += 1
            if before != end:
                raise Violation(f"{transmission} ended at {before}, and ends at {end} now")

    def _acked(self, transmission: Transmission, life: Life) -> None:
        """R3."""
        answer = transmission.answer
        assert answer is not None
        upto, trimmed = int(transmission.fields["upto"]), int(answer.fields["trimmed"])
        if not upto <= trimmed <= life.most_acked:
            raise Violation(f"{transmission} is answered, and {self.group(transmission)} is trimmed to {trimmed}")
        self.counts["acked"] += 1

    def _fetched(self, transmission: Transmission, life: Life) -> None:
        """R1, R2 and R3."""
        answer, group = transmission.answer, self.group(transmission)
        assert answer is not None
        rows = read_blob(answer.blob)
        first, last = int(transmission.fields["from"]), int(transmission.fields["to"])
        end = int(answer.headers["x-end"])
        if [row.offset for row in rows] != list(range(first, end)) or not first < end <= last:
            raise Violation(f"{transmission} is answered up to {end} with offsets {[row.offset for row in rows]}")
        is_new = group.queue not in self._lagging
        if is_new and first < life.acked_before(transmission.sent_at):
            raise Violation(f"{transmission} has success, and what is there was acknowledged")
        if is_new and succeeded_before(life.releases, transmission.sent_at):
            raise Violation(f"{transmission} has success, and {group} was released")
        for row in rows:
            known = life.rows.get(row.offset)
            if known is None:
                life.rows[row.offset] = row
                self._check_message(group, life, row)
            elif known != row:
                raise Violation(f"{group}: offset {row.offset} was {known}, and is {row} now")
            else:
                self.counts["read again"] += 1

    def _check_message(self, group: Group, life: Life, row: Row) -> None:
        """R1 and R2, of a message that is read for the first time."""
        number = message_number(row.body)
        message = self.messages.get(number)
        if message is None or group.queue not in message.may_reach or row.body != message.body:
            raise Violation(f"{group}: what is at offset {row.offset} was never published there: {row}")
        if (row.exchange, row.routing_key) != (b"", group.queue.encode()):
            raise Violation(f"{group}: {message} has another address: {row}")
        places = self.places.setdefault(number, [])
        for place in places:
            if place.life is life or not place.life.releases:
                raise Violation(f"{message} is at {place.offset} of {place.group}, and at {row.offset} of {group} too")
            if place.offset < place.life.acked_before(min(each.sent_at for each in place.life.releases)):
                raise Violation(f"{message} was acknowledged at {place.offset} of {place.group}, and is in {group}")
            if not row.flags & 1:
                raise Violation(f"{message} was released by {place.group}, and is not marked as redelivered: {row}")
        places.append(Place(group, life, row.offset))
        self.counts["read"] += 1

    # -- refusals ------------------------------------------------------------------------------------------------------

    def _check_owner(self, transmission: Transmission) -> None:
        """R5: somebody who opened the group before another one did, and never again, is fenced."""
        opens = self.group(transmission).opens
        owner = transmission.fields["owner"]
        own_end = max(each.ended_at for each in opens if each.fields["owner"] == owner)
        for other in succeeded_before(opens, transmission.sent_at):
            if other.fields["owner"] != owner and own_end < other.sent_at:
                raise Violation(f"{transmission} has success, and {other.fields['owner']} had opened the group before")

    def _refused(self, transmission: Transmission, life: Life) -> None:
        """R6."""
        answer, group = transmission.answer, self.group(transmission)
        assert answer is not None
        verb, fields = transmission.verb, transmission.fields
        if answer.code == "fenced":
            owner = fields.get("owner")
            own_start = min((each.sent_at for each in group.opens if each.fields["owner"] == owner), default=0)
            others = [each for each in group.opens if each.fields["owner"] != owner and each.ended_at > own_start]
            if verb == "lease.fetch" or not others:
                raise Violation(f"{transmission} is fenced, and nobody else has opened {group}")
            self.counts["fenced"] += 1
            return
        if life.releases:
            return
        first = fields.get("from") if verb == "lease.fetch" else fields.get("after")
        if first is None or int(first) >= life.most_acked:
            raise Violation(f"{transmission}: {group} has lost what it holds: {answer.fields}")
        self.counts["gone"] += 1

    # -- the end -------------------------------------------------------------------------------------------------------

    def at_the_end(self, committed: Counter[int], taken: Callable[[Sent, str], bool | None], sources: set[str]) -> None:
        """R7. committed: how often each message is in a committed epoch. taken(message, queue): whether somebody else
        has settled it, None where nobody knows. Raises Violation."""
        for message in self.messages.values():
            for queue in sources.intersection(message.may_reach):
                times = committed[message.number]
                if times > 1:
                    raise Violation(f"{message} is in {times} committed epochs")
                is_taken = taken(message, queue)
                if times and is_taken:
                    raise Violation(f"{message} is in a committed epoch, and a consumer has settled it as well")
                places = [f"{place.offset} of {place.group}" for place in self.places.get(message.number, ())]
                # What was leased is durable, even if it was transient.
                is_safe = places or (message.is_confirmed and message.is_persistent)
                if not times and is_safe and is_taken is False:
                    raise Violation(f"{message} was confirmed, and is in no committed epoch; it was at {places}")
                self.counts["in an epoch" if times else "taken otherwise" if is_taken else "in no epoch"] += 1
