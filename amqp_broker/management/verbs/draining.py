"""Draining: a node that is about to be stopped lets go of its work first, and takes it up again when it is revived.

    drain  -> not ready for probes; nobody new is let in; groups are led by others; connections are closed at a pace
    revive -> the other way round; clients come back by themselves, leaders when leaders are spread
    guard  -> whether it could be stopped now (guard.py)

Tools stay: the management process, and administrators who ask `amq.system`. Being drained is nothing that survives the
node's end: it starts as any other.

Invariant: of connections no more are closed in a second than `drain_pace` says.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from amqp_broker.connection.connection import connection_of
from amqp_broker.flow.state import CLOSING
from amqp_broker.management.refused import FAILED, Refused
from amqp_broker.management.verbs.guard import PATIENCE_MS, Guard
from amqp_broker.protocol.constants import ReplyCode
from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.settings.workers import node_of_worker, worker_name
from amqp_broker.turn.task import Steps, Task

if TYPE_CHECKING:
    from amqp_broker.cluster.replication import Replication
    from amqp_broker.flow.client import Client
    from amqp_broker.management.node_counts import NodeCounts
    from amqp_broker.management.peer_questions import PeerQuestions
    from amqp_broker.management.request import Request

log = logging.getLogger("amqp_broker")

#: Connections are closed so often, milliseconds.
_EVERY_MS = 100
_REASON = "the node is being drained: connect to another one"
#: So many connections are looked at in one slice.
_SLICE = 64
_MOST_PACE = 1_000_000


class Draining:
    """Of one node, and for others that are asked for."""

    def __init__(self, counts: NodeCounts, replication: Replication, peers: PeerQuestions) -> None:
        broker = counts.broker
        self._default_pace = counts.config.drain_pace
        self._membership = counts.membership
        self._places = counts.groups.places
        self._facts = counts.facts
        self._numbers, self._connections = counts.clients.numbers, counts.clients.connections
        self._metadata = broker.metadata
        self._background, self._timers, self._clock = broker.background, broker.timers, broker.clock
        self._replication = replication
        self._guarding = Guard(counts, replication, peers)
        self._peers = peers
        self._pace = self._default_pace
        #: Thousandths of connections that are due, and how often it was drained.
        self._owed = self._round = 0
        self.verbs: dict[str, Callable[[Request], Steps]] = {
            "node.drain": self._drain,
            "node.revive": self._revive,
            "node.guard": self._guard,
        }
        peers.serve({"drain": self._serve_drain, "revive": self._serve_revive, "guard": self._serve_guard})

    # -- whichever node is meant ---------------------------------------------------------------------------------------

    def _drain(self, request: Request) -> Steps:
        return self._ask(request, "drain", self._drain_here)

    def _revive(self, request: Request) -> Steps:
        return self._ask(request, "revive", self._revive_here)

    def _guard(self, request: Request) -> Steps:
        return self._ask(request, "guard", self._guard_here)

    def _ask(self, request: Request, verb: str, here: Callable[[Request], Steps]) -> Steps:
        """A node is all of its workers. What keeps it from being stopped know its worker 0, and those with groups."""
        own, metadata = self._peers.own_node, self._metadata
        host = node_of_worker(own)
        node = request.text("node", host)
        if node not in (host, *self._peers.others()):
            raise ValueError(f"no member '{node}'; there are {', '.join(sorted((own, *self._peers.others())))}")
        with_groups = self._with_groups(node, host)
        asked = [node, *with_groups]
        if verb != "guard":
            beside = [own, *self._replication.workers()] if node == host else []
            workers = [worker_name(node, each) for each in metadata.workers_of(node).numbers]
            asked = list(dict.fromkeys((node, *beside, *workers)))
        answers = yield from self._peers.ask_all(
            [name for name in asked if name != own], verb, request.fields, request.asker, PATIENCE_MS
        )
        said = {name: dict(answer.fields) for name, answer in answers.items() if answer is not None}
        if own in asked:
            said[own] = yield from here(request)
        for name in (node, *with_groups):
            if name not in said:
                raise Refused(FAILED, f"node {name} does not answer; ask it itself, or look whether it is there")
        return _whole(said[node], [said[name] for name in with_groups])

    def _with_groups(self, node: str, host: str) -> list[str]:
        """The workers of a node that have groups, worker 0 left out."""
        if node == host:
            return list(self._places.others_with_groups)
        return [worker_name(node, each) for each in sorted({*self._metadata.workers_of(node).groups} - {0})]

    def _serve_drain(self, request: Request) -> Steps:
        said = yield from self._drain_here(request)
        return said, ""

    def _serve_revive(self, request: Request) -> Steps:
        said = yield from self._revive_here(request)
        return said, ""

    def _serve_guard(self, request: Request) -> Steps:
        said = yield from self._guard_here(request)
        return said, ""

    # -- this node -----------------------------------------------------------------------------------------------------

    def _drain_here(self, request: Request) -> Steps:
        """pace: connections a second. Asked again, only the pace is another one."""
        self._pace = request.number("pace", self._default_pace, 1, _MOST_PACE)
        if not self._facts.is_drained:
            self._facts.drain(True)
            self._owed, self._round = 0, self._round + 1
            log.warning("the node is drained for user %r: %d connections a second", request.asker.name, self._pace)
            self._membership.give_up_leading()
            self._close_some(self._round, self._clock.now)
        return (yield from self._guard_here(request))

    def _revive_here(self, request: Request) -> Steps:
        if self._facts.is_drained:
            self._facts.drain(False)
            log.warning("the node is revived for user %r", request.asker.name)
            self._membership.spread_again()
        return (yield from self._guard_here(request))

    def _close_some(self, number: int, now: int) -> None:
        """As many as are due; looked for in slices, from the oldest on. number: of the round, the last of which goes
        on."""
        if self._facts.is_drained and number == self._round:
            self._owed = min(1000 * self._pace, self._owed + self._pace * _EVERY_MS)
            Task(self._background, self._close(number))

    def _close(self, round_number: int) -> Steps:
        for numbers in self._numbers.in_slices(_SLICE):
            if self._owed < 1000 or not self._facts.is_drained:
                break
            for number in numbers:
                client = self._connections.get(number)
                if client is not None and _is_client(client) and self._owed >= 1000:
                    one = connection_of(client)
                    one.control.close(one, ReplyCode.CONNECTION_FORCED, _REASON)
                    self._owed -= 1000
            yield None
        self._timers.at(self._clock.now + _EVERY_MS, partial(self._close_some, round_number))

    # -- what would be lost --------------------------------------------------------------------------------------------

    def _guard_here(self, request: Request) -> Steps:
        """Whether the others could go on if this node were stopped now."""
        found = yield from self._guarding.look(request)
        return {
            "node": self._replication.own_node,
            "is_draining": self._facts.is_draining,
            **found,
            "connections": (yield from self._count_clients()),
        }

    def _count_clients(self) -> Steps:
        """Its result: how many connections drain closes."""
        count = 0
        for numbers in self._numbers.in_slices(_SLICE):
            count += sum(_is_client(self._connections[number]) for number in numbers)
            yield None
        return count


def _whole(said: JsonObject, others: list[JsonObject]) -> JsonObject:
    """What a worker 0 has said of its node, with what hangs on the groups that its other workers have."""
    for other in others:
        said["is_safe"] = said["is_safe"] and other["is_safe"]
        said["critical_groups"] = sorted({*said["critical_groups"], *other["critical_groups"]})
        said["critical_queues"] = [*said["critical_queues"], *other["critical_queues"]]
        said["lag"] = max(said["lag"], other["lag"])
        for name in ("lagging_groups", "leaderless_groups"):
            said[name] = sorted({*said.get(name, ()), *other.get(name, ())})  # the version before says neither
        said["leads"] += other["leads"]
    return said


def _is_client(one: Client) -> bool:
    """Whether it is to be closed: it has logged in, and is no tool."""
    return bool(one.state < CLOSING and one.session is not None and not one.session.is_tool)
