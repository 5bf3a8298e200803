"""Totals: the verb `totals`: what a node holds and has done since its start, in about sixty integers.

Nothing is counted for that by the message: queues, channels and connections count what they do, those that are gone
have left theirs behind (`Broker.gone`, `Clients.sums`), and a walk in slices adds up. What it found is the answer for a
second: however many ask, there is one walk at a time.

Invariant: no counter is ever lower than it was in the answer before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from amqp_broker.connection.logins import AMQP, HTTP
from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.turn.task import Steps, Task
from queues.sums import QueueSums

if TYPE_CHECKING:
    from amqp_broker.management.node_counts import NodeCounts
    from amqp_broker.management.peer_questions import PeerQuestions
    from amqp_broker.management.request import Request

#: So long an answer is given again, milliseconds.
FRESH_MS = 1000
#: So many queues, or connections, are added up in one slice: compiled some 50 microseconds, plain some 200.
_SLICE = 64

#: What is counted of queues, by how it is called in the answer.
_OF_QUEUES = {
    "deliver": "delivered", "deliver_no_ack": "auto_acked", "get": "got", "get_no_ack": "got_no_ack",
    "get_empty": "got_nothing", "redeliver": "redelivered", "ack": "acked", "expired": "expired",
    "rejected": "rejected", "maxlen_dropped": "too_many", "delivery_limit_dropped": "returned_too_often",
    "queue_publish": "published",
}  # fmt: skip
#: What never falls.
COUNTERS = (*_OF_QUEUES, "recv_oct", "send_oct", "publish", "confirm", "deliver_get")


class Totals:
    """Of one node."""

    def __init__(self, counts: NodeCounts, peers: PeerQuestions) -> None:
        self._counts = counts
        self._broker = counts.broker
        self._clock = counts.broker.clock
        self._peers = peers
        peers.verbs["totals"] = self._serve
        self._task: Task | None = None
        self._found: JsonObject = {}
        self._found_at = -FRESH_MS
        self.verbs: dict[str, Callable[[Request], Steps]] = {
            "totals": self._totals,
        }

    def _totals(self, request: Request) -> Steps:
        others = self._peers.others()
        asked = {name: self._peers.ask(name, "totals", {}, request.asker) for name in others}
        found = yield from self.own()
        nodes, stale = {self._peers.own_node: found}, []
        for name, question in asked.items():
            answer = yield question
            if answer is None:
                stale.append(name)
            else:
                nodes[name] = answer.fields
        return {"node": self._peers.own_node, "nodes": nodes, "stale": stale, **found}

    def _serve(self, request: Request) -> Steps:
        found = yield from self.own()
        return found, ""

    def own(self) -> Steps:
        """Those of this node; at most a second old."""
        now = self._clock.now
        if self._found_at <= now < self._found_at + FRESH_MS:
            return self._found
        if self._task is None:
            self._task = Task(self._broker.background, self._walk())
        yield self._task
        return self._found

    def _walk(self) -> Steps:
        try:
            found = yield from self._add_up()
            for name in COUNTERS:
                found[name] = max(found[name], self._found.get(name, 0))
            self._found, self._found_at = found, self._clock.now
        finally:
            self._task = None

    def _add_up(self) -> Steps:
        """What is gone is looked at first: so nothing is counted twice, and a queue that goes before the walk comes to
        it is missed this time."""
        broker = self._broker
        sums, gone, count = QueueSums(), _as_of_now(broker.gone), 0
        for name in broker.vhost_names.after(None, len(broker.vhost_names)):
            vhost, last = broker.vhosts.get(name), None
            while vhost is not None and (names := vhost.queue_names.after(last, _SLICE)):
                for each in names:
                    queue = vhost.queues[each]
                    queue.add_counts(sums)
                    queue.add_own_counters(sums)
                count += len(names)
                last = names[-1]
                yield None
        channels = yield from self._add_channels()
        return {
            **{name: getattr(sums, of) + gone[name] for name, of in _OF_QUEUES.items()},
            **self._plain(),
            **channels,
            "queues": count,
            "messages_ready": sums.ready,
            "messages_unacknowledged": sums.unacked,
            "messages": sums.ready + sums.unacked + sums.delayed,
            "message_bytes_ready": sums.ready_bytes,
            "consumers": sums.consumers,
        }

    def _add_channels(self) -> Steps:
        clients = self._counts.clients
        sums = clients.sums
        received, sent = sums.received_bytes, sums.sent_bytes
        published, confirmed, delivered = sums.published, sums.confirmed, sums.delivered
        last = None
        while numbers := clients.numbers.after(last, _SLICE):
            for each in numbers:
                one = clients.connections[each]
                received += one.received_bytes
                sent += one.sent_bytes
                for channel in one.channels.values():
                    if not channel.is_closing:
                        channel.count_published()
                        published += channel.published + channel.confirms.published
                        confirmed += channel.confirms.confirmed
                        delivered += channel.first_tag + len(channel.unacked) - 1
            last = numbers[-1]
            yield None
        return {
            "recv_oct": received,
            "send_oct": sent,
            "publish": published,
            "confirm": confirmed,
            "deliver_get": delivered,
        }

    def _plain(self) -> JsonObject:
        """What is an integer already."""
        counts, broker, clients = self._counts, self._broker, self._counts.clients
        store, logins, disk = counts.store, counts.logins, counts.disk
        page_bytes = store.pager.page_bytes
        groups = list(counts.groups.all.values())
        return {
            "at": broker.clock.now,
            "connections": clients.open_count,
            "channels": clients.channels_opened - clients.channels_closed,
            "vhosts": len(broker.vhosts),
            "exchanges": sum(len(vhost.router.names) for vhost in broker.vhosts.values()),
            "bindings": sum(vhost.router.binding_count for vhost in broker.vhosts.values()),
            "connection_created": clients.opened,
            "connection_closed": clients.closed,
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
            "memory_used": store.pager.used + sum(group.ram_bytes for group in groups),
            "memory_budget": store.pager.budget_bytes,
            "pages_stored": store.pager.pages_stored,
            "pages_loaded": store.pager.pages_loaded,
            "io_sync_count": disk.syncs,
            "io_sync_ms": round(disk.seconds * 1000, 3),
            "io_write_count": disk.syncs + store.pager.pages_stored,
            "io_write_bytes": disk.written_bytes + store.pager.pages_stored * page_bytes,
            "io_read_count": store.pager.pages_loaded,
            "io_read_bytes": store.pager.pages_loaded * page_bytes,
            "disk_writes": store.pager.pages_stored,
            "disk_reads": store.pager.pages_loaded,
            "journal_bytes": store.journal.total_bytes,
            "unsynced_bytes": counts.backlog_bytes(),
        }


def _as_of_now(sums: QueueSums) -> dict[str, int]:
    return {name: getattr(sums, of) for name, of in _OF_QUEUES.items()}
