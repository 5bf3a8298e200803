"""Totals: the verb `totals`: what a node holds and has done since its folder was made, in about a hundred integers.

Nothing is counted for that by the message: queues, channels and connections count what they do, those that are gone
have left theirs behind (`Broker.gone`, `Clients.sums`), and a walk in slices adds up. What it found is the answer for a
second, or some: however many ask, there is one walk at a time, and it takes a fraction of a percent of the node.

Invariants:
1. No counter is ever lower than it was in the answer before, be it one of the node before its restart (KeptTotals).
2. Nor are the sums over all nodes: of one that does not answer, or is no member any more, the counters that this node
   has heard last are in `before`. That holds since this node's own start: what it had heard before it does not keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from amqp_broker.connection.connection import connection_of
from amqp_broker.connection.logins import AMQP, HTTP
from amqp_broker.management.kept_totals import highest, is_short, shortfall, together
from amqp_broker.management.queue_walk import queues_in_slices
from amqp_broker.management.statistics import held_by_node
from amqp_broker.metadata.cluster_identity import cluster_id, cluster_name
from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.turn.task import Steps, Task
from queues.reason import Reason
from queues.sums import QueueSums

if TYPE_CHECKING:
    from amqp_broker.management.node_counts import NodeCounts
    from amqp_broker.management.peer_questions import PeerQuestions
    from amqp_broker.management.request import Request

#: So long an answer is given again, milliseconds: longer where there are many queues, since each costs the walk some
#: 700 nanoseconds; but shorter than what lies between two readings for the history (5 s).
FRESH_MS = 1000
MOST_FRESH_MS = 4000
_QUEUES_A_MS = 4
#: So many queues, or channels, are added up in one slice: compiled some 50 microseconds, plain some 200.
_SLICE = 64

#: What is counted of queues, by how it is called in the answer.
_OF_QUEUES = {
    "deliver": "delivered", "deliver_no_ack": "auto_acked", "get": "got", "get_no_ack": "got_no_ack",
    "get_empty": "got_nothing", "redeliver": "redelivered", "ack": "acked", "expired": "expired",
    "rejected": "rejected", "maxlen_dropped": "too_many", "delivery_limit_dropped": "returned_too_often",
    "queue_publish": "published",
}  # fmt: skip
#: Why a dead letter is one, as it is called in the answer.
_DEAD_LETTERS = {
    "dead_lettered_rejected": Reason.REJECTED, "dead_lettered_expired": Reason.EXPIRED,
    "dead_lettered_maxlen": Reason.MAXLEN, "dead_lettered_delivery_limit": Reason.DELIVERY_LIMIT,
}  # fmt: skip
#: What there is just now, which comes and goes: of a node that does not answer nobody knows it.
HELD = frozenset({
    "at", "connections", "publishers_blocked", "channels", "vhosts", "exchanges", "bindings", "queues", "consumers",
    "publishers", "messages", "queues_here", "messages_ready", "messages_unacknowledged", "messages_delayed",
    "messages_leased", "message_bytes_ready", "memory_used", "memory_quorum_queues",
    "memory_assembling", "memory_budget", "memory_budget_of_node", "journal_bytes", "unsynced_bytes",
})  # fmt: skip


class Totals:
    """Of one node."""

    def __init__(self, counts: NodeCounts, peers: PeerQuestions) -> None:
        self._counts = counts
        self._broker = counts.broker
        self._clients = counts.clients
        self._clock = self._broker.clock
        self._peers = peers
        self._kept = counts.kept
        self._background = self._broker.background
        peers.serve({"totals": self._serve})
        self._task: Task | None = None
        self._found: JsonObject = {}
        self._counted: JsonObject = {}  # since the start
        self._fleeting = 0  # queues that end with the node
        self._heard: dict[str, JsonObject] = {}  # the counters of the others
        self._bases: dict[str, JsonObject] = {}  # what is added to those that began anew
        self._told: dict[str, JsonObject] = {}  # what the others said last, without that
        self._rounds = 0  # so many times the others were asked
        self._heard_in: dict[str, int] = {}  # and when each was heard last
        self._found_at = -MOST_FRESH_MS
        self._queue_count = 0  # of the last walk
        self.verbs: dict[str, Callable[[Request], Steps]] = {
            "totals": self._totals,
        }

    def _totals(self, request: Request) -> Steps:
        others = self._peers.others()
        self._rounds += 1
        this_round = self._rounds
        asked = {name: self._peers.ask(name, "totals", {}, request.asker) for name in others}
        found = yield from self.own()
        nodes, stale = {self._peers.own_node: found}, []
        for name, question in asked.items():
            answer = yield question
            if answer is None:
                stale.append(name)
            else:
                nodes[name] = self._heard_of(name, answer.fields, this_round)
        before = {name: counters for name, counters in self._heard.items() if name not in nodes}
        age_ms, metadata = self._clock.now - self._found_at, self._broker.metadata
        return {
            "node": self._peers.own_node, "nodes": nodes, "before": before, "stale": stale, "age_ms": age_ms,
            "cluster_name": cluster_name(metadata, self._counts.config), "cluster_id": cluster_id(metadata), **found,
        }  # fmt: skip

    def _heard_of(self, name: str, said: JsonObject, asked_in: int) -> JsonObject:
        """What another node says of itself; one that has lost its file of counters goes on from what it has said.
        That is seen by any counter that is lower; what others counted anew before it was seen is not added twice."""
        counters = {key: value for key, value in said.items() if key not in HELD}
        known = self._heard.get(name, {})
        if asked_in < self._heard_in.get(name, 0):
            return {**said, **known}  # older than what was heard: who asked has waited longer for somebody else
        self._heard_in[name] = asked_in
        if is_short(counters, self._told.get(name, {})):
            self._bases[name] = shortfall(counters, known)
        self._told[name] = counters
        heard = self._heard[name] = highest(together(counters, self._bases.get(name, {})), known)
        return {**said, **heard}

    def _serve(self, request: Request) -> Steps:
        found = yield from self.own()
        return found, ""

    def own(self) -> Steps:
        """Those of this node; at most `fresh_ms` old."""
        now = self._clock.now
        if self._found_at <= now < self._found_at + fresh_ms(self._queue_count):
            return self._found
        if self._task is None:
            self._task = Task(self._background.patient(), self._walk())
        task = self._task
        yield task
        if task.error is not None:
            raise task.error
        return self._found

    def close(self) -> None:
        """The end, when no thread runs any more: all that was counted is kept."""
        steps = self._add_up()
        while True:
            try:
                next(steps)
            except StopIteration as end:
                _, counted = end.value
                break
        self._kept.close(self._kept.go_on(highest(counted, self._counted)), self._fleeting)

    def _walk(self) -> Steps:
        try:
            held, counted = yield from self._add_up()
            yield None
            self._counted = highest(counted, self._counted)
            yield None
            counters = self._kept.go_on(self._counted)
            yield None
            yield self._kept.keep(counters, self._fleeting)
            self._found, self._found_at = {**held, **counters}, self._clock.now
            self._queue_count = held["queues"]
        finally:
            self._task = None

    def _add_up(self) -> Steps:
        """Its result: what there is, and what was counted since the start. What is gone is looked at first: so nothing
        is counted twice, and a queue that goes before the walk comes to it is missed this time."""
        broker = self._broker
        by_type = {name: _as_of_now(sums) for name, sums in broker.gone.items()}
        sums_of: dict[str, QueueSums] = {}
        count = here = 0
        for vhost, names in queues_in_slices(broker, _SLICE):
            for each in names:
                queue = vhost.queues.made(each)
                if queue is None:
                    continue  # it lives elsewhere, and nothing was done with it here
                here += not queue.described_at()
                sums = sums_of.get(queue.declaration.type)
                if sums is None:
                    sums = sums_of[queue.declaration.type] = QueueSums()
                queue.add_counts(sums)
                queue.add_own_counters(sums)
            count += len(names)
            yield None
        channels, publishers = yield from self._add_channels()
        held = {
            **self._held(), **_held_by(sums_of.values()), "queues": count, "queues_here": here,
            "publishers": publishers,
        }  # fmt: skip
        for queue_type, sums in sums_of.items():
            gone = by_type.get(queue_type, {})
            by_type[queue_type] = {name: value + gone.get(name, 0) for name, value in _as_of_now(sums).items()}
        counted = {name: sum(each[name] for each in by_type.values()) for name in _OF_QUEUES}
        letters = broker.dead_letters.published
        for queue_type, published in letters.items():
            by_type.setdefault(queue_type, dict.fromkeys(_OF_QUEUES, 0))
            by_type[queue_type] |= {name: published[reason] for name, reason in _DEAD_LETTERS.items()}
        self._fleeting = broker.fleeting_queues  # of the same moment as the counters
        return held, {**counted, **self._counters(), **channels, "by_type": by_type}

    def _add_channels(self) -> Steps:
        """Its result: what channels have done, and how many of those that are open have published."""
        clients = self._clients
        sums = clients.sums
        received, sent, publishers = sums.received_bytes, sums.sent_bytes, 0
        published, to_confirm = sums.published, sums.to_confirm
        confirmed, delivered, routed = sums.confirmed, sums.delivered, sums.routed
        for numbers in clients.numbers.in_slices(_SLICE):
            left = _SLICE
            for each in numbers:
                client = clients.connections.get(each)
                if client is None:
                    continue  # it has gone since the last slice
                one = connection_of(client)
                received += one.received_bytes
                sent += one.sent_bytes
                for channel in list(one.channels.values()):
                    if left == 0:
                        left = _SLICE
                        yield None
                    left -= 1
                    if not channel.is_closing:
                        channel.count_published()
                        channel.count_sizes()
                        own = channel.published + channel.confirms.published
                        publishers += own > 0
                        published += own
                        to_confirm += channel.confirms.messages_published()
                        confirmed += channel.confirms.messages_confirmed()
                        delivered += channel.messages_delivered()
                        routed += channel.routed_count()
            yield None
        sizes = clients.message_sizes
        return {
            "recv_oct": received,
            "send_oct": sent,
            "publish": published,
            "publish_confirm": to_confirm,
            "confirm": confirmed,
            "deliver_get": delivered,
            "routed": routed,
            "publish_oct": sizes.octets,
            "message_sizes": list(sizes.counts),
        }, publishers

    def _held(self) -> JsonObject:
        """What there is, where that is an integer already."""
        broker = self._broker
        vhosts = broker.vhosts.values()
        return {
            "at": broker.clock.now,
            **held_by_node(self._counts),
            "exchanges": sum(len(vhost.router.names) for vhost in vhosts),
            "bindings": sum(vhost.router.binding_count for vhost in vhosts),
        }

    def _counters(self) -> JsonObject:
        """What was counted, where that is an integer already."""
        counts, broker, clients = self._counts, self._broker, self._counts.clients
        store, logins, disk = counts.store, counts.logins, counts.disk
        pagers = counts.groups.pagers
        page_bytes = store.pager.page_bytes
        stored, loaded = (sum(getattr(each, name) for each in pagers) for name in ("pages_stored", "pages_loaded"))
        return {
            "connection_created": clients.opened,
            "connection_closed": clients.closed,
            "connection_moved": clients.moved,
            "hops_out": counts.remote_queues.commands_sent(),
            "hops_in": counts.remote_queues.commands_executed(),
            "loop_delays": list(counts.loop_delays.counts),
            "loop_delay_ms": counts.loop_delays.sum,
            "turns": list(counts.turn_times.counts),
            "turn_seconds": round(counts.turn_times.sum, 6),
            "journal_syncs": list(disk.journal_times.counts),
            "journal_sync_seconds": round(disk.journal_times.sum, 6),
            "channel_created": clients.channels_opened,
            "channel_closed": clients.channels_closed,
            "queue_declared": broker.queues_declared,
            "queue_created": broker.queues_created,
            "queue_deleted": broker.queues_deleted,
            "auth_attempts": {
                protocol: {
                    "attempts": logins.attempts[protocol],
                    "failed": logins.failures[protocol],
                    "succeeded": logins.attempts[protocol] - logins.failures[protocol],
                }
                for protocol in (AMQP, HTTP)
            },
            "return_unroutable": broker.returned,
            "drop_unroutable": broker.unroutable - broker.returned,
            "dead_letter_cycles_dropped": broker.dead_letters.cycles_dropped,
            "pages_stored": stored,
            "pages_loaded": loaded,
            "msg_store_write_count": sum(each.messages_stored for each in pagers),
            "msg_store_read_count": sum(each.messages_loaded for each in pagers),
            "queue_index_write_count": sum(disk.journal_times.counts),
            "io_sync_count": disk.syncs,
            "io_sync_ms": round(disk.seconds * 1000, 3),
            "io_write_count": disk.syncs + stored,
            "io_write_bytes": disk.written_bytes + stored * page_bytes,
            "io_read_count": loaded,
            "io_read_bytes": loaded * page_bytes,
            "disk_writes": stored,
            "disk_reads": loaded,
        }


def fresh_ms(queues: int) -> int:
    """How long the answer of a walk over so many queues is given again, milliseconds."""
    return min(MOST_FRESH_MS, max(FRESH_MS, queues // _QUEUES_A_MS))


def _held_by(sums: Iterable[QueueSums]) -> JsonObject:
    """What queues of all types hold."""
    names = (
        "messages_ready", "messages_unacknowledged", "messages", "messages_leased", "message_bytes_ready", "consumers",
    )  # fmt: skip
    held = dict.fromkeys(names, 0)
    for each in sums:
        held["messages_ready"] += each.ready
        held["messages_unacknowledged"] += each.unacked
        held["messages"] += each.ready + each.unacked + each.delayed
        held["messages_leased"] += each.leased
        held["message_bytes_ready"] += each.ready_bytes
        held["consumers"] += each.consumers
    return held


def _as_of_now(sums: QueueSums) -> dict[str, int]:
    return {name: getattr(sums, of) for name, of in _OF_QUEUES.items()}
