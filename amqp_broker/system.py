"""System: the broker's own service over AMQP: a request is a JSON message to the exchange `amq.system`.

The routing key is the verb, the body a JSON object, the answer goes to reply-to (direct reply-to is best):
`{"ok": true, ...}` or `{"ok": false, "error": "..."}`. Requests need a user with the tag administrator, but for those
of lease.* and txn.*, which go to leases/service.py. What has to survive a restart is answered when it is committed and
all nodes that are there have it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from amqp_broker.administration import Administration
from amqp_broker.auth.passwords import hash_password
from amqp_broker.auth.permissions import check_pattern
from amqp_broker.cluster import commands
from amqp_broker.cluster.cluster_verbs import ClusterVerbs
from amqp_broker.cluster.metadata_stream import Proposal
from amqp_broker.definitions import ImportPlan, export, plan_import
from amqp_broker.leases.service import LEASE, TXN
from amqp_broker.policies import check_policy
from amqp_broker.proxies.remote_counts import RemoteCounts
from amqp_broker.statistics import delayed_statistics, node_statistics, queue_statistics
from queues.message import Message, build_message

if TYPE_CHECKING:
    from amqp_broker.channel.channel import Channel
    from amqp_broker.message_facts import MessageFacts
    from amqp_broker.node import Node

Request = dict[str, Any]
#: An answer's fields, which may change until it is given, and what has to be applied, or known, before that.
Answer = tuple[dict[str, Any], Proposal | RemoteCounts | None]

_JSON_PROPERTIES = b"\x80\x00\x10application/json"


class System:
    """Answers requests."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._administration = Administration(node)
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
            "definitions.export": self._export,
            "definitions.import": self._import,
            **ClusterVerbs(node).verbs,
        }

    def request(self, channel: Channel, verb: str, message: Message, facts: MessageFacts) -> None:
        """Serve one request; the answer goes to the message's reply-to."""
        if verb.startswith((LEASE, TXN)):
            self._node.leases.request(channel, verb, message, facts)
            return
        reply_to = facts.properties.reply_to or ""
        try:
            answer, proposal = self._answer(channel, verb, message)
        except (ValueError, KeyError, TypeError) as error:
            text = f"missing field {error}" if isinstance(error, KeyError) else str(error)
            answer, proposal = {"ok": False, "error": f"{verb}: {text}"}, None

        def send() -> None:
            self._send(channel, reply_to, facts, json.dumps({"ok": True, **answer}).encode())

        if proposal is None or proposal.is_done:
            send()
            return
        hold = self._node.hold(channel.connection, verb)
        proposal.when_done(lambda result: hold.release(send))

    def _answer(self, channel: Channel, verb: str, message: Message) -> Answer:
        session = channel.connection.session
        if not session.has_tag("administrator"):
            return {"ok": False, "error": f"{verb}: user '{session.user}' lacks the tag administrator"}, None
        handler = self._verbs.get(verb)
        if handler is None:
            return {"ok": False, "error": f"unknown verb '{verb}'; there are {', '.join(self._verbs)}"}, None
        body = message.body_bytes()
        request = json.loads(body) if body else {}
        if not isinstance(request, dict):
            raise ValueError("the body has to be a JSON object")
        return handler(request)

    def _send(self, channel: Channel, reply_to: str, facts: MessageFacts, octets: bytes) -> None:
        """Deliver an answer as a message to the default exchange."""
        broker = self._node.broker
        correlation_id = facts.properties.correlation_id
        properties = _JSON_PROPERTIES
        if correlation_id:
            name = correlation_id.encode("utf-8", "surrogateescape")
            properties = b"\x84\x00" + _JSON_PROPERTIES[2:] + bytes([len(name)]) + name
        key = reply_to.encode("utf-8", "surrogateescape")
        address = broker.store.pager.addresses.find(b"\x00" + bytes([len(key)]) + key)
        answer = build_message(address, properties, octets, False, -1, -1, self._node.now)
        consumer = broker.reply_consumers.find(reply_to)
        if consumer is not None:
            consumer.deliver_at_once(answer, False)
        elif reply_to in channel.vhost.queues:
            channel.vhost.publish(answer, [channel.vhost.queues[reply_to]], self._node.now)

    def _execute(self, command: commands.Command) -> Answer:
        return {}, self._administration.execute(command)

    # -- verbs -----------------------------------------------------------------------------------------------------

    def _statistics(self, request: Request) -> Answer:
        return {"statistics": node_statistics(self._node)}, None

    def _list_queues(self, request: Request) -> Answer:
        vhost = self._vhost(request)
        found: dict[str, Any] = {}

        def fill(result: object) -> None:
            queues = [queue_statistics(queue, self._node.now) for queue in vhost.queues.values()]
            found.update(queues=queues, delayed=delayed_statistics(vhost))

        counts = RemoteCounts(vhost.queues.values(), self._node.broker.timers, self._node.now)
        counts.when_done(fill)
        return found, counts

    def _vhost(self, request: Request, key: str = "vhost") -> Any:
        name = _text(request, key)
        vhost = self._node.broker.vhosts.get(name)
        if vhost is None:
            raise ValueError(f"no vhost '{name}'")
        return vhost

    def _user(self, request: Request) -> str:
        name = _text(request, "user")
        if self._node.broker.metadata.user(name) is None:
            raise ValueError(f"no user '{name}'")
        return name

    def _create_vhost(self, request: Request) -> Answer:
        """Without `permissions_for`, nobody may enter but those who are given permission later."""
        name = _text(request, "name")
        broker = self._node.broker
        if name not in broker.vhosts and len(broker.vhosts) >= broker.config.max_vhosts:
            raise ValueError(f"the limit of {broker.config.max_vhosts} vhosts (max_vhosts) is reached")
        proposal = self._administration.execute(commands.put_vhost(name, description=request.get("description", "")))
        user = request.get("permissions_for")
        if user is not None:
            if broker.metadata.user(user) is None:
                raise ValueError(f"no user '{user}'")
            proposal = self._administration.execute(commands.set_permission(user, name, ".*", ".*", ".*"))
        return {}, proposal

    def _delete_vhost(self, request: Request) -> Answer:
        return self._execute(commands.delete_vhost(self._vhost(request, "name").name))

    def _limit_vhost(self, request: Request) -> Answer:
        return self._execute(commands.limit_vhost(self._vhost(request).name, request["limits"]))

    def _put_user(self, request: Request) -> Answer:
        password = request.get("password")
        stored = hash_password(password, self._node.broker.random_bytes) if password else ""
        tags = request.get("tags", [])
        if isinstance(tags, str):
            tags = [tag.strip() for tag in tags.split(",") if tag.strip()]
        return self._execute(commands.put_user(_text(request, "name"), stored, tags))

    def _delete_user(self, request: Request) -> Answer:
        name = _text(request, "name")
        if self._node.broker.metadata.user(name) is None:
            raise ValueError(f"no user '{name}'")
        return self._execute(commands.delete_user(name))

    def _limit_user(self, request: Request) -> Answer:
        return self._execute(commands.limit_user(self._user(request), request["limits"]))

    def _put_permission(self, request: Request) -> Answer:
        patterns = [_text(request, key) for key in ("configure", "write", "read")]
        for pattern in patterns:
            check_pattern(pattern)
        return self._execute(commands.set_permission(self._user(request), self._vhost(request).name, *patterns))

    def _delete_permission(self, request: Request) -> Answer:
        return self._execute(commands.clear_permission(self._user(request), self._vhost(request).name))

    def _put_topic_permission(self, request: Request) -> Answer:
        patterns = [_text(request, key) for key in ("write", "read")]
        for pattern in patterns:
            check_pattern(pattern)
        return self._execute(
            commands.set_topic_permission(
                self._user(request), self._vhost(request).name, _text(request, "exchange"), *patterns
            )
        )

    def _delete_topic_permission(self, request: Request) -> Answer:
        return self._execute(
            commands.clear_topic_permission(self._user(request), self._vhost(request).name, _text(request, "exchange"))
        )

    def _put_policy(self, request: Request) -> Answer:
        return self._set_policy(request, operator=False)

    def _put_operator_policy(self, request: Request) -> Answer:
        return self._set_policy(request, operator=True)

    def _set_policy(self, request: Request, operator: bool) -> Answer:
        pattern, apply_to = request["pattern"], request.get("apply_to", "all")
        priority, definition = request.get("priority", 0), request["definition"]
        check_policy(pattern, apply_to, priority, definition, operator=operator)
        return self._execute(
            commands.set_policy(
                self._vhost(request).name,
                _text(request, "name"),
                pattern=pattern,
                definition=definition,
                apply_to=apply_to,
                priority=priority,
                operator=operator,
            )
        )

    def _delete_policy(self, request: Request) -> Answer:
        return self._execute(commands.clear_policy(self._vhost(request).name, _text(request, "name")))

    def _delete_operator_policy(self, request: Request) -> Answer:
        return self._execute(
            commands.clear_policy(self._vhost(request).name, _text(request, "name"), operator=True)
        )

    def _export(self, request: Request) -> Answer:
        return {"definitions": export(self._node.broker.metadata, request.get("vhost"))}, None

    def _import(self, request: Request) -> Answer:
        plan, proposal = self.carry_out(request["definitions"], request.get("vhost"))
        return {"commands": len(plan.commands), "notes": plan.notes}, proposal

    def carry_out(self, definitions: object, vhost: str | None) -> tuple[ImportPlan, Proposal | None]:
        """Propose what definitions ask for beyond what is there. Returns the plan, and what has to be applied before it
        is true. Raises ValueError."""
        broker = self._node.broker
        plan = plan_import(definitions, broker.metadata, broker.random_bytes, vhost=vhost)
        proposal = None
        for command in plan.commands:
            proposal = self._administration.execute(command)
        return plan, proposal

    def load_definitions(self, definitions: object) -> list[str]:
        """Carry out what definitions ask for beyond what is there. Returns notes on what was left out.

        Raises ValueError."""
        return self.carry_out(definitions, None)[0].notes


def _text(request: Request, key: str) -> str:
    value = request[key]
    if not isinstance(value, str):
        raise ValueError(f"field {key} has to be a string, got {value!r}")
    return value
