"""Draining: a node that is about to be stopped lets go of its work first, and takes it up again when it is revived.

    drain  -> not ready for probes; nobody new is let in; groups are led by others; connections are closed at a pace
    revive -> the other way round; clients come back by themselves, leaders when leaders are spread
    guard  -> whether it could be stopped now (guard.py)

Tools stay: the management process, and administrators who ask `amq.system`. Being drained is nothing that survives the
node's end: it starts as any other.

A node is all of its workers: each is asked, and what they say is one answer. A worker that says nothing may have
clients, so the node is not safe to be stopped then. Once one of them has been told to drain, or to be revived, it does
so: what is answered says that, and who has not answered in time. The pace is the node's: each worker has the share of
it that it has of the clients, as they were when it was asked for; asked for again, it is shared out anew.

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
from amqp_broker.management.request import Request
from amqp_broker.management.verbs.cluster import MAX_LISTED_QUEUES
from amqp_broker.management.verbs.guard import NOTHING, PATIENCE_MS, Guard
from amqp_broker.protocol.constants import ReplyCode
from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.settings.workers import node_of_worker, worker_name
from amqp_broker.turn.task import Steps, Task

if TYPE_CHECKING:
    from amqp_broker.cluster.replication import Replication
    from amqp_broker.flow.client import Client
    from amqp_broker.management.node_counts import NodeCounts
    from amqp_broker.management.peer_questions import PeerQuestions

log = logging.getLogger("amqp_broker")

#: Connections are closed so often, milliseconds.
_EVERY_MS = 100
_REASON = "the node is being drained: connect to another one"
#: So many connections are looked at in one slice.
_SLICE = 64
_MOST_PACE = 1_000_000
#: Thousandths of connections in a second: one of them each time that some are closed.
_LEAST_PACE = 1000 // _EVERY_MS
#: A worker's share of the pace, in parts of this.
_WHOLE_PACE = 1_000_000


class Draining:
    """Of one node, and for others that are asked for."""

    def __init__(self, counts: NodeCounts, replication: Replication, peers: PeerQuestions) -> None:
        broker = counts.broker
        self._config = counts.config
        self._membership = counts.membership
        self._places = counts.groups.places
        self._facts = counts.facts
        self._numbers, self._connections = counts.clients.numbers, counts.clients.connections
        self._metadata = broker.metadata
        self._background, self._timers, self._clock = broker.background, broker.timers, broker.clock
        self._replication = replication
        self._guarding = Guard(counts, replication, peers)
        self._peers = peers
        #: Thousandths of connections: that are closed in a second, and that are due; and how often it was drained.
        self._pace = self._owed = self._round = 0
        self.verbs: dict[str, Callable[[Request], Steps]] = {
            "node.drain": self._drain,
            "node.revive": self._revive,
            "node.guard": self._guard,
        }
        peers.serve({"drain": self._serve_drain, "revive": self._serve_revive, "guard": self._serve_guard})
        peers.serve({"clients": self._serve_clients})

    # -- whichever node is meant ---------------------------------------------------------------------------------------

    def _drain(self, request: Request) -> Steps:
        request.number("pace", 1, 1, _MOST_PACE)
        return self._ask(request, "drain", self._drain_here)

    def _revive(self, request: Request) -> Steps:
        return self._ask(request, "revive", self._revive_here)

    def _guard(self, request: Request) -> Steps:
        return self._ask(request, "guard", self._guard_here)

    def _ask(self, request: Request, verb: str, here: Callable[[Request], Steps]) -> Steps:
        """All workers of a node. Whether it is safe nobody says without its worker 0, and those with groups; but what
        has begun is not refused for that."""
        own = self._peers.own_node
        host = node_of_worker(own)
        node = request.text("node", host)
        if node not in (host, *self._peers.others()):
            raise ValueError(f"no member '{node}'; there are {', '.join(sorted((own, *self._peers.others())))}")
        with_groups = self._with_groups(node, host)
        asked = list(dict.fromkeys((node, *with_groups, *self._workers_of(node, host))))
        fields = dict.fromkeys(asked, request.fields)
        if verb == "drain":
            shares = yield from self._shares(request, asked)
            fields = {name: {**request.fields, "share": share} for name, share in shares.items()}
        questions = {
            name: self._peers.ask(name, verb, fields[name], request.asker, PATIENCE_MS) for name in asked if name != own
        }
        said: dict[str, JsonObject] = {}
        if own in asked:
            mine = Request(fields[own])
            mine.ask_as(request.asker)
            said[own] = yield from here(mine)
        for name, question in questions.items():
            answer = yield question
            if answer is not None:
                said[name] = dict(answer.fields)
        has_begun = verb != "guard" and (own in asked or any(question.is_sent for question in questions.values()))
        for name in (node, *with_groups):
            if name not in said and not has_begun:
                raise Refused(FAILED, f"node {name} does not answer; ask it itself, or look whether it is there")
        if not said:
            said[node] = {"node": node, "is_draining": verb == "drain", **NOTHING, "connections": 0}
            return _whole(node, said, asked)
        return _whole(node, said, [name for name in asked if name not in said])

    def _with_groups(self, node: str, host: str) -> list[str]:
        """The workers of a node that have groups, worker 0 left out."""
        if node == host:
            return list(self._places.others_with_groups)
        return [worker_name(node, each) for each in sorted({*self._metadata.workers_of(node).groups} - {0})]

    def _workers_of(self, node: str, host: str) -> list[str]:
        """All that may have clients of a node, which is a process or some. One that was left over when there were to be
        fewer, and is not there, has gone for good."""
        known = self._metadata.workers_of(node)
        may_be_gone = {worker_name(node, each) for each in known.closing}
        names = {worker_name(node, each) for each in known.numbers}
        if node == host and self._config.has_workers:
            names |= {worker_name(node, number) for number in range(self._config.workers)}
            may_be_gone |= {*self._replication.workers()} - names
        there = {name for name in may_be_gone if name == self._peers.own_node or self._peers.is_linked(name)}
        return sorted(names - may_be_gone | there)

    def _shares(self, request: Request, workers: list[str]) -> Steps:
        """Its result: of the pace that of each worker, so that all have parted from their clients at the same time."""
        if len(workers) == 1:
            return {workers[0]: _WHOLE_PACE}
        own = self._peers.own_node
        others = [name for name in workers if name != own]
        answers = yield from self._peers.ask_all(others, "clients", {}, request.asker)
        counts = {name: answer.fields["connections"] for name, answer in answers.items() if answer is not None}
        if own in workers:
            counts[own] = yield from self._count_clients()
        # One more each: clients may come until all are drained.
        whole = sum(counts.values()) + len(workers)
        return {name: max(1, _WHOLE_PACE * (counts.get(name, 0) + 1) // whole) for name in workers}

    def _serve_drain(self, request: Request) -> Steps:
        said = yield from self._drain_here(request)
        return said, ""

    def _serve_revive(self, request: Request) -> Steps:
        said = yield from self._revive_here(request)
        return said, ""

    def _serve_guard(self, request: Request) -> Steps:
        said = yield from self._guard_here(request)
        return said, ""

    def _serve_clients(self, request: Request) -> Steps:
        return {"connections": (yield from self._count_clients())}, ""

    # -- this process --------------------------------------------------------------------------------------------------

    def _drain_here(self, request: Request) -> Steps:
        """pace: connections a second, of the whole node; share: what of that is this process's, of a million. Asked
        again, only the pace is another one."""
        pace = request.number("pace", self._config.drain_pace, 1, _MOST_PACE)
        share = request.number("share", _WHOLE_PACE, 1, _WHOLE_PACE)
        self._pace = max(_LEAST_PACE, pace * 1000 * share // _WHOLE_PACE)
        if not self._facts.is_drained:
            self._facts.drain(True)
            self._owed, self._round = 0, self._round + 1
            a_second = self._pace / 1000
            log.warning("the node is drained for user %r: %g connections a second", request.asker.name, a_second)
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
            self._owed = min(max(1000, self._pace), self._owed + self._pace * _EVERY_MS // 1000)
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
        found = NOTHING
        if self._places.has_groups:
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


def _whole(node: str, said: dict[str, JsonObject], silent: list[str]) -> JsonObject:
    """What the workers of a node have said of it, as one answer: its worker 0's, or that of the first that has said
    something, with what is the others'."""
    first = node if node in said else next(iter(said))
    whole = {**said[first], "node": node}
    for name, other in said.items():
        if name == first:
            continue
        whole["is_safe"] = whole["is_safe"] and other["is_safe"]
        whole["is_draining"] = whole["is_draining"] or other["is_draining"]
        whole["critical_queues"] = [*whole["critical_queues"], *other["critical_queues"]][:MAX_LISTED_QUEUES]
        whole["lag"] = max(whole["lag"], other["lag"])
        for field in ("critical_groups", "lagging_groups", "leaderless_groups"):
            whole[field] = sorted({*whole.get(field, ()), *other.get(field, ())})  # the version before says fewer
        for field in ("leads", "connections", "only_copies"):
            whole[field] = whole.get(field, 0) + other.get(field, 0)
    in_service = [name for name, each in said.items() if whole["is_draining"] and not each["is_draining"]]
    if silent:
        whole["is_safe"] = False
    return {**whole, "silent_workers": silent, "workers_in_service": sorted(in_service)}


def _is_client(one: Client) -> bool:
    """Whether it is to be closed: it has logged in, and is no tool."""
    return bool(one.state < CLOSING and one.session is not None and not one.session.is_tool)
