"""Acquaintances: before two members count for each other, each has found in its own folder all that the other has seen
of it. One that has not has forgotten what it has promised, and its node ends (decision 0020).

    link up -> GREETING   who I am, how far my memory reaches, the last that I have seen of you
            <- REMEMBERS  all that you have seen of me is in my folder
            -> RECORDED   how far your memory reaches is on my disk: you are held to it, and what you say counts
    both RECORDED -> `on_admitted`: what the other says counts, and it is told what this node has to say

Each does this with the other, on every link. Then it says now and then how far its memory has come (POINT).

It knows no sockets: frames that come before the admission are given to `receive`, those that go out are in
`take_output`. All of them are an application's frame of one kind, whose octets are JSON.

Invariants:
1. Nobody is admitted before both have recorded each other, on the disk.
2. A member that has forgotten admits nobody any more, and what makes it so is in its folder first (`Memory.give_up`).
3. In the first moments after a start (an election's time-out) nobody is admitted before all members that are there
   have been asked: whoever knows better is heard first.
4. Who has never greeted is of the version before, and admitted as it was then; who has greeted once has to, always.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raft.leadership import Leadership
from raft.memory import Point, Witness
from raft.messages import Application
from raft.wire import encode

if TYPE_CHECKING:
    from amqp_broker.cluster.replication import Replication
    from queues.timers import Timers

log = logging.getLogger("amqp_broker.cluster")

#: The kind of an application's frame.
ACQUAINTANCE = 12
#: How often a member says how far its memory has come, milliseconds: so much of what it has promised may be known to
#: leaders only, and not to their disks.
TELL_MS = 500

GREETING = "greeting"
REMEMBERS = "remembers"
RECORDED = "recorded"
POINT = "point"
FORGOTTEN = "forgotten"

_HEAD = encode(Application(bytes([ACQUAINTANCE])))


class Acquaintance:
    """A link to another member, admitted or not. point: where that one is, as it has said on this link."""

    def __init__(self) -> None:
        self.point: Point | None = None
        self.told: Point | None = None
        self.remembers = False
        self.is_on_disk = False  # where it is
        self.has_said_so = False
        self.is_recorded = False  # this node, by that one
        self.is_admitted = False


class Acquaintances:
    """See the module's docstring. joined_at: what the cluster had applied of the metadata when this node was added to
    it; 0 for a founder. joins: its folder was made to be added."""

    def __init__(self, replication: Replication, random_bytes: Callable[[int], bytes]) -> None:
        self.links: dict[str, Acquaintance] = {}
        self.joined_at = 0
        self.joins = False
        self.on_admitted: Callable[[str, int], None]
        self.on_dismissed: Callable[[str, int], None]
        self.on_farewell: Callable[[str, bytes, int], bool]
        self.wants_sync = False
        self._replication = replication
        self._host = replication.host
        self._memory = replication.host.memory
        self._random_bytes = random_bytes
        self.output: dict[str, list[bytes]] = {}
        self._is_patient = True
        self._has_warned: dict[str, str] = {}

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def reason(self) -> str:
        """Why this folder is not to be used any more; "" if it is."""
        return self._memory.reason

    @property
    def is_over(self) -> bool:
        """Whether the folder was given up, and says so on the disk."""
        return bool(self.reason) and self._memory.position <= self._replication.synced_position

    def is_admitted(self, name: str) -> bool:
        """Whether what this one says counts."""
        link = self.links.get(name)
        return link is not None and link.is_admitted

    # -- inputs --------------------------------------------------------------------------------------------------------

    def open(self, timers: Timers, identity: bytes, now: int) -> None:
        """A life begins."""
        self._memory.open(self._replication.port, self._random_bytes, identity)
        self.wants_sync = self._replication.is_busy = True
        timers.at(now + self._host.settings.election_timeout_max_ms, self._be_patient_no_more)
        self._tell_later(timers, now)

    def link_up(self, name: str, now: int) -> None:
        """There is a link to another node."""
        if self.reason:
            return
        self.links[name] = Acquaintance()
        if not self._memory.is_open:  # a node that has no others, as far as it knows
            self._admit(name, now)
        elif self._memory.position <= self._replication.synced_position:
            self._greet(name)
        else:
            self.wants_sync = self._replication.is_busy = True

    def link_down(self, name: str, now: int) -> None:
        """It is gone."""
        self.output.pop(name, None)
        link = self.links.pop(name, None)
        if link is not None and link.is_admitted:
            self.on_dismissed(name, now)

    def receive(self, name: str, frame: bytes, now: int) -> bytes | None:
        """A frame of one that is not admitted. Returns it if it counts all the same."""
        link = self.links.get(name)
        if link is None:
            return None
        if frame.startswith(_HEAD):
            self.on_said(name, frame[len(_HEAD) :], now)
            return None
        if self.on_farewell(name, frame, now) or link.point is not None:
            return None
        if name in self._memory.witnesses:
            self._warn(name, "once it said who it is, and now it does not: is it of an older version?")
            return None
        log.info("%s is of a version that does not say what it remembers", name)
        self._admit(name, now)
        return frame

    def synced(self, position: int, now: int) -> None:
        """The journal is on the disk up to there; while this is waited for (`wants_sync`)."""
        self.wants_sync = False
        if self._memory.position > position:
            self.wants_sync = True
        if self.reason:
            return
        for name, link in list(self.links.items()):
            if link.told is None and not link.is_admitted and self._memory.position <= position:
                self._greet(name)
            if link.remembers and not link.is_on_disk:
                self._record(name, link)
        self._admit_all(now)

    def member_removed(self, name: str, index: int, now: int) -> None:
        """By the metadata, at this index."""
        witness = self._memory.witnesses.get(name)
        if witness is None or witness.as_of >= index:
            return  # it has been added again since: this is an old entry that is applied once more
        self._memory.forget(name)
        link = self.links.get(name)
        if link is not None and not link.is_admitted and link.told is not None and not self.reason:
            self._greet(name)

    def members_replaced(self, members: dict[str, str], index: int, now: int) -> None:
        """The metadata are others."""
        for name in [name for name in self._memory.witnesses if members and name not in members]:
            self.member_removed(name, index, now)

    def joined(self, index: int) -> None:
        """A node that was made to be added knows all that was decided up to this index, and that it is a member."""
        if not self.joins or self.joined_at:
            return
        self.joined_at = index
        for name, link in self.links.items():
            if not link.is_admitted and link.told is not None:
                self._greet(name)

    def give_up(self, reason: str) -> None:
        """The folder is not to be used any more."""
        if self._memory.is_open and not self.reason:
            self._memory.give_up(reason)
            self.wants_sync = self._replication.is_busy = True

    # -- what they say -------------------------------------------------------------------------------------------------

    def on_said(self, name: str, payload: bytes, now: int) -> None:
        """The octets of a frame of this kind."""
        link = self.links.get(name)
        if link is None or self.reason:
            return
        try:
            said = json.loads(payload)
            point = _point(said["point"]) if "point" in said else None
            what = said["what"]
            if what == GREETING:
                self._on_greeting(name, link, said, point, now)
            elif what == REMEMBERS:
                link.remembers = True
                self._record(name, link)
            elif what == RECORDED:
                link.is_recorded = True
            elif what == POINT and point is not None:
                self._on_point(name, link, point)
            elif what == FORGOTTEN:
                self._warn(name, f"it has forgotten what it has promised, and ends: {said['text']}")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            log.error("%s says what it remembers in a way that is not understood: %s", name, error)
            return
        self._admit_all(now)

    def _on_greeting(self, name: str, link: Acquaintance, said: dict[str, Any], point: Point | None, now: int) -> None:
        seen = _point(said["seen"]) if said["seen"] is not None else None
        leads = {int(group_id): (int(term), int(index)) for group_id, (term, index) in said["leads"].items()}
        link.point = point
        if link.remembers:
            self._record(name, link)  # it has said so before it could say who it is
        missing = "" if seen is None or self._is_made_anew(seen, int(said["as_of"])) else self._memory.missing(seen)
        if missing and self._is_waiting_to_join(seen):
            log.info("%s knows this node under an earlier folder, and not yet that it was added anew", name)
            return
        missing = missing or self._unacknowledged(leads)
        if missing:
            self._forget(name, missing, now)
            return
        self._say(name, REMEMBERS)

    def _is_made_anew(self, seen: Point, as_of: int) -> bool:
        """What was seen was an earlier folder: this one was added after that."""
        return seen.identity != self._memory.identity and self.joined_at > as_of

    def _is_waiting_to_join(self, seen: Point | None) -> bool:
        """It has promised nobody anything yet."""
        is_another = seen is not None and seen.identity != self._memory.identity
        return is_another and self.joins and not self.joined_at

    def _unacknowledged(self, leads: dict[int, tuple[int, int]]) -> str:
        """What the leader of a group has from this node, and its log has not."""
        for group_id, (term, index) in leads.items():
            group = self._host.groups.get(group_id)
            if group is None or group.term > term:
                continue  # a later leader may have cut it
            if group.term < term or group.last_index < index:
                return (
                    f"it had acknowledged entry {index} of group {group_id} in term {term}, and this folder ends at "
                    f"entry {group.last_index} in term {group.term}: it is an older copy"
                )
        return ""

    def _forget(self, name: str, missing: str, now: int) -> None:
        own = self._replication.own_node
        reason = (
            f"this folder has forgotten what {name} knows of node {own}: {missing}. It must not be used: what it has "
            f"confirmed could be lost. Bring the node back with `amqp-broker cluster rejoin --node-name {own} ...`, "
            f"which gives it a new folder and a vote once it has caught up"
        )
        self.give_up(reason)
        log.warning("%s knows more of this node than its folder does: it ends", name)
        self.output.clear()
        for other, link in list(self.links.items()):
            if link.is_admitted:
                link.is_admitted = False
                self.on_dismissed(other, now)
            self._say(other, FORGOTTEN, text=missing)

    def _on_point(self, name: str, link: Acquaintance, point: Point) -> None:
        members = self._replication.recorded_members()
        if link.is_admitted and (not members or name in members):
            link.point = point
            self._memory.saw(name, point, self._applied)

    # -- what this node says -------------------------------------------------------------------------------------------

    @property
    def _applied(self) -> int:
        return int(self._replication.metadata_group.last_applied)

    def _point(self) -> Point:
        return self._memory.point(self._host.promised_position)

    def _greet(self, name: str) -> None:
        link = self.links[name]
        link.told = self._point()
        witness: Witness | None = self._memory.witnesses.get(name)
        leads = {}
        for group_id, group in self._host.groups.items():
            role = group.member.role
            if isinstance(role, Leadership) and name in role.progress and role.progress[name].match_index:
                leads[group_id] = [role.term, role.progress[name].match_index]
        seen = None if witness is None else _show(witness.point)
        as_of = 0 if witness is None else witness.as_of
        self._say(name, GREETING, point=_show(link.told), seen=seen, as_of=as_of, leads=leads)

    def _record(self, name: str, link: Acquaintance) -> None:
        """Have on the disk where the other one is."""
        if link.point is None:
            return
        witness = self._memory.witnesses.get(name)
        if witness is None or witness.point != link.point:
            self._memory.saw(name, link.point, self._applied)
        if self._memory.written(name) <= self._replication.synced_position:
            link.is_on_disk = True
        else:
            self.wants_sync = self._replication.is_busy = True

    def _tell_later(self, timers: Timers, now: int) -> None:
        def tell(now: int) -> None:
            if self.reason:
                return
            point = self._point()
            for name, link in self.links.items():
                if link.is_admitted and link.point is not None and link.told != point:
                    link.told = point
                    self._say(name, POINT, point=_show(point))
            self._tell_later(timers, now)

        timers.at(now + TELL_MS, tell)

    def _say(self, name: str, what: str, **fields: object) -> None:
        octets = json.dumps({"what": what, **fields}).encode()
        self.output.setdefault(name, []).append(_HEAD + octets)
        self._replication.is_busy = True

    def take_output(self) -> list[tuple[str, list[bytes]]]:
        """Frames for each node, before whatever else it is sent."""
        taken = list(self.output.items())
        self.output.clear()
        return taken

    # -- admission -----------------------------------------------------------------------------------------------------

    def _admit_all(self, now: int) -> None:
        if self._is_patient and all(self._is_heard(name) for name in self._replication.members()):
            self._is_patient = False
        if self._is_patient:
            return
        for name, link in list(self.links.items()):
            if link.is_on_disk and not link.has_said_so:
                link.has_said_so = True
                self._say(name, RECORDED)
            if link.has_said_so and link.is_recorded and not link.is_admitted:
                self._admit(name, now)

    def _is_heard(self, name: str) -> bool:
        link = self.links.get(name)
        return name == self._replication.own_node or (link is not None and (link.is_on_disk or link.is_admitted))

    def _be_patient_no_more(self, now: int) -> None:
        self._is_patient = False
        if not self.reason:
            self._admit_all(now)

    def _admit(self, name: str, now: int) -> None:
        self.links[name].is_admitted = True
        self._has_warned.pop(name, None)
        self.on_admitted(name, now)

    def _warn(self, name: str, text: str) -> None:
        """Once, and not for each link."""
        if self._has_warned.get(name) != text:
            self._has_warned[name] = text
            log.warning("%s is not let in: %s", name, text)


def _show(point: Point) -> list[object]:
    return [point.identity.hex(), point.number, point.mark, point.position]


def _point(shown: list[Any]) -> Point:
    identity, number, mark, position = shown
    return Point(bytes.fromhex(identity), int(number), int(mark), int(position))
