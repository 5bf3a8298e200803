"""Membership: brings every group to have the members that the metadata name, and leaders where they should be.

    cluster.add, cluster.remove -> member.put, member.remove -> metadata, on every node
    -> whoever leads a group adds who is missing there, and removes who is left over, one at a time, until it agrees

Nobody has to be asked, and nothing is forgotten when a leader dies halfway: the next one looks again.

The first members are those of the metadata group itself; its leader tells them to the metadata, once. A node sees to
its own address there.

Invariants:
1. Nobody is removed from a group but after `member.remove`: groups are left alone while the metadata name nobody, or
   fewer than half of those in the group.
2. A link is kept to everybody who is in the metadata, or still in a group.
3. The setting `cluster` of a node overrules the addresses of the metadata, on this node.
4. A node that is removed goes on voting until a majority of the members has released it, because no group that they
   know of has it any more; or until nobody has talked to it for a while. If it has started again meanwhile, it does not
   know that it is removed, and cannot get ready: the others ask it to hand over what it leads.
5. Nobody is added again before all groups are rid of it for certain: of each group a majority of its members has said
   so of configurations that are committed, and after it had heard of the removal (`has_left`). One leader's log, or one
   member's, may still be cut.
6. Who was away while members came has links with them all the same: it believes those members who have applied more of
   the metadata than itself. Otherwise a new member that leads could never tell it that there is one.
7. Workers are no members: nobody adds, removes or releases them. Each process links with the workers of all others that
   the metadata name (`worker_addresses`), all behind the address of their member.
8. A worker that has groups brings those that it leads to their members, and says to its worker 0 who is in them. What
   worker 0 says and does for its node counts when all of them have said so.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from amqp_broker.cluster.balance import plan_moves
from amqp_broker.links.frame_kinds import FrameKind
from amqp_broker.links.levels import RACKS, SOME_MEMBERS, WORKERS
from amqp_broker.links.tenants import head_of
from amqp_broker.metadata import commands
from amqp_broker.metadata.group_placing import place_groups
from amqp_broker.settings.kinds import Address, parse_address
from amqp_broker.settings.workers import are_beside, node_of_worker, worker_name
from raft.membership import MembershipResult, TransferResult
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from amqp_broker.cluster.balance import Move
    from amqp_broker.cluster.group_places import GroupPlaces
    from amqp_broker.cluster.replication import Replication
    from amqp_broker.cluster.transfers import Transfers
    from amqp_broker.links.tenants import Tenants
    from amqp_broker.metadata.metadata import Metadata
    from amqp_broker.settings.config import Config
    from queues.timers import Timers
    from raft.group import Group

log = logging.getLogger("amqp_broker.cluster")

#: How often it looks, milliseconds.
LOOK_MS = 500
#: The same while the cluster is being founded: clients are there already, and may want what all members can.
_FOUNDING_LOOK_MS = 50
#: All members have been linked for so long before leaders are spread by themselves, milliseconds.
CALM_MS = 30_000
_FAREWELL = head_of(FrameKind.RELEASE)
_ANY_HOST = ("0.0.0.0", "::", "")


class Membership:
    """See the module's docstring. version: rises when `addresses` are others. known: where members were last known to
    be, for as long as the metadata are not read; the driver sets it. is_removed: this node is no member any more, and
    nobody needs it. is_ready: whether the node's metadata are those of the cluster. why_not_leading: what keeps
    this node from leading anything, "" where nothing does. give_cluster_id: proposes one, unless there is one."""

    def __init__(
        self,
        config: Config,
        replication: Replication,
        tenants: Tenants,
        transfers: Transfers,
        metadata: Metadata,
        places: GroupPlaces,
        timers: Timers,
        is_ready: Callable[[], bool],
        why_not_leading: Callable[[], str],
        give_cluster_id: Callable[[], None],
    ) -> None:
        self.version = 0
        #: Who has said that this node is no member, on a link that was for no more than that.
        self.dismissed_by: dict[str, None] = {}
        self.known: dict[str, Address] = {}
        self._own_workers: tuple[int, ...] = ()
        self._own_closing: tuple[int, ...] = ()
        self.is_removed = False
        self._config = config
        self._replication = replication
        self._acquaintances = replication.acquaintances
        self._transfers = transfers
        self._metadata = metadata
        self._places = places
        self._timers = timers
        self._is_ready = is_ready
        self._why_not_leading = why_not_leading
        self._give_cluster_id = give_cluster_id
        self._own_address = self._find_own_address()
        self._addresses: dict[str, Address] = {}
        self._calm_since: int | None = None
        self._has_spread = False
        self._lists_seen = metadata.group_generation
        self._told: dict[int, MembershipResult] = {}
        self._released: dict[str, None] = {}  # whom this node has told so,
        self._leaving: dict[str, None] = {}  # and only now
        self._releasing: dict[str, None] = {}  # who has told this node so
        self._at_workers: dict[str, dict[int, list[str]]] = {}  # who is in the groups that other workers have
        self._lonely_since: int | None = None
        self._heard: dict[str, tuple[int, dict[str, Address]]] = {}  # by who has said it: an index, and the members
        self._groupings: dict[str, tuple[int, list[str]]] = {}  # the same: an index, and who is in a group for certain
        self._removed_at: dict[str, int] = {}  # who is none any more, and the index
        self._said: tuple[int, list[str] | None] = (0, None)
        replication.watch_removals(self.member_removed)
        self._send_members = tenants.register(FrameKind.MEMBERS, self._on_members)
        self._send_release = tenants.register(FrameKind.RELEASE, self._on_release)

    def _find_own_address(self) -> Address | None:
        """Where the others reach this node, as far as its settings say."""
        config = self._config
        for name, address in config.cluster:
            if name == node_of_worker(config.node_name):
                return address
        return next((each for each in config.cluster_listen if each.port and each.host not in _ANY_HOST), None)

    @property
    def places(self) -> tuple[int, int, bool]:
        """While these are the same, so is `worker_addresses`."""
        return self._metadata.place_generation, self._metadata.level, self._is_ready()

    @property
    def own_address(self) -> Address | None:
        """Where the others reach this node; None if they cannot."""
        return self._own_address

    # -- who is a member -----------------------------------------------------------------------------------------------

    def remember(self, known: Iterable[tuple[str, Address]]) -> None:
        """Where members were when this node stopped. Before `start`."""
        self.known = dict(known)

    def have_workers(self, numbers: tuple[int, ...], closing: tuple[int, ...]) -> None:
        """Which workers this node has besides worker 0, and which of them are to be emptied: the others are told."""
        self._own_workers, self._own_closing = numbers, closing

    def start(self, now: int) -> None:
        """The node is ready. At a worker k, for the groups that it has."""
        self._look(now)
        self._say_members(self._replication.linked_members())  # those that came before it could say anything

    def addresses(self) -> dict[str, Address]:
        """The nodes to have links with, and where they are."""
        config, replication = self._config, self._replication
        recorded = {} if not self._is_ready() else self._metadata.members()
        names = dict.fromkeys(recorded)
        if recorded:
            names |= self.grouped() | self._leaving
        else:
            names = dict.fromkeys((*config.others, *self.known))
        found: dict[str, Address] = {}
        heard = self._heard_of()
        for name in sorted({**names, **heard}):
            address = config.others.get(name) or _address(recorded.get(name)) or self.known.get(name)
            address = address or self._addresses.get(name) or heard.get(name)
            if address is not None and name != replication.own_node:
                found[name] = address
        return found

    def worker_addresses(self) -> dict[str, Address]:
        """Of the workers of the other members; at a worker k, which looks after no members, of these too. None below
        the level with which workers came: members of earlier versions do not know their names."""
        metadata, others, host = self._metadata, self._config.others, self._places.own_host
        found: dict[str, Address] = {}
        if metadata.level < WORKERS or (not self._is_ready() and not self._config.worker):
            return found
        for name, text in metadata.members().items():
            address = others.get(name) or _address(text) or self._addresses.get(name)
            if name == host or address is None:
                continue
            if self._config.worker:
                found[name] = address
            found |= {worker_name(name, each): address for each in metadata.workers_of(name).numbers}
        return found

    def take_addresses(self) -> dict[str, Address]:
        """The same, for the driver, which keeps links with these until `version` is another one. They may be others
        than those for which it was raised."""
        self._addresses = self.addresses()
        return self._addresses

    def _heard_of(self) -> dict[str, Address]:
        """Members that this node's own metadata may not have yet."""
        found: dict[str, Address] = {}
        for name, (index, members) in self._heard.items():
            if self._replication.is_connected(name) and index > self._replication.last_applied:
                found |= members
        return found

    def peer_connected(self, name: str) -> None:
        """There is a link to a node: it may have been away."""
        self._heard.pop(name, None)
        self._groupings.pop(name, None)
        self._at_workers.pop(name, None)
        if name == node_of_worker(name) and not self._config.worker:
            self._say_members([name])

    def _say_members(self, names: Collection[str]) -> None:
        recorded = self._metadata.members() if self._is_ready() and not self._config.worker else {}
        if recorded:
            index, grouped = self._said = self._what_to_say()
            octets = json.dumps({"index": index, "members": dict(recorded), "grouped": grouped}).encode()
            for name in names:
                self._send_members(name, octets)

    def _say_to_worker_0(self) -> None:
        """Who is in the groups that this worker has."""
        index, grouped = self._what_to_say()
        groups = {
            str(each.group_id): [*each.members, *each.learners]
            for each in self._replication.groups() if self._places.is_here(each.group_id)
        }  # fmt: skip
        said = {"index": index, "members": {}, "grouped": grouped, "groups": groups}
        self._send_members(self._places.own_host, json.dumps(said).encode())

    def _on_members(self, name: str, payload: bytes, now: int) -> None:
        try:
            said = json.loads(payload)
            members = {member: _address(text) for member, text in said["members"].items()}
            grouped = said.get("grouped")
            self._heard[name] = (int(said["index"]), {each: there for each, there in members.items() if there})
            if grouped is not None:
                self._groupings[name] = (int(said["index"]), list(grouped))
            if "groups" in said and are_beside(name, self._replication.own_node):
                self._at_workers[name] = {int(group): list(names) for group, names in said["groups"].items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            log.error("%s says who is a member in a way that is not understood: %s", name, error)
            return
        self._look_at_addresses()

    def _look_at_addresses(self) -> bool:
        """Whether they are others than those that the driver was told of."""
        addresses = self.addresses()
        if addresses == self._addresses:
            return False
        self._addresses = addresses
        self.version += 1
        return True

    def grouped(self) -> dict[str, None]:
        """Everybody who is in a group, as far as this node knows."""
        groups = self._replication.groups()
        found = dict.fromkeys(name for group in groups for name in (*group.members, *group.learners))
        for said in self._at_workers.values():
            found |= dict.fromkeys(name for names in said.values() for name in names)
        return found

    def _have_all_said(self) -> bool:
        """Whether all workers of this node that have groups have said who is in them. At worker 0."""
        return self._config.worker > 0 or all(name in self._at_workers for name in self._places.others_with_groups)

    def _what_to_say(self) -> tuple[int, list[str] | None]:
        """Up to where the metadata are applied, and who is in a group; None while that may still be taken back. At
        worker 0 of all of the node's groups."""
        groups, index = self._replication.groups(), self._replication.last_applied
        found = {name for group in groups for name in (*group.members, *group.learners)}
        is_certain = all(group.has_settled_members for group in groups)
        for name in () if self._config.worker else self._places.others_with_groups:
            heard = self._groupings.get(name)
            if heard is None:
                is_certain = False
            else:
                index = min(index, heard[0])
                found |= {*heard[1]}
        return index, sorted(found) if is_certain else None

    def member_removed(self, name: str, index: int) -> None:
        """By the metadata, at this index."""
        self._removed_at[name] = index

    def has_left(self, name: str) -> bool:
        """Whether no group has this one any more, and none can have it again without its being added.

        Where it had once been a voter, that is in the log of somebody of every majority of the others. So if of a
        majority each has found it in no configuration, and the latest ones committed, its removal is committed."""
        index, grouped = self._what_to_say()
        since = self._removed_at.get(name, self._replication.read_index)
        rid = {other for other, (heard, found) in self._groupings.items() if heard >= since and name not in found}
        rid = {other for other in rid if self._replication.is_connected(other)}
        if grouped is not None and name not in grouped and index >= since:
            rid.add(self._places.own_host)
        return all(self._are_rid(group, rid) for group in self._replication.groups())

    def _are_rid(self, group: Group, rid: Collection[str]) -> bool:
        """Whether so many of a group are rid of somebody that it is certain. Of a group in which this node is not, all
        that the metadata name have to be: they may be fewer than its members are still."""
        members = group.members or self._said_of(group.group_id)
        if members or not group.group_id:
            return 2 * sum(other in rid for other in members) > len(members)
        return all(other in rid for other in self.wanted(group.group_id))

    @property
    def is_settled(self) -> bool:
        """Whether no change of members is going on, as far as this node knows."""
        groups = [group for group in self._replication.groups() if not self.is_guest_of(group)]
        return all(
            {*group.members, *group.learners, *self._said_of(group.group_id)} == set(self.wanted(group.group_id))
            for group in groups
        )

    def _said_of(self, group_id: int) -> Collection[str]:
        """Who is in a group that another worker of this node has, as that one has said it; nobody, if it has not."""
        if self._places.is_here(group_id) or self._config.worker:
            return ()
        said = self._at_workers.get(self._places.process_of(group_id, self._places.own_host), {})
        return said.get(group_id, ())

    def wanted(self, group_id: int) -> Collection[str]:
        """Who is to be in a group: those that the metadata name for it, or all nodes."""
        return (self._metadata.group_members(group_id) if group_id else ()) or self._metadata.members()

    def is_guest_of(self, group: Group) -> bool:
        """Whether this node is not in a group, and is not to be."""
        return group.is_outside and self._places.own_host not in self.wanted(group.group_id)

    def _look(self, now: int) -> None:
        recorded = self._metadata.members()
        is_founding = self._replication.is_clustered and self._is_founding(recorded)
        self._timers.at(now + (_FOUNDING_LOOK_MS if is_founding else LOOK_MS), self._look)
        if recorded:
            for group in self._replication.groups():
                self._reconcile(group, recorded)
        if self._config.worker:
            self._say_to_worker_0()
        else:
            self._look_after_node(recorded, now)
        if self._why_not_leading():
            self.give_up_leading()
        elif not self._config.worker:
            self._spread_after_calm(now)

    def _is_founding(self, recorded: Mapping[str, str]) -> bool:
        """Whether what all can do, or where this node is, is about to be known for the first time."""
        metadata, own = self._metadata, self._replication.own_node
        if not recorded or self._level_of_all(recorded) > metadata.level:
            return True
        return metadata.level >= RACKS and own in recorded and own not in metadata.member_racks()

    def _look_after_node(self, recorded: Mapping[str, str], now: int) -> None:
        """What worker 0 does for its node."""
        self._register(recorded)
        self._raise_level(recorded)
        self._identify_cluster()
        self._place_groups(recorded)
        if recorded:
            self._release(recorded)
            self._look_for_release(recorded, now)
        if self._look_at_addresses() or self._said != self._what_to_say():
            self._say_members(self._replication.linked_members())

    def give_up_leading(self) -> None:
        """Nothing gets to the disk here, or the node is drained: as a follower it holds up nobody, and takes no more
        than it can hold. Without a disk it is not elected again."""
        why = self._why_not_leading()
        for group in self._replication.groups():
            if group.is_leader and self.hand_over(group):
                log.warning("group %d: %s: another one is to lead", group.group_id, why)

    def _release(self, recorded: Mapping[str, str]) -> None:
        """Tell those who are in no group any more. Their links stay until the next look, so that they hear of it."""
        if not self._have_all_said():
            return
        grouped = self.grouped()
        linked = self._replication.linked_members()
        released = dict.fromkeys(name for name in linked if name not in recorded and name not in grouped)
        for name in released:
            self._send_release(name, b"")
        self._leaving = {name: None for name in released if name not in self._released}
        self._released = released

    def farewell(self, name: str) -> list[bytes]:
        """What a node is told that is no member, and comes all the same, linked for no more than that; nothing if this
        node does not know it for certain."""
        recorded = self._metadata.members() if self._is_ready() else {}
        host = node_of_worker(name)
        if not recorded or host in recorded or host in self.grouped() or self._config.worker:
            return []
        return [*self._acquaintances.introduction(), _FAREWELL]

    def heard_farewell(self, name: str, frame: bytes, now: int) -> bool:
        """Whether a frame is that; it counts for this node then."""
        if frame != _FAREWELL:
            return False
        self.dismissed_by[name] = None
        self._on_release(name, b"", now)
        return True

    def _on_release(self, name: str, payload: bytes, now: int) -> None:
        group, own = self._replication.metadata_group, self._replication.own_node
        if not self._is_ready() and (not group.members or own in group.learners):
            self._releasing.clear()  # it is just joining, and who says this has not heard of that yet
            return
        self._releasing[name] = None
        if not self._is_ready():
            # It never gets ready: nobody tells it any more of the command that removed it.
            others = [member for member in group.members if member != own]
            if 2 * sum(member in self._releasing for member in others) > len(others):
                self._leave()

    def _look_for_release(self, recorded: Mapping[str, str], now: int) -> None:
        if self._replication.own_node in recorded:
            self._releasing.clear()
            self._lonely_since = None
            return
        if self._replication.linked_members() or self._lonely_since is None:
            self._lonely_since = now
        is_released = 2 * sum(name in recorded for name in self._releasing) > len(recorded)
        if is_released or now - self._lonely_since >= CALM_MS:
            self._leave()

    def _leave(self) -> None:
        """This node is no member any more; its folder says so from now on."""
        self.is_removed = True
        own = self._replication.own_node
        self._acquaintances.give_up(
            f"node {own} was removed from the cluster, and this is the folder that it had then. To come back it needs "
            f"a new one: `amqp-broker cluster join --node-name {own} ...`"
        )

    def _register(self, recorded: Mapping[str, str]) -> None:
        """Tell the metadata of the first members, and where this node is."""
        replication, own = self._replication, self._replication.own_node
        if replication.stream.unapplied:
            return
        address = str(self._own_address) if self._own_address is not None else ""
        if recorded:
            if own in recorded and address and recorded[own] != address:
                replication.propose(commands.put_member(own, address))
            elif own in recorded:
                self._register_rack(own)
                self._register_workers(own)
        elif replication.metadata_group.is_leader and (address or replication.is_clustered):
            others = self._config.others
            for name in replication.metadata_group.members:
                replication.propose(commands.put_member(name, address if name == own else str(others.get(name, ""))))

    def _register_rack(self, own: str) -> None:
        """Also that it is in none: who places groups waits for it."""
        metadata, rack = self._metadata, self._config.rack
        if metadata.level >= RACKS and metadata.member_racks().get(own) != rack:
            self._replication.propose(commands.put_member_rack(own, rack))

    def _register_workers(self, own: str) -> None:
        """Raises StorageError where the cluster knows that other workers of this node have its groups."""
        if self._metadata.level < WORKERS:
            return
        known, groups = self._metadata.workers_of(own), self._places.own_groups
        if own in self._metadata.member_workers() and known.groups != groups:
            raise StorageError(
                f"by the file WORKERS of this folder the groups of quorum queues and streams are at the workers "
                f"{groups or 0}, and the cluster knows them at {known.groups or 0}: restore the whole data folder from "
                f"a copy, or have the node rejoin its cluster with a new one (amqp-broker cluster rejoin)"
            )
        if (known.numbers, known.closing) != (self._own_workers, self._own_closing):
            replication = self._replication
            replication.propose(commands.put_member_workers(own, self._own_workers, self._own_closing, groups))

    def _raise_level(self, recorded: Mapping[str, str]) -> None:
        """If all members are there and speak a later level, the cluster is at it from now on."""
        replication = self._replication
        if not replication.metadata_group.is_leader or replication.stream.unapplied:
            return
        spoken = self._level_of_all(recorded)
        if spoken > self._metadata.level:
            replication.propose(commands.raise_level(spoken))

    def _identify_cluster(self) -> None:
        """A cluster that a version has populated which gave it no id has one from now on."""
        replication, metadata = self._replication, self._metadata
        if replication.metadata_group.is_leader and not replication.stream.unapplied and metadata.vhosts():
            self._give_cluster_id()

    def _place_groups(self, recorded: Mapping[str, str]) -> None:
        """If groups are to be on some of the nodes only, and there are more, those that are on all have a list, once it
        is known in which racks the nodes are."""
        replication, metadata, size = self._replication, self._metadata, self._config.quorum_size
        if not 0 < size < len(recorded) or metadata.level < SOME_MEMBERS:
            return
        if not replication.metadata_group.is_leader or replication.stream.unapplied:
            return
        lists = metadata.group_lists()
        groups = [group_id for group_id in sorted(replication.host.groups) if group_id and group_id not in lists]
        racks = metadata.member_racks()
        if not groups or not all(self.is_linked(name) and name in racks for name in recorded):
            return
        for group_id, nodes in place_groups(groups, lists, metadata.member_places(), size).items():
            log.info("group %d is to be on %s", group_id, ", ".join(nodes))
            replication.propose(commands.put_group_members(group_id, nodes))

    def _level_of_all(self, recorded: Mapping[str, str]) -> int:
        """The latest level that all members speak; the first, where one of them is not there."""
        replication = self._replication
        return min(map(replication.spoken_by, {*recorded, *replication.members(), replication.own_node}))

    # -- groups --------------------------------------------------------------------------------------------------------

    def _reconcile(self, group: Group, recorded: Mapping[str, str]) -> None:
        """The next step towards a group whose members are those recorded, if this node leads it. If somebody leads it
        who was removed, and does not know that because it has just started, this node asks to lead."""
        if not group.is_leader:
            own, leader = self._places.own_host, group.leader
            if leader is not None and leader not in recorded and own in recorded and own in group.members:
                self._transfers.request(group.group_id, own)
            return
        voters, present = group.members, (*group.members, *group.learners)
        wanted = self.wanted(group.group_id)
        missing = [name for name in wanted if name not in present]
        extra = [name for name in present if name not in wanted]
        if wanted is not recorded and missing:
            missing.sort(key=lambda name: self._is_reached(group, name), reverse=True)
        if extra and self._metadata.has_group_lists:
            extra = [name for name in extra if self._leaves_majority(group, name)]
        if missing:
            self._tell(group, missing[0], "add", group.add_member(missing[0]))
        elif wanted is not recorded and any(name in group.learners for name in wanted):
            return  # it has not caught up: nobody goes before it counts
        elif extra and 2 * sum(name in recorded for name in voters) >= len(voters):
            own = self._places.own_host
            others = [name for name in extra if name != own]
            if others:
                self._tell(group, others[0], "remove", group.remove_member(others[0]))
            else:
                self.hand_over(group, wanted)

    def _leaves_majority(self, group: Group, name: str) -> bool:
        """Whether a majority of the others is linked, and has the log as far as it is needed: otherwise a removal would
        stop the group."""
        rest = [each for each in group.members if each != name]
        linked = sum(1 for each in rest if self._is_reached(group, each))
        return 2 * linked > len(rest)

    def _tell(self, group: Group, name: str, what: str, result: MembershipResult) -> None:
        if result is MembershipResult.ACCEPTED:
            log.info("group %d: %s %s", group.group_id, what, name)
        elif result is not MembershipResult.NOT_READY and self._told.get(group.group_id) is not result:
            log.warning("group %d: cannot %s %s: %s", group.group_id, what, name, result.value)
        self._told[group.group_id] = result

    def hand_over(self, group: Group, candidates: Collection[str] | None = None) -> bool:
        """Have the most advanced of the linked voters (among the candidates) lead a group that this node leads. False
        if there is none, or if it is going on already."""
        own = self._places.own_host
        voters = group.members
        best = min(
            (
                (peer.lag, (index + group.group_id) % len(voters), peer.name)
                for index, peer in enumerate(group.statistics().peers)
                if peer.is_connected and peer.name in voters and peer.name != own
                and (candidates is None or peer.name in candidates)
            ),
            default=None,
        )  # fmt: skip
        return best is not None and group.transfer_leadership(best[2]) is TransferResult.STARTED

    # -- leaders -------------------------------------------------------------------------------------------------------

    def plan(self) -> list[Move]:
        """What would spread the leaders evenly over the members that are linked."""
        replication = self._replication
        usable = [name for name in replication.members() if self.is_linked(name)]
        found = {group_id: self._transfers.look(group_id) for group_id in replication.host.groups}
        return plan_moves(
            {group_id: leader for group_id, (leader, _) in found.items()},
            {group_id: voters for group_id, (_, voters) in found.items()},
            usable,
        )

    def is_linked(self, name: str) -> bool:
        """Whether it is this node, or there is a link to it."""
        return name == self._replication.own_node or self._replication.is_connected(name)

    def _is_reached(self, group: Group, name: str) -> bool:
        """Whether there is a link to the process that has a group at a member."""
        return self.is_linked(self._places.process_of(group.group_id, name))

    def spread_again(self) -> None:
        """This node may lead again: whoever leads everything gives some of it away, after a calm."""
        self._has_spread, self._calm_since = False, None

    def _spread_after_calm(self, now: int) -> None:
        """Once all members have been linked for a while, one that leads everything gives some of it away, once. Where
        groups are on some of the nodes, nobody does: who leads the metadata sees to it, and again when these are
        others."""
        replication, metadata = self._replication, self._metadata
        if not replication.is_clustered or not all(map(self.is_linked, replication.members())):
            self._calm_since = None
            self._has_spread = False
            return
        if metadata.has_group_lists and (metadata.group_generation != self._lists_seen or not self.is_settled):
            self._lists_seen = metadata.group_generation
            self.spread_again()
        if self._calm_since is None:
            self._calm_since = now
        if self._has_spread or now - self._calm_since < CALM_MS:
            return
        self._has_spread = True
        if metadata.has_group_lists or metadata.has_spread_groups:
            is_its_task = replication.metadata_group.is_leader
        else:
            is_its_task = all(group.is_leader for group in replication.groups())
        if is_its_task:
            for move in self.plan():
                result = self._transfers.request(move.group_id, move.target)
                log.info("group %d: %s is to lead it: %s", move.group_id, move.target, result.name)


def _address(text: str | None) -> Address | None:
    """An address out of the metadata; None where there is none that this version understands."""
    try:
        return parse_address(text) if text else None
    except ValueError:
        return None
