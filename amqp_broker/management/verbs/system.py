"""System: the broker's own service over AMQP: a request is a JSON message to the exchange `amq.system`.

The routing key is the verb, the body a JSON object, the answer goes to reply-to (direct reply-to is best):
`{"ok": true, ...}` or `{"ok": false, "error": "...", "code": "..."}`. What tag a verb needs stands in access.py; those
of lease.* and txn.*, and those that read streams, go to leases/service.py. What has to survive a restart is answered
when it is committed and all nodes that are there have it; what costs by the number of things is done in slices, and
answered behind the last.

Invariant: whatever a request says, it is answered, with an error at worst: it never ends a connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from amqp_broker.auth.permissions import Action
from amqp_broker.leases.service import LEASE, TXN
from amqp_broker.leases.stream_reads import READS
from amqp_broker.management.access import LOOKING, PATIENT, Asker, least_tag
from amqp_broker.management.administration import Administration
from amqp_broker.management.gradual_json import AT_ONCE_BYTES
from amqp_broker.management.objects.pages import Pages
from amqp_broker.management.peer_questions import PeerQuestions
from amqp_broker.management.refused import BAD_REQUEST, Refused
from amqp_broker.management.request import Request
from amqp_broker.management.shared_entries import SharedEntries
from amqp_broker.management.shared_logins import SharedLogins
from amqp_broker.management.statistics import delayed_statistics, queue_statistics
from amqp_broker.management.totals import Totals
from amqp_broker.management.verbs.accounts import AccountVerbs
from amqp_broker.management.verbs.at_worker_0 import AtWorker0
from amqp_broker.management.verbs.audit import AuditVerbs
from amqp_broker.management.verbs.cluster import ClusterVerbs
from amqp_broker.management.verbs.connections import ConnectionVerbs
from amqp_broker.management.verbs.definitions import DefinitionVerbs
from amqp_broker.management.verbs.draining import Draining
from amqp_broker.management.verbs.groups import GroupVerbs
from amqp_broker.management.verbs.nodes import NodeVerbs
from amqp_broker.management.verbs.peek import PeekVerb
from amqp_broker.management.verbs.policies import PolicyVerbs
from amqp_broker.management.verbs.queue_types import QueueTypesVerb
from amqp_broker.management.verbs.quorum_view import QuorumView
from amqp_broker.management.verbs.rehome import RehomeVerb
from amqp_broker.management.verbs.route_test import RouteTest
from amqp_broker.management.verbs.statistics import StatisticsVerb
from amqp_broker.management.verbs.streams import StreamVerbs
from amqp_broker.management.verbs.taps import TapVerbs
from amqp_broker.management.written_json import JsonChunks, chunks_of, cut_to, encode_value
from amqp_broker.metadata.access import ADMINISTRATOR
from amqp_broker.protocol.constants import FRAME_OVERHEAD
from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.queue_types.remote.counts import RemoteCounts
from amqp_broker.turn.task import EXPECTED_ERRORS, Awaited, Steps, Task
from queues.message import SEPARATE_BODY_BYTES, Address, Message, build_message, header_frame, make_message

if TYPE_CHECKING:
    from amqp_broker.audit.audit_log import AuditLog
    from amqp_broker.channel.channel import Channel
    from amqp_broker.cluster.membership import Membership
    from amqp_broker.cluster.replication import Replication
    from amqp_broker.cluster.transfers import Transfers
    from amqp_broker.flow.client import Client
    from amqp_broker.flow.pending_answers import PendingAnswer
    from amqp_broker.leases.service import Leases
    from amqp_broker.links.tenants import Tenants
    from amqp_broker.management.node_counts import NodeCounts
    from amqp_broker.messages.facts import MessageFacts
    from amqp_broker.queue_types.groups.groups import QuorumGroups
    from amqp_broker.queue_types.remote.home import Home
    from amqp_broker.rehoming.rehoming import Rehoming
    from amqp_broker.vhosts.broker import Broker
    from queues.queue import Queue

#: An answer's fields, which may change until it is given, and what has to be done before that; or the steps that lead
#: to the fields (turn/task.py).
Answer = tuple[JsonObject, Awaited | None] | Steps

_JSON_PROPERTIES = b"\x80\x00\x10application/json"
#: So many queues are described in one slice.
_SLICE = 5


class System:
    """Answers requests. begin_answer: have a connection wait for what is named (PendingAnswers.begin). home: of the
    queues of this node that others use."""

    def __init__(
        self,
        broker: Broker,
        replication: Replication,
        transfers: Transfers,
        groups: QuorumGroups,
        membership: Membership,
        leases: Leases,
        begin_answer: Callable[[Client, str], PendingAnswer],
        counts: NodeCounts,
        tenants: Tenants,
        audit: AuditLog,
        home: Home,
        rehoming: Rehoming,
    ) -> None:
        self._broker = broker
        self._clock = broker.clock
        self._background = broker.background
        self._leases = leases
        self._begin_answer = begin_answer
        self.counts = counts
        self._administration = Administration(broker, replication)
        self._definitions = DefinitionVerbs(broker, self._administration)
        #: See DefinitionVerbs.
        self.take_over = self._definitions.take_over
        peers = PeerQuestions(broker, tenants, replication, membership)
        pages = Pages(counts, peers, home)
        #: What it is asked about members and groups.
        self.cluster = ClusterVerbs(broker, replication, membership, transfers, groups, peers)
        self._audit = AuditVerbs(audit, peers)
        self._totals = Totals(counts, peers)
        SharedLogins(counts, peers)
        SharedEntries(counts, peers)
        self._verbs: dict[str, Callable[[Request], Answer]] = {
            "queue.list": self._list_queues,
            **StatisticsVerb(counts, peers).verbs,
            **AccountVerbs(broker, self._administration, counts.logins).verbs,
            **PolicyVerbs(broker, self._administration).verbs,
            **self._definitions.verbs,
            **pages.verbs,
            **self._audit.verbs,
            **PeekVerb(counts, peers, pages.channels, home).verbs,
            **ConnectionVerbs(counts, pages.connections, peers).verbs,
            **self._totals.verbs,
            **Draining(counts, replication, peers).verbs,
            **NodeVerbs(counts, replication, peers).verbs,
            **RouteTest(broker).verbs,
            **TapVerbs(counts, peers).verbs,
            **StreamVerbs(broker, peers).verbs,
            **QuorumView(broker, groups, replication, membership, peers).verbs,
            **AtWorker0(broker, peers, self.cluster.verbs).verbs,
            **GroupVerbs(broker.metadata, replication, membership, groups).verbs,
            **RehomeVerb(rehoming).verbs,
            **QueueTypesVerb().verbs,
        }

    def request(self, channel: Channel, verb: str, message: Message, facts: MessageFacts) -> None:
        """Serve one request; the answer goes to the message's reply-to."""
        if verb.startswith((LEASE, TXN)) or verb in READS:
            self._leases.request(channel, verb, message, facts)
            return
        reply_to = facts.properties.reply_to or ""
        body = message.body_bytes()
        request: Request | None = None
        steps: Steps | None = None
        try:
            if len(body) > AT_ONCE_BYTES:
                steps = self._answer_gradually(channel, verb, body)
            else:
                request = Request.of_json(body)
                found = self._answer(channel, verb, request)
                if isinstance(found, Generator):
                    steps = self._finished(channel, verb, request, found)
                else:
                    fields, awaited = found
        except EXPECTED_ERRORS as error:
            fields, awaited = _refusal(verb, error), None
        if steps is not None:
            self._begin(channel, verb, steps, reply_to, facts)
            return

        def send() -> None:
            self._send(channel, reply_to, facts, _octets_of(fields))

        if awaited is None or awaited.is_done:
            self._record(channel, verb, request, fields)
            send()
            return
        pending = self._begin_answer(channel.connection, verb)

        def done(result: object) -> None:
            self._record(channel, verb, request, fields)  # whether the client is still there or not
            pending.release(send)

        awaited.when_done(done)

    def _begin(self, channel: Channel, verb: str, steps: Steps, reply_to: str, facts: MessageFacts) -> None:
        """steps: their result is the answer, in octets."""
        background = self._background
        task = Task(background.patient() if verb in PATIENT else background, steps)
        pending = self._begin_answer(channel.connection, verb)
        task.tell_progress(pending.extend)

        def send() -> None:
            if task.error is not None:
                raise task.error
            self._send(channel, reply_to, facts, task.result)

        task.when_done(lambda _: pending.release(send))

    def _answer_gradually(self, channel: Channel, verb: str, body: bytes) -> Steps:
        """The answer to a large request, in octets."""
        request: Request | None = None
        try:
            request = yield from Request.read_gradually(body)
            found = self._answer(channel, verb, request)
        except EXPECTED_ERRORS as error:
            said = _refusal(verb, error)
            self._record(channel, verb, request, said)
            return _octets_of(said)
        if not isinstance(found, Generator):
            found = _awaited(*found)
        octets = yield from self._finished(channel, verb, request, found)
        yield from request.let_go()
        return octets

    def _finished(self, channel: Channel, verb: str, request: Request, steps: Steps) -> Steps:
        """The answer that steps lead to, in octets. It is written down and encoded in slices of their own, if its
        asker may wait."""
        try:
            said = yield from steps
        except EXPECTED_ERRORS as error:
            said = _refusal(verb, error)
        if verb in PATIENT:
            yield None
        if verb not in LOOKING:
            self._record(channel, verb, request, said)  # whether the client is still there or not
            if verb in PATIENT:
                yield None
        octets = _octets_of(said)
        if len(octets) > 1:
            yield None
            octets = yield from cut_to(octets, channel.connection.frame_max - FRAME_OVERHEAD)
        if verb in PATIENT:
            yield None  # to send it takes its time, too
        return octets

    def close(self) -> None:
        """The end, when no thread runs any more: what was counted outlasts it."""
        self._totals.close()

    def _record(self, channel: Channel, verb: str, request: Request | None, said: JsonObject) -> None:
        """What is no request, or asks for no verb, changes nothing."""
        if verb in self._verbs and request is not None:
            self._audit.record(channel, verb, request, said)

    def _answer(self, channel: Channel, verb: str, request: Request) -> Answer:
        session, metadata = channel.session, self._broker.metadata
        asker = request.ask_as(Asker(metadata, session.user, session.tags()))
        handler = self._verbs.get(verb)
        if handler is None:
            asker.check(ADMINISTRATOR)
            raise Refused(BAD_REQUEST, f"unknown verb '{verb}'; there are {', '.join(self._verbs)}", is_unknown=True)
        if request.has("as_user"):
            asker.check(ADMINISTRATOR)
            asker = request.ask_as(Asker.named(metadata, request.text("as_user")))
        asker.check(least_tag(verb))
        return handler(request)

    def _send(self, channel: Channel, reply_to: str, facts: MessageFacts, octets: list[bytes]) -> None:
        """Deliver an answer, in chunks, as a message to the default exchange, if the user may still publish there."""
        broker = self._broker
        correlation_id = facts.properties.correlation_id
        properties = _JSON_PROPERTIES
        if correlation_id:
            name = correlation_id.encode("utf-8", "surrogateescape")
            properties = b"\x84\x00" + _JSON_PROPERTIES[2:] + bytes([len(name)]) + name
        key = reply_to.encode("utf-8", "surrogateescape")
        address = Address(b"\x00" + bytes([len(key)]) + key)
        now, size = self._clock.now, sum(map(len, octets))
        if size < SEPARATE_BODY_BYTES:
            answer = build_message(address, properties, b"".join(octets), False, -1, -1, now)
        else:
            header = header_frame(properties, size)
            answer = make_message(address.raw, header, len(header), octets, size, False, -1, -1, now)
        consumer = broker.reply_consumers.find(reply_to)
        if consumer is not None:
            consumer.answer(answer)
        elif reply_to in channel.vhost.queues and channel.session.allows(Action.WRITE, ""):
            channel.vhost.publish(answer, [channel.vhost.queues[reply_to]], now)

    # -- verbs -----------------------------------------------------------------------------------------------------

    def _list_queues(self, request: Request) -> Steps:
        vhost, broker = self._administration.vhost(request), self._broker
        counts = RemoteCounts(broker.timers, self._clock.now)
        queues: deque[Queue] = deque()
        for names in vhost.queue_names.in_slices(_SLICE):
            for name in names:
                queue = vhost.queues.look(name)
                assert queue is not None  # a slice is of names that are there
                counts.ask(queue)
                queues.append(queue)
            yield None
        yield counts.asked()
        rows = JsonChunks("[]")
        while queues:
            queue = queues.popleft()
            if not queue.is_deleted and vhost.queues.has(queue):
                rows.add(encode_value(queue_statistics(queue, self._clock.now)))
            if len(queues) % _SLICE == 0:
                yield None
        delayed = delayed_statistics(vhost)
        yield None
        return {"queues": rows, "delayed": delayed}


def _octets_of(said: JsonObject) -> list[bytes]:
    """An answer as it is sent, in chunks."""
    return chunks_of({"ok": True, **said})


def _awaited(fields: JsonObject, awaited: Awaited | None) -> Steps:
    if awaited is not None:
        yield awaited
    return fields


def _refusal(verb: str, error: Exception) -> JsonObject:
    text = f"missing field {error}" if isinstance(error, KeyError) else str(error)
    if not isinstance(error, Refused):
        return {"ok": False, "error": f"{verb}: {text}", "code": BAD_REQUEST}
    more = dict(error.more)
    shown = text if more.pop("is_unknown", False) else f"{verb}: {text}"
    return {"ok": False, "error": shown, "code": error.code, **more}
