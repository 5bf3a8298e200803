"""Weather: what happens to a simulated cluster: its clients' work, faults of all kinds, and then calm, in which every
group must get a leader and every queue must drain empty.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import combinations
from typing import Any

from amqp_broker.management.request import Request
from amqp_broker.management.verbs.cluster import Answer
from amqp_broker.settings.kinds import parse_member
from amqp_broker.settings.workers import node_of_worker
from raft.membership import TransferResult
from raft.memory import Point
from tests.cluster.verbs import verbs_of
from tests.cluster_simulation.acknowledgements import check_acknowledged
from tests.cluster_simulation.application import AppChannel, Application
from tests.cluster_simulation.cluster_node import MS, ClusterNode, Copy
from tests.cluster_simulation.cluster_world import SECOND, ClusterWorld
from tests.simulation.state import Violation

#: What a cluster may take to come to rest, or to drain, microseconds.
_REST = 60 * SECOND
_LOOK_EVERY = 100 * MS
_METADATA = 0


class Weather(ClusterWorld):
    """A run: `run` takes it from the start to the end, or raises Violation. faults: names of the only ones, if a test
    wants certain ones. pause: from one to the next, ms. downtime, clock_steps: of a crashed node and its clock, ms."""

    applications_per_node = 2
    faults: tuple[str, ...] = ()
    pause = (20, 700)
    downtime: tuple[int, ...] = (1, 50, 500, 3000)
    clock_chance = 0.2
    clock_steps: tuple[int, ...] = (-5000, -100, 100, 5000)

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._copies: dict[str, Copy] = {}

    def run(self, seconds: float = 4) -> None:
        """The whole run."""
        logger = logging.getLogger("amqp_broker")
        logger.addHandler(self.defects)
        was_propagating, logger.propagate = logger.propagate, False
        try:
            self._run(seconds)
        except (Violation, AssertionError) as error:
            self.note(f"violation: {error}")
            raise Violation(f"seed {self.seed} at {self.time / SECOND:.4f} s: {error}") from error
        finally:
            logger.removeHandler(self.defects)
            logger.propagate = was_propagating

    def _run(self, seconds: float) -> None:
        self._begin()
        self.is_calm = False
        self._kinds_of_faults = self._draw_faults()
        self._act_later()
        self._strike_later()
        self.run_until(self.time + int(seconds * SECOND))
        self._make_calm()
        self._dismiss()
        self._drain()
        self._check_rest()

    def wait_for(self, what: Callable[[], bool], name: str, limit: int = _REST) -> None:
        """Let time pass until something is so."""
        end = self.time + limit
        while not what():
            if self.time >= end:
                raise Violation(f"{name}: not within {limit // SECOND} s; left: {self.leftovers()}\n{self.describe()}")
            self.run_until(self.time + _LOOK_EVERY)

    def describe(self) -> str:
        """What each node thinks."""
        lines = []
        for node in self.nodes.values():
            if not node.is_up:
                lines.append(f"{node.name}: down")
                continue
            groups = [
                f"{group_id}: {group.member.role.name} of {group.leader} in {group.term}, "
                f"{group.last_applied}/{group.commit_index}/{group.last_index}, {len(group.members)} members"
                for group_id, group in node.node.replication.host.groups.items()
            ]
            ready = "" if node.node.is_ready else " (not ready)"
            lines.append(f"{node.name}{ready} {self.network.links_of(node.name)} {'; '.join(groups)}")
        return "\n".join(lines)

    # -- the beginning -------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        starters = self.starters()
        for name in starters:
            self.start(self.nodes[name])
        self.network.start()
        self.wait_for(lambda: len(self.serving()) == len(starters), "all nodes are ready")
        self.serving()[0].put_user()
        self.input(self.serving()[0], lambda now: None)
        self.run_until(self.time + SECOND)
        application = Application("setup", self)
        self.applications.append(application)
        self.connect(application, self.nodes[self.chance.choice(self.members)])
        self.wait_for(lambda: application.is_open, "the first client is let in")
        channel = self.routine.set_up(application)
        self.wait_for(lambda: not channel.questions and not channel.model.unconfirmed, "everything is declared")
        self.note("everything is set up")

    # -- work ----------------------------------------------------------------------------------------------------------

    def _act_later(self) -> None:
        for number in range(1, self.size * self.applications_per_node + 1):
            self.applications.append(Application(f"app{number}", self))
        for application in self.applications:
            self._routine_of(application, self.chance.choice([3, 15, 40]))

    def _routine_of(self, application: Application, pace: int) -> None:
        def act() -> None:
            if self.is_calm:
                return
            self._act(application)
            self.after(self.chance.randint(1, 2 * pace) * MS, act)

        self.after(self.chance.randint(1, 2 * pace) * MS, act)

    def _act(self, application: Application) -> None:
        if application.client is None:
            serving = self.serving()
            if serving:
                self.connect(application, self.chance.choice(serving))
        elif application.is_open:
            self.routine.act(application)
            if self.chance.random() < 0.01:
                self._disturb(application)
            elif self.chance.random() < 0.002:
                self.leave(application)
        elif self.time - application.connected_at > 5 * SECOND:
            self.leave(application)  # nobody waits for ever

    def _disturb(self, application: Application) -> None:
        """The client does not read for a while."""
        node, connection = application.node, application.connection
        assert node is not None
        node.node.unwritable(connection)

        def writable(now: int) -> None:
            if connection in node.clients:
                node.node.writable(connection, now)

        self.on_node(node, self.chance.choice([5, 50, 500]) * MS, writable)

    # -- faults --------------------------------------------------------------------------------------------------------

    def _draw_faults(self) -> list[Callable[[], None]]:
        """Each seed has some kinds of faults, and each of them with its own weight."""
        kinds = [
            self.crash_one, self.crash_one, self.crash_leader, self.crash_all, self.partition, self.partition_one_way,
            self.heal, self.heal, self.heal, self.freeze, self.jump, self.stall, self.fail_disk, self.crash_in_write,
            self.change_members, self.transfer, self.reset_link, self.slow_down, self.stop_one, self.copy_disk,
            self.forget,
        ]  # fmt: skip
        if self.faults:
            return [getattr(self, name) for name in self.faults]
        chosen = [kind for kind in kinds if self.chance.random() < 0.5]
        return [kind for kind in chosen for _ in range(self.chance.randint(1, 3))] or [self.crash_one]

    def _strike_later(self) -> None:
        def strike() -> None:
            if not self.is_calm:
                self.chance.choice(self._kinds_of_faults)()
                self._strike_later()

        self.after(self.chance.randint(self.pause[0] * MS, self.pause[1] * MS), strike)

    def _crash_for_a_while(self, node: ClusterNode) -> None:
        self.crash(node)
        lives = node.lives

        def start() -> None:
            if not node.is_up and node.lives == lives and not node.is_removed:
                if self.chance.random() < self.clock_chance:
                    self._set_clock(node, self.chance.choice(self.clock_steps))
                self.start(node)

        self.after(self.chance.choice(self.downtime) * MS, start)

    def crash_one(self) -> None:
        if self.up():
            self._crash_for_a_while(self.chance.choice(self.up()))

    def crash_leader(self) -> None:
        leaders = [
            node for node in self.up() if any(each.is_leader for each in node.node.replication.host.groups.values())
        ]
        if leaders:
            self._crash_for_a_while(self.chance.choice(leaders))

    def crash_all(self) -> None:
        """All at once, as when the power goes."""
        for node in self.up():
            self._crash_for_a_while(node)

    def crash_in_write(self) -> None:
        """The next changes of the disk are the last of this life."""
        if self.up():
            node = self.chance.choice(self.up())
            node.disk.crash_at = self.chance.randint(1, 6)
            self._start_again(node)

    def fail_disk(self) -> None:
        """A sync fails: the node has to stop."""
        if self.up():
            node = self.chance.choice(self.up())
            node.disk.fail_sync_at = self.chance.randint(1, 3)
            self._start_again(node)

    def _start_again(self, node: ClusterNode) -> None:
        lives = node.lives

        def look() -> None:
            if node.lives == lives:
                if not node.is_up and (self.is_calm or self.chance.random() < 0.3):
                    self.restart(node)
                else:
                    self.after(200 * MS, look)

        self.after(300 * MS, look)

    def stop_one(self) -> None:
        """A node is stopped in good order: it hands its leaderships over, closes its connections, syncs, and ends."""
        if not self.up():
            return
        node = self.chance.choice(self.up())
        self.note(f"{node.name} is stopped")
        self.counts["stops"] += 1
        links = self.network.links_of(node.name)

        def hand_over(now: int) -> None:
            for group in node.node.replication.host.groups.values():
                if group.is_leader and links:
                    group.transfer_leadership(self.chance.choice(links))

        self.on_node(node, 0, hand_over)
        self.on_node(node, 150 * MS, lambda now: node.node.shut_down(now))
        lives = node.lives

        def end() -> None:
            if node.is_up and node.lives == lives:
                if node.frozen_until > self.time:
                    self.after(node.frozen_until - self.time, end)
                else:
                    self._crash_for_a_while(node)

        self.after(250 * MS, end)

    def partition(self) -> None:
        side = [name for name in self.nodes if self.chance.random() < 0.5]
        self.note(f"partition: {side} and the others")
        self.counts["partitions"] += 1
        for name, other in combinations(self.nodes, 2):
            if (name in side) != (other in side):
                self.network.block(name, other)
                self.network.block(other, name)

    def partition_one_way(self) -> None:
        name, other = self.chance.sample(list(self.nodes), 2)
        self.note(f"nothing goes from {name} to {other}")
        self.counts["one-way partitions"] += 1
        self.network.block(name, other)

    def heal(self) -> None:
        self.note("all ways are open")
        self.network.heal()

    def slow_down(self) -> None:
        name, other = self.chance.sample(list(self.nodes), 2)
        delay = self.chance.choice([5, 50, 150])
        self.note(f"{delay} ms more from {name} to {other}")
        self.network.slow[name, other] = delay * MS

    def reset_link(self) -> None:
        name, other = self.chance.sample(list(self.nodes), 2)
        self.note(f"the link of {name} and {other} breaks")
        self.network.reset(name, other)

    def freeze(self) -> None:
        """A pause of the whole process; its clock goes on."""
        if self.up():
            node = self.chance.choice(self.up())
            node.frozen_until = max(node.frozen_until, self.time + self.chance.choice([30, 300, 2000]) * MS)
            self.note(f"{node.name} is paused until {node.frozen_until / SECOND:.3f}")
            self.counts["pauses"] += 1

    def jump(self) -> None:
        """A clock jumps ahead, as after a suspension."""
        node = self.chance.choice(list(self.nodes.values()))
        self._set_clock(node, self.chance.choice([200, 1000, 30_000]))
        self.note(f"the clock of {node.name} jumps ahead")
        self.counts["clock jumps"] += 1
        if node.is_up:
            self.on_node(node, 0, lambda now: node.node.tick(now))

    def _set_clock(self, node: ClusterNode, by: int) -> None:
        node.set_clock(by, self.time)
        self.clients.skew += abs(by) * MS

    def stall(self) -> None:
        node = self.chance.choice(list(self.nodes.values()))
        node.stalls_until = self.time + self.chance.choice([50, 500, 2000]) * MS
        self.note(f"the disk of {node.name} stalls")
        self.counts["stalls"] += 1

    def _leader_of(self, group_id: int) -> ClusterNode | None:
        found = {node: self.checks.group_of(node, group_id) for node in self.up()}
        leaders = [node for node, group in found.items() if group is not None and group.is_leader]
        return max(leaders, key=lambda node: node.node.replication.host.groups[group_id].term) if leaders else None

    def _some_group(self) -> int:
        members = [node for node in self.up() if node.node.replication.host.groups]
        return self.chance.choice(list(members[0].node.replication.host.groups)) if members else 0

    def transfer(self) -> None:
        group_id = self._some_group()
        node = self._leader_of(group_id)
        if node is None:
            return
        name = self.chance.choice(self.transfer_targets(node))

        def hand_over(now: int) -> None:
            group = node.node.replication.host.groups[group_id]
            if group.transfer_leadership(name) is TransferResult.STARTED:
                self.note(f"{node.name}: group {group_id} is handed over to {name}")
                self.counts["transfers"] += 1

        self.on_node(node, 0, hand_over)

    def transfer_targets(self, leader: ClusterNode) -> list[str]:
        """The members that may be asked to lead instead."""
        return [name for name in self.nodes if name != leader.name]

    def change_members(self) -> None:
        """Somebody is asked to add a node, which begins with an empty folder, or to remove one."""
        if not self.serving() or not self._has_settled_members():
            return
        asked = self.chance.choice(self.serving())
        recorded = asked.node.broker.metadata.members()
        node = self.nodes[self.chance.choice([*self.joiners, *self.nodes])]
        if node.name not in recorded and (not node.lives or node.is_removed):
            self.on_node(asked, 0, lambda now: self._join(asked, node))
        elif node.name in recorded and len(recorded) > self.size and node is not asked:
            said = {"node": node.name, "drops_queues": node.name in self.joiners}
            self.on_node(asked, 0, lambda now: self._ask(asked, "cluster.remove", said))

    def _join(self, asked: ClusterNode, node: ClusterNode) -> None:
        """As `amqp-broker cluster join` does: ask to be added, and start knowing the members. Unanswered, too."""
        lives, identity = node.lives, node.next_identity
        asked_for = self._ask(asked, "cluster.add", {"node": f"{node.name}={node.address}", "identity": identity})
        if asked_for is None:
            return
        answer, proposal = asked_for
        assert proposal is not None

        def start() -> None:
            if node.lives == lives:
                node.empty(tuple(map(parse_member, answer["members"])), answer.get("index", 0))
                self.start(node)

        proposal.when_done(lambda _: self.after(1 * MS, start))
        self.after(2 * SECOND, start)

    # -- what is forgotten ---------------------------------------------------------------------------------------------

    def copy_disk(self) -> None:
        """Somebody makes a copy of a folder."""
        if self.up():
            node = self.chance.choice(self.up())
            self._copies[node.name] = node.copy_disk()

    def forget(self) -> None:
        """A folder is set back to the copy of it, or emptied, and the node started on it. Only where the others know
        better, on their disks: what nobody knows nobody can notice."""
        if not self.serving() or not self._has_settled_members():
            return
        recorded = self.serving()[0].node.broker.metadata.members()
        node = self.nodes[self.chance.choice(list(recorded))]
        others = [self.nodes[name] for name in recorded if name != node.name]
        if len(recorded) < self.size or not all(self.nodes[name].is_up for name in recorded) or self._has_home(node):
            return
        copied = self._copies.pop(node.name, None) if self.chance.random() < 0.7 else None
        if copied is not None:
            if copied.incarnation != node.incarnation:
                return
            point = copied.point
        else:
            point = Point(node.node.replication.host.memory.identity, 0, 0, 0)
        if not all(other.has_seen(node.name, point) for other in others):
            return
        self.note(f"the folder of {node.name} is {'emptied' if copied is None else 'set back'}")
        self.counts["set back" if copied is not None else "emptied"] += 1
        self.crash(node)
        node.set_back(copied.disk if copied is not None else None)
        self.after(self.chance.choice(self.downtime) * MS, lambda: self.restart(node))
        self._rejoin_later(node)

    def _has_home(self, node: ClusterNode) -> bool:
        """Whether something is there that nobody else has."""
        metadata = self.serving()[0].node.broker.metadata
        return bool(metadata.queues_at(node.name)) or any(app.home == node.name for app in metadata.apps("/"))

    def _rejoin_later(self, node: ClusterNode) -> None:
        """As `amqp-broker cluster rejoin` does, once the node has ended: it is removed, and added again."""

        def look() -> None:
            if not self.is_calm or self.time - self.calm_since < _REST:
                self.after(300 * MS, look)
            if node.is_up or not node.is_removed or not self.serving():
                return
            asked = self.chance.choice(self.serving())
            recorded = asked.node.broker.metadata.members()
            if node.name in recorded and self._has_settled_members():
                self.on_node(asked, 0, lambda now: self._ask(asked, "cluster.remove", {"node": node.name}))
            elif node.name not in recorded and self._has_settled_members():
                self.on_node(asked, 0, lambda now: self._join(asked, node))

        self.after(300 * MS, look)

    def _has_settled_members(self) -> bool:
        """Whether every group has the members of the metadata: an operator does one thing after the other."""
        leader = self._leader_of(_METADATA)
        if leader is None or not leader.node.is_ready:
            return False
        if any(node.node.replication.stream.unapplied for node in self.up()):
            return False
        recorded = sorted(leader.node.broker.metadata.members())
        for group_id in leader.node.replication.host.groups:
            node = self._leader_of(group_id)
            if node is None or node.node.replication.host.groups[group_id].learners:
                return False
            if sorted(node.node.replication.host.groups[group_id].members) != recorded:
                return False
        return True

    def _ask(self, asked: ClusterNode, verb: str, request: dict[str, object]) -> Answer | None:
        try:
            answer = verbs_of(asked.node)[verb](Request(request))
        except ValueError as error:
            self.note(f"{asked.name}: {verb} {request}: {error}")
            return None
        self.note(f"{asked.name}: {verb} {request}")
        self.counts[verb] += 1
        return answer

    # -- the end -------------------------------------------------------------------------------------------------------

    def _make_calm(self) -> None:
        self.note("calm")
        self.is_calm = True
        self.calm_since = self.time
        self.network.heal()
        for node in self.nodes.values():
            node.stalls_until = 0
            if node.is_up:
                node.disk.crash_at = node.disk.fail_sync_at = None
            elif node.lives:
                self.restart(node)

    def _is_at_rest(self) -> bool:
        """Every group has one leader with whom everybody agrees, and all have applied everything."""
        up = self.up()
        for group_id in up[0].node.replication.host.groups:
            found = {node.name: self.checks.group_of(node, group_id) for node in up}
            groups = {name: group for name, group in found.items() if group is not None}
            leader = next((group for group in groups.values() if group.is_leader), None)
            if leader is None:
                return False
            known = [*leader.members, *leader.learners]
            for name, group in groups.items():
                is_member = node_of_worker(name) in known and not group.is_outside
                if is_member and (group.term, group.last_applied) != (leader.term, leader.last_index):
                    return False
        return True

    def _dismiss(self) -> None:
        """Old clients go."""
        self.wait_for(self._all_serve, "all nodes serve")
        for application in self.applications:
            if application.client is not None and application.is_open:
                channels = [each for each in application.channels.values() if not each.model.is_over]
                self.wait_for(
                    lambda channels=channels, application=application: (
                        application.client is None  # type: ignore[misc]
                        or all(
                            each.model.is_over or not (each.questions or each.model.unconfirmed) for each in channels
                        )
                    ),
                    f"the questions of {application.name} are answered: {[list(each.questions) for each in channels]}",
                )
        for application in self.applications:
            if application.client is not None:
                self.leave(application)
        self.wait_for(self._all_linked, "all nodes are linked")
        self.run_until(self.time + SECOND)

    def _drain(self) -> None:
        """New clients take everything, one on each node."""
        drains = []
        for node in self.serving():
            application = Application(f"drain {node.name}", self)
            self.applications.append(application)
            self.connect(application, node)
            self.wait_for(lambda application=application: application.is_open, "a client is let in")  # type: ignore[misc]
            drains.append(application)
        channels = [application.open_channel() for application in drains]
        for name in self.kinds:
            place = self.chance.randrange(len(drains))
            drains[place].declare(channels[place], name)
            drains[place].consume(channels[place], name, no_ack=False)
        self.wait_for(lambda: self._take_all(drains, channels), "the queues drain", _REST + self.clients.skew)

    def _all_serve(self) -> bool:
        """Every member is ready, and who is none any more is gone."""
        leader = self._leader_of(_METADATA)
        if leader is None or not leader.node.is_ready:
            return False
        recorded = leader.node.broker.metadata.members()
        for node in self.up() if self.time - self.calm_since > 10 * SECOND else ():
            if node_of_worker(node.name) not in recorded and not self.network.links_of(node.name):
                node.is_removed = True  # it has not heard of it, and an operator stops it
                self.crash(node)
        if any(node_of_worker(node.name) not in recorded for node in self.up()):
            return False
        members = [node for node in self.nodes.values() if node_of_worker(node.name) in recorded]
        return all(node.is_up and node.node.is_ready for node in members)

    def _all_linked(self) -> bool:
        names = [node.name for node in self.up()]
        return all(other in self.network.links_of(name) for name in names for other in names if other != name)

    def _take_all(self, drains: list[Application], channels: list[AppChannel]) -> bool:
        """Acknowledge what has come; whether nothing is left anywhere."""
        for application, channel in zip(drains, channels, strict=True):
            if channel.model.is_over:
                raise Violation(f"{application.name}: its channel was closed")
            if channel.model.unsettled:
                application.settle(channel, max(channel.model.unsettled), "ack", is_multiple=True)
        if any(channel.questions or channel.model.unsettled for channel in channels):
            return False
        return not self.leftovers() and self._is_at_rest()

    def leftovers(self) -> dict[str, int]:
        """How many messages there are, by node and queue."""
        left: dict[str, int] = {}
        for node in self.serving():
            for group_id, group in node.node.groups.all.items():
                for queue_id in group.machine.queue_ids():
                    figures = group.machine.statistics(queue_id)
                    if figures is None:
                        continue
                    count = figures.ready + figures.unacked + figures.delayed + figures.dead_letters
                    if count:
                        left[f"{node.name} group {group_id} {self.log.name_of.get(queue_id)}"] = count
            for queue in node.node.broker.vhosts["/"].queues.all_made():
                ready = getattr(queue, "ready", None)
                if ready is not None and ready.count + queue.unacked:
                    left[f"{node.name} {queue.name}"] = ready.count + queue.unacked
        return left

    def _check_rest(self) -> None:
        self.log.group_count = self.nodes[self.members[0]].config.queue_groups
        self.checks.at_the_end()
        self.log.at_the_end()
        self.clients.at_the_end()
        check_acknowledged(self.log, self.clients)
