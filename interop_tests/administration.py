"""Set-up of virtual hosts, users, permissions and policies, through each broker's own tool.

For ours that is the administration RPC: a JSON object published to the exchange `amq.system`, the verb as
routing key, the answer over direct reply-to. For RabbitMQ it is rabbitmqctl. Both offer the same verbs here,
so that a test says what it needs and not how.
"""

from __future__ import annotations

import json
import time
from typing import Any, Protocol

import pika  # type: ignore[import-untyped]

from interop_tests.broker_under_test import BrokerFailed, BrokerUnderTest, Unavailable, run_ctl

REPLY_TO = "amq.rabbitmq.reply-to"
ANSWER_TIMEOUT_S = 60.0


class Administrator(Protocol):
    """The verbs that tests need; each returns when the broker has applied the change."""

    def create_vhost(self, name: str) -> None: ...
    def delete_vhost(self, name: str) -> None: ...
    def put_user(self, name: str, password: str, tags: str = "") -> None: ...
    def put_permission(self, user: str, vhost: str, configure: str, write: str, read: str) -> None: ...
    def put_topic_permission(self, user: str, vhost: str, exchange: str, write: str, read: str) -> None: ...
    def put_policy(
        self,
        vhost: str,
        name: str,
        pattern: str,
        definition: dict[str, Any],
        apply_to: str = "all",
        priority: int = 0,
    ) -> None: ...
    def delete_policy(self, vhost: str, name: str) -> None: ...
    def put_operator_policy(self, vhost: str, name: str, pattern: str, definition: dict[str, Any]) -> None: ...
    def limit_vhost(self, vhost: str, limits: dict[str, int]) -> None: ...
    def limit_user(self, user: str, limits: dict[str, int]) -> None: ...


class RpcAdministrator:
    """Our broker's administration RPC."""

    def __init__(self, url: str) -> None:
        self._url = url

    def call(self, verb: str, **request: Any) -> dict[str, Any]:
        """The RPC's answer; raises BrokerFailed with the broker's own text when it says that it is not ok."""
        connection = pika.BlockingConnection(pika.URLParameters(self._url))
        try:
            answer = _ask(connection, verb, json.dumps(request).encode())
        finally:
            if connection.is_open:
                connection.close()
        if not answer.get("ok"):
            raise BrokerFailed(f"{verb} {request} was refused: {answer.get('error')}")
        return answer

    def create_vhost(self, name: str) -> None:
        self.call("vhost.create", name=name)

    def delete_vhost(self, name: str) -> None:
        self.call("vhost.delete", name=name)

    def put_user(self, name: str, password: str, tags: str = "") -> None:
        self.call("user.put", name=name, password=password, tags=tags.split(",") if tags else [])

    def put_permission(self, user: str, vhost: str, configure: str, write: str, read: str) -> None:
        self.call("permission.put", user=user, vhost=vhost, configure=configure, write=write, read=read)

    def put_topic_permission(self, user: str, vhost: str, exchange: str, write: str, read: str) -> None:
        self.call("topic_permission.put", user=user, vhost=vhost, exchange=exchange, write=write, read=read)

    def put_policy(
        self,
        vhost: str,
        name: str,
        pattern: str,
        definition: dict[str, Any],
        apply_to: str = "all",
        priority: int = 0,
    ) -> None:
        fields = {"vhost": vhost, "name": name, "pattern": pattern, "apply_to": apply_to}
        self.call("policy.put", **fields, definition=definition, priority=priority)

    def delete_policy(self, vhost: str, name: str) -> None:
        self.call("policy.delete", vhost=vhost, name=name)

    def put_operator_policy(self, vhost: str, name: str, pattern: str, definition: dict[str, Any]) -> None:
        fields = {"vhost": vhost, "name": name, "pattern": pattern, "apply_to": "queues"}
        self.call("operator_policy.put", **fields, definition=definition, priority=0)

    def limit_vhost(self, vhost: str, limits: dict[str, int]) -> None:
        self.call("vhost.limits", vhost=vhost, limits=limits)

    def limit_user(self, user: str, limits: dict[str, int]) -> None:
        self.call("user.limits", user=user, limits=limits)


def _ask(connection: pika.BlockingConnection, verb: str, body: bytes) -> dict[str, Any]:
    """Publish one request and take its one answer from the direct reply-to pseudo-queue."""
    answers: list[bytes] = []
    channel = connection.channel()
    channel.basic_consume(REPLY_TO, lambda *delivery: answers.append(delivery[3]), auto_ack=True)
    channel.basic_publish("amq.system", verb, body, pika.BasicProperties(reply_to=REPLY_TO))
    deadline = time.monotonic() + ANSWER_TIMEOUT_S
    while not answers:
        if time.monotonic() > deadline:
            raise BrokerFailed(f"the broker did not answer {verb} within {ANSWER_TIMEOUT_S} s")
        connection.process_data_events(time_limit=1)
    return dict(json.loads(answers[0]))


class CtlAdministrator:
    """RabbitMQ, through rabbitmqctl."""

    def __init__(self, ctl: str) -> None:
        self._ctl = ctl

    def create_vhost(self, name: str) -> None:
        run_ctl(self._ctl, "add_vhost", name)

    def delete_vhost(self, name: str) -> None:
        run_ctl(self._ctl, "delete_vhost", name)

    def put_user(self, name: str, password: str, tags: str = "") -> None:
        if name in run_ctl(self._ctl, "list_users"):
            run_ctl(self._ctl, "change_password", name, password)
        else:
            run_ctl(self._ctl, "add_user", name, password)
        run_ctl(self._ctl, "set_user_tags", name, *tags.split(","))

    def put_permission(self, user: str, vhost: str, configure: str, write: str, read: str) -> None:
        run_ctl(self._ctl, "set_permissions", "-p", vhost, user, configure, write, read)

    def put_topic_permission(self, user: str, vhost: str, exchange: str, write: str, read: str) -> None:
        run_ctl(self._ctl, "set_topic_permissions", "-p", vhost, user, exchange, write, read)

    def put_policy(
        self,
        vhost: str,
        name: str,
        pattern: str,
        definition: dict[str, Any],
        apply_to: str = "all",
        priority: int = 0,
    ) -> None:
        options = ["--apply-to", apply_to, "--priority", str(priority)]
        run_ctl(self._ctl, "set_policy", "-p", vhost, *options, name, pattern, json.dumps(definition))

    def delete_policy(self, vhost: str, name: str) -> None:
        run_ctl(self._ctl, "clear_policy", "-p", vhost, name)

    def put_operator_policy(self, vhost: str, name: str, pattern: str, definition: dict[str, Any]) -> None:
        options = ["--apply-to", "queues"]
        run_ctl(self._ctl, "set_operator_policy", "-p", vhost, *options, name, pattern, json.dumps(definition))

    def limit_vhost(self, vhost: str, limits: dict[str, int]) -> None:
        run_ctl(self._ctl, "set_vhost_limits", "-p", vhost, json.dumps(limits))

    def limit_user(self, user: str, limits: dict[str, int]) -> None:
        run_ctl(self._ctl, "set_user_limits", user, json.dumps(limits))


def administrator(broker: BrokerUnderTest) -> Administrator:
    """The administrator of a broker; raises Unavailable when RabbitMQ's command is not given."""
    if not broker.is_rabbitmq:
        return RpcAdministrator(broker.url)
    if not broker.ctl:
        raise Unavailable(
            "set RABBITMQ_CTL to the rabbitmqctl command of this RabbitMQ: the test sets up users or policies"
        )
    return CtlAdministrator(broker.ctl)
