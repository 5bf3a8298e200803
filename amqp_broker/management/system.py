"""System: the broker's own service over AMQP: a request is a JSON message to the exchange `amq.system`.

The routing key is the verb, the body a JSON object, the answer goes to reply-to (direct reply-to is best):
`{"ok": true, ...}` or `{"ok": false, "error": "...", "code": "..."}`. What tag a verb needs stands in access.py; those
of lease.* and txn.* go to leases/service.py. What has to survive a restart is answered when it is committed and
all nodes that are there have it; what costs by the number of things is done in slices, and answered behind the last.

Invariant: whatever a request says, it is answered, with an error at worst: it never ends a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from amqp_broker.auth.passwords import NewPassword
from amqp_broker.auth.permissions import check_pattern
from amqp_broker.auth.service_account import check_user_name
from amqp_broker.leases.service import LEASE, TXN
from amqp_broker.management.access import ADMINISTRATOR, Asker, least_tag
from amqp_broker.management.administration import Administration
from amqp_broker.management.cluster_verbs import ClusterVerbs
from amqp_broker.management.connection_verbs import ConnectionVerbs
from amqp_broker.management.definitions import USER_LIMITS, VHOST_LIMITS, Importer
from amqp_broker.management.definitions.exporting import export_items
from amqp_broker.management.definitions.importing import DEFAULT_ALGORITHM, read_password_hash
from amqp_broker.management.node_verbs import NodeVerbs
from amqp_broker.management.objects.pages import Pages
from amqp_broker.management.peer_questions import PeerQuestions
from amqp_broker.management.refused import BAD_REQUEST, Refused, not_found, precondition
from amqp_broker.management.request import Request, encode, encode_value, list_of, object_of
from amqp_broker.management.statistics import count_node, delayed_statistics, queue_statistics
from amqp_broker.management.totals import Totals
from amqp_broker.metadata import commands
from amqp_broker.metadata.stream import BATCH_COMMANDS
from amqp_broker.queue_types.remote.counts import RemoteCounts
from amqp_broker.turn.task import EXPECTED_ERRORS, Awaited, Steps, Task
from amqp_broker.vhosts.policies import check_policy
from queues.message import Message, build_message

if TYPE_CHECKING:
    from amqp_broker.channel.channel import Channel
    from amqp_broker.cluster.membership import Membership
    from amqp_broker.cluster.replication import Replication
    from amqp_broker.cluster.transfers import Transfers
    from amqp_broker.flow.client import Client
    from amqp_broker.flow.hold import Hold
    from amqp_broker.leases.service import Leases
    from amqp_broker.links.tenants import Tenants
    from amqp_broker.management.node_counts import NodeCounts
    from amqp_broker.messages.facts import MessageFacts
    from amqp_broker.queue_types.quorum.groups import QuorumGroups
    from amqp_broker.vhosts.broker import Broker

#: An answer's fields, which may change until it is given, and what has to be done before that; or the steps that lead
#: to the fields (turn/task.py).
Answer = tuple[dict[str, Any], Awaited | None] | Steps

_JSON_PROPERTIES = b"\x80\x00\x10application/json"
#: So many queues or definitions are described in one slice.
_SLICE = 10


class System:
    """Answers requests. hold: have a connection wait for what is named (PendingAnswers.hold)."""

    def __init__(
        self,
        broker: Broker,
        replication: Replication,
        transfers: Transfers,
        groups: QuorumGroups,
        membership: Membership,
        leases: Leases,
        hold: Callable[[Client, str], Hold],
        counts: NodeCounts,
        tenants: Tenants,
    ) -> None:
        self._broker = broker
        self._replication = replication
        self._groups = groups
        self._leases = leases
        self._hold = hold
        self._counts = counts
        self._administration = Administration(replication)
        peers = PeerQuestions(broker, tenants, replication, membership)
        pages = Pages(counts, peers)
        self._verbs: dict[str, Callable[[Request], Answer]] = {
            "statistics": self._statistics,
            "queue.list": self._list_queues,
            "vhost.create": self._create_vhost,
            "vhost.delete": self._delete_vhost,
            "vhost.limits": self._limit_vhost,
            "user.put": self._put_user,
            "user.delete": self._delete_user,
            "user.limits": self._limit_user,
            "permission.put": self._put_permission,
            "permission.delete": self._delete_permission,
            "topic_permission.put": self._put_topic_permission,
            "topic_permission.delete": self._delete_topic_permission,
            "policy.put": self._put_policy,
            "policy.delete": self._delete_policy,
            "operator_policy.put": self._put_operator_policy,
            "operator_policy.delete": self._delete_operator_policy,
            "parameter.delete": self._delete_parameter,
            "global_parameter.delete": self._delete_global_parameter,
            "definitions.export": self._export,
            "definitions.import": self._import,
            **pages.verbs,
            **ConnectionVerbs(counts, pages.connections, peers).verbs,
            **Totals(counts, peers).verbs,
            **NodeVerbs(counts, replication).verbs,
            **ClusterVerbs(broker.config, broker.metadata, replication, membership, transfers, groups).verbs,
        }

    def request(self, channel: Channel, verb: str, message: Message, facts: MessageFacts) -> None:
        """Serve one request; the answer goes to the message's reply-to."""
        if verb.startswith((LEASE, TXN)):
            self._leases.request(channel, verb, message, facts)
            return
        reply_to = facts.properties.reply_to or ""
        task: Task | None = None
        fields: dict[str, Any] = {}
        awaited: Awaited | None = None
        try:
            found = self._answer(channel, verb, message)
            if isinstance(found, Generator):
                task = awaited = Task(self._broker.background, found)
            else:
                fields, awaited = found
        except EXPECTED_ERRORS as error:
            fields, awaited = _refusal(verb, error), None

        def send() -> None:
            said = fields
            if task is not None and isinstance(task.error, EXPECTED_ERRORS):
                said = _refusal(verb, task.error)
            elif task is not None and task.error is not None:
                raise task.error
            elif task is not None:
                said = task.result
            self._send(channel, reply_to, facts, encode({"ok": True, **said}).encode("ascii"))

        if awaited is None or awaited.is_done:
            send()
            return
        hold = self._hold(channel.connection, verb)
        if task is not None:
            task.on_progress = hold.extend
        awaited.when_done(lambda result: hold.release(send))

    def _answer(self, channel: Channel, verb: str, message: Message) -> Answer:
        session, metadata = channel.connection.session, self._broker.metadata
        asker = Asker(metadata, session.user, session.tags())
        handler = self._verbs.get(verb)
        if handler is None:
            asker.check(ADMINISTRATOR)
            raise Refused(BAD_REQUEST, f"unknown verb '{verb}'; there are {', '.join(self._verbs)}", is_unknown=True)
        request = Request.of_json(message.body_bytes())
        if request.has("as_user"):
            asker.check(ADMINISTRATOR)
            asker = Asker.named(metadata, request.text("as_user"))
        asker.check(least_tag(verb))
        request.asker = asker
        return handler(request)

    def _send(self, channel: Channel, reply_to: str, facts: MessageFacts, octets: bytes) -> None:
        """Deliver an answer as a message to the default exchange."""
        broker = self._broker
        correlation_id = facts.properties.correlation_id
        properties = _JSON_PROPERTIES
        if correlation_id:
            name = correlation_id.encode("utf-8", "surrogateescape")
            properties = b"\x84\x00" + _JSON_PROPERTIES[2:] + bytes([len(name)]) + name
        key = reply_to.encode("utf-8", "surrogateescape")
        address = broker.store.pager.addresses.find(b"\x00" + bytes([len(key)]) + key)
        answer = build_message(address, properties, octets, False, -1, -1, self._broker.clock.now)
        consumer = broker.reply_consumers.find(reply_to)
        if consumer is not None:
            consumer.deliver_at_once(answer, False)
        elif reply_to in channel.vhost.queues:
            channel.vhost.publish(answer, [channel.vhost.queues[reply_to]], self._broker.clock.now)

    def _execute(self, *asked: commands.Command) -> Steps:
        """Done when they are applied, and true at run time."""
        proposals = [self._administration.execute(command) for command in asked]
        yield proposals[-1]
        for proposal in proposals:
            if isinstance(proposal.result, Task):
                yield proposal.result
        return {}

    def _settled(self) -> Steps:
        """Wait until all is applied that this node has proposed: what is asked of the metadata then is not about to be
        changed from here."""
        while (last := self._broker.unsettled_proposal()) is not None:
            yield last

    # -- verbs -----------------------------------------------------------------------------------------------------

    def _statistics(self, request: Request) -> Steps:
        return {"statistics": (yield from count_node(self._counts))}

    def _list_queues(self, request: Request) -> Steps:
        vhost, broker = self._vhost(request), self._broker
        counts = RemoteCounts(broker.timers, self._broker.clock.now)
        queues = list(vhost.queues.values())
        for number, queue in enumerate(queues):
            counts.ask(queue)
            if number % _SLICE == 0:
                yield None
        yield counts.asked()
        rows: list[str] = []
        for number, queue in enumerate(queues):
            if not queue.is_deleted:
                rows.append(encode_value(queue_statistics(queue, self._broker.clock.now)))
            if number % _SLICE == 0:
                yield None
        return {"queues": list_of(rows), "delayed": delayed_statistics(vhost)}

    def _vhost(self, request: Request, key: str = "vhost") -> Any:
        name = request.text(key)
        vhost = self._broker.vhosts.get(name)
        if vhost is None:
            raise not_found("vhost", name)
        return vhost

    def _changed_vhost(self, request: Request) -> str:
        """The name of one in which the user may change things."""
        name = str(self._vhost(request).name)
        request.asker.check_vhost(name, changes=True)
        return name

    def _user(self, request: Request, key: str = "user") -> str:
        name = request.text(key)
        if self._broker.metadata.user(name) is None:
            raise not_found("user", name)
        return name

    def _create_vhost(self, request: Request) -> Steps:
        """Without `permissions_for`, nobody may enter but those who are given permission later. Of one that is there,
        what is not named stays."""
        name, broker = request.name("name"), self._broker
        user = self._user(request, "permissions_for") if request.has("permissions_for") else None
        yield from self._settled()
        if name not in broker.vhosts and len(broker.vhosts) >= broker.config.max_vhosts:
            raise precondition(f"the limit of {broker.config.max_vhosts} vhosts (max_vhosts) is reached")
        known = broker.metadata.vhost(name)
        if known is None:
            put = commands.put_vhost(name, description=request.text("description", ""))
        else:
            put = commands.put_vhost(
                name,
                description=request.text("description", known.description),
                tags=known.tags,
                default_queue_type=known.default_queue_type,
                tracing=known.tracing,
            )
        allow = [commands.set_permission(user, name, ".*", ".*", ".*")] if user is not None else []
        return (yield from self._execute(put, *allow))

    def _delete_vhost(self, request: Request) -> Steps:
        return self._execute(commands.delete_vhost(self._vhost(request, "name").name))

    def _limit_vhost(self, request: Request) -> Steps:
        limits = request.limits("limits", VHOST_LIMITS)
        return self._execute(commands.limit_vhost(self._vhost(request).name, limits))

    def _put_user(self, request: Request) -> Steps:
        """Of one who is there, what is not named stays. A hash is read as in definitions."""
        name, broker = request.name("name"), self._broker
        check_user_name(name)
        tags = request.tags("tags") if request.has("tags") else None
        stored = None
        if request.has("password_hash"):
            algorithm = request.text("hashing_algorithm", DEFAULT_ALGORITHM)
            stored = read_password_hash(algorithm, request.text("password_hash"))
        elif request.has("password"):
            stored = yield broker.hashing.hash(NewPassword(request.text("password"), broker.random_bytes))
        yield from self._settled()
        known = broker.metadata.user(name)
        if stored is None:
            stored = known.password_hash if known is not None else ""
        if tags is None:
            tags = list(known.tags) if known is not None else []
        elif ADMINISTRATOR not in tags:
            self._check_administrators(name)
        return (yield from self._execute(commands.put_user(name, stored, tags)))

    def _delete_user(self, request: Request) -> Steps:
        name = self._user(request, "name")
        yield from self._settled()
        self._check_administrators(name)
        return (yield from self._execute(commands.delete_user(name)))

    def _check_administrators(self, without: str) -> None:
        """Somebody has to be able to administer the broker. Raises ValueError."""
        found = [user.name for user in self._broker.metadata.users() if ADMINISTRATOR in user.tags]
        if found == [without]:
            raise precondition(
                f"user '{without}' is the last one with the tag administrator; give the tag to somebody else first"
            )

    def _limit_user(self, request: Request) -> Steps:
        return self._execute(commands.limit_user(self._user(request), request.limits("limits", USER_LIMITS)))

    def _put_permission(self, request: Request) -> Steps:
        patterns = [_pattern(request, key) for key in ("configure", "write", "read")]
        return self._execute(commands.set_permission(self._user(request), self._vhost(request).name, *patterns))

    def _delete_permission(self, request: Request) -> Steps:
        return self._execute(commands.clear_permission(self._user(request), self._vhost(request).name))

    def _put_topic_permission(self, request: Request) -> Steps:
        patterns = [_pattern(request, key) for key in ("write", "read")]
        exchange = request.name("exchange", may_be_empty=True)
        return self._execute(
            commands.set_topic_permission(self._user(request), self._vhost(request).name, exchange, *patterns)
        )

    def _delete_topic_permission(self, request: Request) -> Steps:
        return self._execute(
            commands.clear_topic_permission(
                self._user(request), self._vhost(request).name, request.text("exchange")
            )
        )

    def _put_policy(self, request: Request) -> Steps:
        return self._set_policy(request, operator=False)

    def _put_operator_policy(self, request: Request) -> Steps:
        return self._set_policy(request, operator=True)

    def _set_policy(self, request: Request, operator: bool) -> Steps:
        vhost = self._changed_vhost(request)
        pattern, apply_to = request.text("pattern"), request.text("apply_to", "all")
        priority, definition = request.get("priority", 0), request.get("definition")
        check_policy(pattern, apply_to, priority, definition, operator=operator)
        return self._execute(
            commands.set_policy(
                vhost,
                request.name("name", may_be_empty=True),
                pattern=pattern,
                definition=definition,
                apply_to=apply_to,
                priority=priority,
                operator=operator,
            )
        )

    def _delete_policy(self, request: Request) -> Steps:
        return self._execute(commands.clear_policy(self._changed_vhost(request), request.text("name")))

    def _delete_operator_policy(self, request: Request) -> Steps:
        return self._execute(
            commands.clear_policy(self._vhost(request).name, request.text("name"), operator=True)
        )

    def _delete_parameter(self, request: Request) -> Steps:
        """One that came with definitions: nothing here reads parameters of others."""
        vhost, component, name = self._changed_vhost(request), request.text("component"), request.text("name")
        known = self._broker.metadata.parameters(vhost)
        if not any((each.component, each.name) == (component, name) for each in known):
            raise not_found("parameter", f"{component} {name}", vhost)
        return self._execute(commands.clear_parameter(vhost, component, name))

    def _delete_global_parameter(self, request: Request) -> Steps:
        name = request.text("name")
        if not any(each.name == name for each in self._broker.metadata.global_parameters()):
            raise not_found("parameter", name)
        return self._execute(commands.clear_global_parameter(name))

    # -- definitions -------------------------------------------------------------------------------------------------

    def _export(self, request: Request) -> Steps:
        """As they are at the first step."""
        vhost = self._vhost(request).name if request.has("vhost") else None
        about, categories = export_items(self._broker.metadata, vhost)
        parts = {name: encode_value(value) for name, value in about.items()}
        for category, items in categories.items():
            rows: list[str] = []
            for item in items:
                rows.append(encode_value(item))
                if len(rows) % _SLICE == 0:
                    yield None
            parts[category] = list_of(rows)
            yield None
        return {"definitions": object_of(parts)}

    def _import(self, request: Request) -> Steps:
        vhost = request.text("vhost") if request.has("vhost") else None
        return (yield from self._carry_out(request.get("definitions"), vhost))

    def take_over(self, definitions: object, vhost: str | None = None) -> Task:
        """Carry out what definitions ask for beyond what is there. Its result has `commands`, how many changes that
        were, and `notes` on what was left out; its error is a ValueError where they cannot be."""
        return Task(self._broker.background, self._carry_out(definitions, vhost))

    def _carry_out(self, definitions: object, vhost: str | None) -> Steps:
        """Portions of commands, the next one when the last is applied: no member has more to do at once."""
        broker = self._broker
        groups = len(self._groups.all)
        importer = Importer(definitions, broker.metadata, broker.random_bytes, vhost=vhost, queue_groups=groups)
        for password in importer.steps():
            yield broker.hashing.hash(password) if password is not None else None
        plan = importer.plan
        for start in range(0, len(plan.commands), BATCH_COMMANDS):
            yield from self._execute(*plan.commands[start : start + BATCH_COMMANDS])
        return {"commands": len(plan.commands), "notes": plan.notes}


def _refusal(verb: str, error: Exception) -> dict[str, Any]:
    text = f"missing field {error}" if isinstance(error, KeyError) else str(error)
    if not isinstance(error, Refused):
        return {"ok": False, "error": f"{verb}: {text}", "code": BAD_REQUEST}
    more = dict(error.more)
    shown = text if more.pop("is_unknown", False) else f"{verb}: {text}"
    return {"ok": False, "error": shown, "code": error.code, **more}


def _pattern(request: Request, key: str) -> str:
    pattern = request.text(key)
    check_pattern(pattern)
    return pattern
