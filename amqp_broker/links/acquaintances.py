"""Acquaintances: before two members count for each other, each has found in its own folder all that the other has seen
of it. One that has not has forgotten what it has promised, and its node ends (decision 0020).

    link up -> GREETING   who I am, how far my memory reaches, the last that I have seen of you
            <- REMEMBERS  all that you have seen of me is in my folder
            -> RECORDED   how far your memory reaches is on my disk: you are held to it, and what you say counts
    both RECORDED -> `listen`: what the other says counts, and it is told what this node has to say

Each does this with the other, on every link. Then it says now and then how far its memory has come (POINT). What a
node of another generation of the cluster says counts for nothing, and one that meets a later generation that replaces
its own is over (generation.py).

It knows no sockets: frames that come before the admission are given to `receive`, those that go out are in
`take_output`. All of them are of one kind (FrameKind.ACQUAINTANCE), whose octets are JSON.

Invariants:
1. Nobody is admitted before both have recorded each other, on the disk.
2. A member that has forgotten admits nobody any more, and what makes it so is in its folder first (`Memory.give_up`).
3. In the first moments after a start (an election's time-out) nobody is admitted before all members that are there
   have been asked: whoever knows better is heard first.
4. Who has never greeted is of a version that did not, and admitted as it was then; who has greeted once has to, always,
   and so has everybody in a cluster that was restored.
5. Nobody is heard, not even to say that this node is no member, before it has said that it is of this generation.
6. Where two know each other under other folders than they have, one of them is of another cluster. Neither ends by the
   word of the other, or admits anybody, before most members have shown which one it is.
7. Workers of one node promise each other nothing, so what they say to each other counts at once. Others count for each
   other when each has said (WORKER) what it speaks, and of which generation of the cluster and which folder of its node
   it is; a worker k has these two from its node's worker 0. Where both have logs of groups, they greet each other then,
   as members do, each by its own folder.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from amqp_broker.links import levels
from amqp_broker.links.acquaintance import (
    FORGOTTEN,
    GENERATION,
    GREETING,
    POINT,
    RECORDED,
    REMEMBERS,
    WORKER,
    Acquaintance,
    read_point,
    show_point,
)
from amqp_broker.links.frame_kinds import FrameKind
from amqp_broker.links.generation import FIRST, Standing, compare, why_over, why_refused, why_strange
from amqp_broker.links.members_file import KnownMembers
from amqp_broker.links.refusals import Refusals
from amqp_broker.links.tenants import head_of
from amqp_broker.settings.workers import are_beside, node_of_worker
from raft.leadership import Leadership
from raft.memory import Point, Witness

if TYPE_CHECKING:
    from amqp_broker.protocol.json_values import JsonObject
    from amqp_broker.settings.kinds import MemberAddress
    from queues.timers import Timers
    from raft.host import RaftHost
    from raft.machine import LogPort

log = logging.getLogger("amqp_broker.cluster")

#: How often a member says how far its memory has come, milliseconds: so much of what it has promised may be known to
#: leaders only, and not to their disks.
TELL_MS = 500

_HEAD = head_of(FrameKind.ACQUAINTANCE)


def _shown(point: Point) -> str:
    """A folder, as the log names it."""
    return point.identity.hex()[:8]


class Cluster(Protocol):
    """What is used of Replication, to be read only."""

    @property
    def port(self) -> LogPort: ...

    @property
    def last_applied(self) -> int: ...

    @property
    def own_node(self) -> str: ...

    @property
    def synced_position(self) -> int: ...

    @property
    def level(self) -> int: ...

    def to_be_heard(self) -> Iterable[str]: ...

    def recorded_members(self) -> Mapping[str, str]: ...

    def recorded_identity(self, name: str) -> str: ...


class Acquaintances:
    """See the module's docstring. joined_at: what the cluster had applied of the metadata when this node was added to
    it; 0 for a founder. joins: its folder was made to be added. generation: of the cluster; replaces: nodes of earlier
    ones end. refusals: of who is of another one, and other strangers. levels: what this node speaks. touch says that
    there is something to do at the end of this turn."""

    def __init__(
        self, cluster: Cluster, host: RaftHost, touch: Callable[[], None], random_bytes: Callable[[int], bytes]
    ) -> None:
        self.links: dict[str, Acquaintance] = {}
        self.joined_at = 0
        self.joins = False
        self.generation = FIRST
        self.replaces = False
        self.refusals = Refusals()
        self.levels = levels.OWN
        self._identity = ""  # of a folder that was made with one, hexadecimal; at a worker k, of its node's
        self._is_told = False  # a worker k, where its node stands
        self.wants_sync = False
        self._cluster = cluster
        self._touch = touch
        self._host = host
        self._groups = host.groups
        self._memory = host.memory
        self._random_bytes = random_bytes
        self.output: dict[str, list[bytes]] = {}
        self._is_patient = True
        self._on_admitted: Callable[[str, int], None]
        self._on_dismissed: Callable[[str, int], None]
        self._on_farewell: Callable[[str, bytes, int], bool]

    def listen(
        self,
        admitted: Callable[[str, int], None],
        dismissed: Callable[[str, int], None],
        farewell: Callable[[str, bytes, int], bool],
    ) -> None:
        """Who hears that what a node says counts, and that it does not any more; and who looks whether a frame is the
        word that counts from everybody: that this node is no member."""
        self._on_admitted, self._on_dismissed, self._on_farewell = admitted, dismissed, farewell

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def reason(self) -> str:
        """Why this folder is not to be used any more; "" if it is."""
        return self._memory.reason

    @property
    def is_over(self) -> bool:
        """Whether the folder was given up, and says so on the disk."""
        return bool(self.reason) and self._memory.position <= self._cluster.synced_position

    def has_met(self, name: str) -> bool:
        """Whether this node remembers something of another one."""
        return name in self._memory.witnesses

    def is_admitted(self, name: str) -> bool:
        """Whether what this one says counts."""
        link = self.links.get(name)
        return link is not None and link.is_admitted

    @property
    def own_level(self) -> int:
        """The newest level that this node speaks."""
        return self.levels.most

    def level_of(self, name: str) -> int:
        """The newest level that a linked node speaks; the first one until it counts."""
        link = self.links.get(name)
        return link.levels.most if link is not None and link.is_admitted and link.levels is not None else levels.FIRST

    def older_versions(self) -> list[str]:
        """Who is linked, and of a version that says nothing of generations and folders that were added."""
        return [name for name, link in self.links.items() if link.is_admitted and not link.is_current]

    # -- the folder ----------------------------------------------------------------------------------------------------

    def take_folder(self, known: KnownMembers | None, *, joins: bool) -> None:
        """What the MEMBERS file says of the folder. For a node that has not been recovered yet."""
        self.joins = joins and not self._is_worker
        if known is not None:
            self.joined_at, self.generation, self._identity = known.since, known.generation, known.identity
            self.replaces = known.replaces

    def describe_folder(self, members: tuple[MemberAddress, ...], *, joins: bool) -> KnownMembers:
        """What its MEMBERS file has to say, with these members."""
        own = self._cluster.own_node
        # A journal that is emptied goes on under the same identity, so that its lives are missed.
        identity = self._memory.identity.hex() or self._identity
        return KnownMembers(own, members, joins, self.joined_at, identity, self.generation, self.replaces)

    @property
    def _belongs_nowhere(self) -> bool:
        """The folder was made to be added to a cluster, and has not been: it has promised nothing."""
        groups = self._groups.values()
        return self.joins and not any(group.members or group.learners for group in groups)

    # -- inputs --------------------------------------------------------------------------------------------------------

    def open(self, timers: Timers, now: int) -> None:
        """A life begins."""
        self._memory.open(self._cluster.port, self._random_bytes, bytes.fromhex(self._identity))
        self.wants_sync = True
        self._touch()
        timers.at(now + self._host.election_timeout_max_ms, self._be_patient_no_more)
        self._tell_later(timers, now)

    def link_up(self, name: str, now: int) -> None:
        """There is a link to another node."""
        if self.reason:
            return
        self.links[name] = link = Acquaintance()
        if are_beside(name, self._cluster.own_node):
            link.levels, link.is_current = self.levels, True
            if not self._is_worker:
                self._introduce(name)
            self._admit(name, now)
        elif self._is_with_worker(name):
            if self._is_told or not self._is_worker:
                self._introduce(name)
        elif not self._memory.is_open:  # a node that has no others, as far as it knows
            self._admit(name, now)
        else:
            self._begin_to_greet(name)

    def _begin_to_greet(self, name: str) -> None:
        """As soon as this life is on the disk."""
        link = self.links[name]
        link.greets = True
        if link.remembers:
            self._record(name, link)
        if self._memory.position <= self._cluster.synced_position:
            self._greet(name)
        else:
            self.wants_sync = True
            self._touch()

    def link_down(self, name: str, now: int) -> None:
        """It is gone."""
        self.output.pop(name, None)
        link = self.links.pop(name, None)
        if link is not None and link.is_admitted:
            self._on_dismissed(name, now)
        if link is not None and link.is_strange and not self.reason:
            self._admit_all(now)

    def receive(self, name: str, frame: bytes, now: int) -> bytes | None:
        """A frame of one that is not admitted. Returns it if it counts all the same."""
        link = self.links.get(name)
        if link is None:
            return None
        if frame.startswith(_HEAD):
            self.on_said(name, frame[len(_HEAD) :], now)
            return None
        if self.reason or self._is_worker or name != node_of_worker(name) or self._is_refused(name, link):
            return None
        if self._on_farewell(name, frame, now) or link.point is not None:
            return None
        if self.has_met(name):
            self.refusals.warn(name, "once it said who it is, and now it does not: is it of an older version?")
            return None
        if self._cluster.level > levels.FIRST:
            self.refusals.warn(name, levels.why_refused(levels.read_levels(None), self._cluster.level, self.levels))
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
            if link.greets and link.told is None and not link.is_admitted and self._memory.position <= position:
                self._greet(name)
            if link.remembers and not link.is_on_disk:
                self._record(name, link)
        self._admit_all(now)

    def member_removed(self, name: str, index: int, now: int) -> None:
        """By the metadata, at this index."""
        for other in [each for each in self._memory.witnesses if each != name == node_of_worker(each)]:
            known = self._memory.witness_of(other)
            if known is not None and known.as_of < index:
                self._memory.forget(other)
        witness = self._memory.witness_of(name)
        if witness is None or witness.as_of >= index:
            return  # it has been added again since: this is an old entry that is applied once more
        self._memory.forget(name)
        link = self.links.get(name)
        if link is not None and link.since < index:
            link.is_removed = True
        if link is not None and not link.is_admitted and link.told is not None and not self.reason:
            self._greet(name)

    def member_added(self, name: str, index: int, now: int) -> None:
        """By the metadata, at this index; maybe with a new folder, and its old one is still linked."""
        for other, each in list(self.links.items()):
            is_of_it = other != name == node_of_worker(other)
            if is_of_it and self._is_of_old_folder(other, each, index):
                each.greets = False
                self._leave([other], now)
        link = self.links.get(name)
        if link is None or link.point is None or self.reason:
            return
        if not link.is_removed and not self._is_another(name, link.point, link.since, index):
            return
        self.refusals.warn(name, self._why_another(name, link.point))
        self._leave([name], now)
        self.links[name] = Acquaintance()  # nothing that was said on it counts any more, and it greets no second time
        self.links[name].generation, self.links[name].greets = link.generation, link.greets
        if link.told is not None:
            self._greet(name)

    def members_replaced(self, members: dict[str, str], index: int, now: int) -> None:
        """The metadata are others."""
        for name in members:
            self.member_added(name, index, now)
        known = dict.fromkeys(map(node_of_worker, self._memory.witnesses))
        for name in [name for name in known if members and name not in members]:
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
            self.wants_sync = True
            self._touch()

    # -- what they say -------------------------------------------------------------------------------------------------

    def on_said(self, name: str, payload: bytes, now: int) -> None:
        """The octets of a frame of this kind."""
        link = self.links.get(name)
        if link is None or self.reason:
            return
        try:
            said = json.loads(payload)
            point = read_point(said["point"]) if "point" in said else None
            what = said["what"]
            if what == WORKER:
                self._on_worker(name, link, said, now)
                return
            if what in (GREETING, GENERATION):
                link.is_current = "generation" in said
                link.levels = levels.read_levels(said.get("levels"))
                self._hear_generation(name, link, said.get("generation", FIRST), bool(said.get("replaces")), now)
            if self.reason or self._is_refused(name, link) or (self._is_with_worker(name) and not link.greets):
                return
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
                self.refusals.warn(name, f"it has forgotten what it has promised, and ends: {said['text']}")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            log.error("%s says what it remembers in a way that is not understood: %s", name, error)
            return
        self._admit_all(now)

    def _on_greeting(self, name: str, link: Acquaintance, said: JsonObject, point: Point | None, now: int) -> None:
        seen = read_point(said["seen"]) if said["seen"] is not None else None
        leads = {int(group_id): (int(term), int(index)) for group_id, (term, index) in said["leads"].items()}
        link.point, link.since = point, int(said.get("since", 0))
        if link.remembers:
            self._record(name, link)  # it has said so before it could say who it is
        recorded = Point(bytes.fromhex(said.get("recorded", "")), 0, 0, 0)  # of its lives the metadata know nothing
        missing = ""
        for known, as_of in ((seen, said["as_of"]), (recorded, said.get("applied", 0))):
            if known is None or not known.identity or missing or self._is_made_anew(known, int(as_of)):
                continue
            missing = self._memory.missing(known)
            if missing and self._is_waiting_to_join(known):
                log.info("%s knows this node under an earlier folder, and not yet that it was added anew", name)
                return
            if missing and self._is_strange(name, link, known):
                link.is_strange = True
                self.refusals.warn(name, self._why_strange(name, link, known))
                if not self._are_most(sum(each.is_strange for each in self.links.values())):
                    return
        if seen is not None and seen.identity == self._memory.identity:  # else it is of another one that it has heard
            missing = missing or self._unacknowledged(leads)
        if missing:
            self._forget(name, missing, now)
            return
        link.is_strange = False
        link.knows_it = seen is not None and seen.identity == self._memory.identity
        self._say(name, REMEMBERS)

    # -- workers -------------------------------------------------------------------------------------------------------

    @property
    def _is_worker(self) -> bool:
        """Whether this is a worker k."""
        own = self._cluster.own_node
        return own != node_of_worker(own)

    def _introduce(self, name: str) -> None:
        """Say who this is, on a link of which one end is a worker k."""
        identity = self._identity if self._is_worker else self._memory.identity.hex() or self._identity
        self._say(
            name, WORKER, generation=self.generation, replaces=self.replaces, levels=self.levels,
            since=self.joined_at, identity=identity, has_promised=self._memory.is_open,
        )  # fmt: skip

    def _is_with_worker(self, name: str) -> bool:
        """Whether one end of a link is a worker k."""
        return self._is_worker or name != node_of_worker(name)

    def _on_worker(self, name: str, link: Acquaintance, said: JsonObject, now: int) -> None:
        own = self._cluster.own_node
        generation, since, identity = int(said["generation"]), int(said["since"]), str(said["identity"])
        if are_beside(name, own):
            if name == node_of_worker(own):
                is_new = not self._is_told or generation != self.generation
                self.generation, self.replaces = generation, bool(said["replaces"])
                self.joined_at, self._identity = since, identity
                self._is_told = True
                for other, each in list(self.links.items()):
                    if not are_beside(other, own) and is_new:
                        self._introduce(other)
                        self._weigh(other, each, now)
            return
        link.levels, link.is_current = levels.read_levels(said["levels"]), True
        link.generation, link.since, link.folder = generation, since, identity
        link.has_promised = bool(said.get("has_promised"))
        self._weigh(name, link, now)

    def _weigh(self, name: str, link: Acquaintance, now: int) -> None:
        """Whether what one says counts that has said who it is."""
        if link.levels is None or link.is_admitted or (self._is_worker and not self._is_told):
            return
        if compare(self.generation, link.generation) is not Standing.SAME:
            self._refuse(name, link.generation)
        elif self._is_of_old_folder(name, link, self._applied):
            self.refusals.warn(name, "its folder is an old one of its node, which the cluster has added with another")
        elif self._is_of_another_level(name, link):
            return
        elif not link.has_promised or not self._memory.is_open:
            self._admit(name, now)
        elif not link.greets:
            self._begin_to_greet(name)
            self._admit_all(now)

    def _is_of_old_folder(self, name: str, link: Acquaintance, applied: int) -> bool:
        """Whether the metadata, applied up to there, have another folder for a worker's node. Those of this node
        have no other than this one."""
        if are_beside(name, self._cluster.own_node):
            return False
        identity = self._cluster.recorded_identity(node_of_worker(name))
        return bool(identity) and link.folder != identity and link.since <= applied

    # -- generations and levels ----------------------------------------------------------------------------------------

    def _hear_generation(self, name: str, link: Acquaintance, theirs: int | None, replaces: bool, now: int) -> None:
        """theirs: None of a node that belongs to no cluster yet, and will take this node's. replaces: earlier ones."""
        link.generation = self.generation if theirs is None else int(theirs)
        if compare(self.generation, link.generation) is not Standing.LATER:
            return
        if self._belongs_nowhere:
            self.generation, self.replaces = link.generation, replaces
            for other, each in list(self.links.items()):
                if are_beside(other, self._cluster.own_node):
                    self._introduce(other)
                elif each.generation != self.generation:
                    self._leave([other], now)
            return
        if not replaces:
            return  # it is refused
        own = self._cluster.own_node
        self.give_up(why_over(own, self.generation, name, link.generation))
        log.warning("%s is of a later generation of the cluster: this node ends", name)
        self.output.clear()
        self._leave(self.links, now)

    def _is_refused(self, name: str, link: Acquaintance) -> bool:
        """Whether nothing counts that it says."""
        if compare(self.generation, link.generation) is Standing.SAME:
            return self._is_of_another_level(name, link)
        self._refuse(name, link.generation)
        if link.told is None and self._memory.is_open:  # it is to know why
            link.told = self._point()
            self._say(name, GENERATION, generation=self.generation, replaces=self.replaces)
        return True

    def _is_of_another_level(self, name: str, link: Acquaintance) -> bool:
        """Of the same generation. One that has not said yet what it speaks is not refused for that."""
        if link.levels is None:
            return False
        why = levels.why_refused(link.levels, self._cluster.level, self.levels)
        if why:
            self.refusals.warn(name, why)
        return bool(why)

    def _refuse(self, name: str, theirs: int) -> None:
        is_later = compare(self.generation, theirs) is Standing.LATER
        self.refusals.refuse(name, (why_strange if is_later else why_refused)(self.generation, theirs))

    def refusal(self, name: str, frame: bytes) -> list[bytes]:
        """What one is told whose first frame this is, and which is not let in while another link to that member counts;
        nothing for who may take its place."""
        if not frame.startswith(_HEAD) or self.reason:
            return []
        try:
            said = json.loads(frame[len(_HEAD) :])
            theirs = said.get("generation", FIRST)
            standing = Standing.SAME if theirs is None else compare(self.generation, int(theirs))
        except (ValueError, TypeError, AttributeError):
            return []
        if standing is Standing.SAME or (standing is Standing.LATER and said.get("replaces")):
            return []
        is_later = standing is Standing.LATER
        why = (why_strange if is_later else why_refused)(self.generation, int(theirs))
        self.refusals.warn(f"another {name}", why)
        return [self._own_generation()]

    def _own_generation(self) -> bytes:
        said = {"what": GENERATION, "generation": self.generation, "replaces": self.replaces}
        return _HEAD + json.dumps(said).encode()

    def _leave(self, names: Iterable[str], now: int) -> None:
        """What these say counts no more."""
        for name in list(names):
            if self.links[name].is_admitted:
                self.links[name].is_admitted = False
                self._on_dismissed(name, now)

    def _is_made_anew(self, seen: Point, as_of: int) -> bool:
        """What was seen was an earlier folder: this one was added after that."""
        return seen.identity != self._memory.identity and self.joined_at > as_of

    def _is_waiting_to_join(self, seen: Point) -> bool:
        """It has promised nobody anything yet."""
        return seen.identity != self._memory.identity and self.joins and not self.joined_at

    def _is_strange(self, name: str, link: Acquaintance, known: Point) -> bool:
        """Whether one that knows this node under another folder is itself known under another one."""
        witness = self._memory.witness_of(name)
        if witness is None or link.point is None or known.identity == self._memory.identity:
            return False
        return witness.point.identity != link.point.identity and link.since <= witness.as_of

    def _why_strange(self, name: str, link: Acquaintance, known: Point) -> str:
        witness, point = self._memory.witness_of(name), link.point
        assert witness is not None
        assert point is not None
        before = witness.point
        return (
            f"its folder is {_shown(point)}, and this one knows it with {_shown(before)}; it knows this node with "
            f"{_shown(known)}, whose folder is {self._memory.identity.hex()[:8]}: one of the two is of another "
            f"cluster. The one that most members contradict ends; if they are not there, stop the one whose folder or "
            f"address is wrong"
        )

    def _are_most(self, count: int) -> bool:
        """Whether so many are a majority of those with whom this node has groups, itself included."""
        return 2 * count > len(set(self._cluster.to_be_heard()) | {self._cluster.own_node})

    def _is_another(self, name: str, point: Point, since: int, applied: int) -> bool:
        """Whether the metadata, applied up to there, have another folder for a member than that of this point."""
        identity = self._cluster.recorded_identity(name)
        return bool(identity) and point.identity.hex() != identity and since <= applied

    def _why_another(self, name: str, point: Point) -> str:
        shown, recorded = point.identity.hex()[:8], self._cluster.recorded_identity(name)[:8] or "another one"
        return f"its folder is {shown}, and the cluster has added it with {recorded}: it is an old one of its name"

    def _unacknowledged(self, leads: dict[int, tuple[int, int]]) -> str:
        """What the leader of a group has from this node, and its log has not."""
        for group_id, (term, index) in leads.items():
            group = self._groups.get(group_id)
            if group is None or group.term > term:
                continue  # a later leader may have cut it, or has let this node go
            if group.term < term or group.last_index < index:
                return (
                    f"it had acknowledged entry {index} of group {group_id} in term {term}, and this folder ends at "
                    f"entry {group.last_index} in term {group.term}: it is an older copy"
                )
        return ""

    def _forget(self, name: str, missing: str, now: int) -> None:
        own = self._cluster.own_node
        node = node_of_worker(own)
        reason = (
            f"this folder has forgotten what {name} knows of node {own}: {missing}. It must not be used: what it has "
            f"confirmed could be lost. Bring the node back with `amqp-broker cluster rejoin --node-name {node} ...`, "
            f"which gives it a new folder and a vote once it has caught up"
        )
        self.give_up(reason)
        log.warning("%s knows more of this node than its folder does: it ends", name)
        self.output.clear()
        self._leave(self.links, now)
        for other in self.links:
            self._say(other, FORGOTTEN, text=missing)

    def _on_point(self, name: str, link: Acquaintance, point: Point) -> None:
        members = self._cluster.recorded_members()
        if link.is_admitted and not link.is_removed and (not members or node_of_worker(name) in members):
            link.point = point
            self._memory.saw(name, point, max(self._applied, link.since))

    # -- what this node says -------------------------------------------------------------------------------------------

    @property
    def _applied(self) -> int:
        return self._cluster.last_applied

    def _point(self) -> Point:
        return self._memory.point(self._host.promised_position)

    def _greet(self, name: str) -> None:
        link = self.links[name]
        link.told = self._point()
        witness: Witness | None = self._memory.witness_of(name)
        leads = {}
        for group_id, group in self._groups.items():
            role, member = group.member.role, self._host.member_at(group_id, name)
            if isinstance(role, Leadership) and member in role.progress and role.progress[member].match_index:
                leads[group_id] = [role.term, role.progress[member].match_index]
        recorded = Point(bytes.fromhex(self._cluster.recorded_identity(name)), 0, 0, 0)
        # Versions that know nothing of `recorded` know this.
        seen = witness.point if witness is not None else recorded if recorded.identity else None
        self._say(
            name,
            GREETING,
            generation=None if self._belongs_nowhere and not self.generation else self.generation,
            replaces=self.replaces,
            levels=self.levels,
            point=show_point(link.told),
            since=self.joined_at,
            seen=show_point(seen) if seen is not None else None,
            as_of=witness.as_of if witness is not None else self._applied,
            recorded=recorded.identity.hex(),
            applied=self._applied,
            leads=leads,
        )

    def _record(self, name: str, link: Acquaintance) -> None:
        """Have on the disk where the other one is."""
        if link.point is None:
            return
        if self._is_another(name, link.point, link.since, self._applied):
            self.refusals.warn(name, self._why_another(name, link.point))
            return
        witness = self._memory.witness_of(name)
        if witness is None or witness.point != link.point:
            self._memory.saw(name, link.point, max(self._applied, link.since))
        if self._memory.written(name) <= self._cluster.synced_position:
            link.is_on_disk = True
        else:
            self.wants_sync = True
            self._touch()

    def _tell_later(self, timers: Timers, now: int) -> None:
        def tell(now: int) -> None:
            if self.reason:
                return
            point = self._point()
            for name, link in self.links.items():
                if link.is_admitted and link.point is not None and link.told != point:
                    link.told = point
                    self._say(name, POINT, point=show_point(point))
            self._tell_later(timers, now)

        timers.at(now + TELL_MS, tell)

    def _say(self, name: str, what: str, **fields: object) -> None:
        octets = json.dumps({"what": what, **fields}).encode()
        self.output.setdefault(name, []).append(_HEAD + octets)
        self._touch()

    def introduction(self) -> list[bytes]:
        """What goes before the only word that somebody is told who is no member. Not in the first generation: it says
        nothing that silence does not, and versions without generations need not hear it."""
        if self.generation == FIRST:
            return []
        return [self._own_generation()]

    def take_output(self) -> list[tuple[str, list[bytes]]]:
        """Frames for each node, before whatever else it is sent."""
        taken = list(self.output.items())
        self.output.clear()
        return taken

    # -- admission -----------------------------------------------------------------------------------------------------

    def _admit_all(self, now: int) -> None:
        if self._is_patient and all(self._is_heard(name) for name in self._cluster.to_be_heard()):
            self._is_patient = False
        if self._is_patient or self._is_in_doubt:
            return
        for name, link in list(self.links.items()):
            if link.is_on_disk and not link.has_said_so:
                link.has_said_so = True
                self._say(name, RECORDED)
            if link.has_said_so and link.is_recorded and link.greets and not link.is_admitted:
                self._admit(name, now)

    @property
    def _is_in_doubt(self) -> bool:
        """Whether this node or one that it is linked with is of another cluster, and it is not known which."""
        if not any(link.is_strange for link in self.links.values()):
            return False
        return not self._are_most(1 + sum(link.knows_it and link.remembers for link in self.links.values()))

    def _is_heard(self, name: str) -> bool:
        link = self.links.get(name)
        return name == self._cluster.own_node or (link is not None and (link.is_on_disk or link.is_admitted))

    def _be_patient_no_more(self, now: int) -> None:
        self._is_patient = False
        if not self.reason:
            self._admit_all(now)

    def _admit(self, name: str, now: int) -> None:
        self.links[name].is_admitted = True
        self.refusals.let_in(name)
        self._on_admitted(name, now)
