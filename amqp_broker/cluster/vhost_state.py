"""VHostState: one vhost and all that lives in it, and the commands that make it again.

It holds; what may be put in is decided in metadata.py.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from amqp_broker.cluster import commands
from amqp_broker.cluster.bindings import BindingIndex
from amqp_broker.cluster.commands import Command
from amqp_broker.cluster.entities import (
    Parameter,
    Policy,
    QueueRecord,
    VHost,
    predeclared_exchanges,
)


class VHostState:
    """One vhost and all that lives in it."""

    __slots__ = ("bindings", "exchanges", "operator_policies", "parameters", "policies", "queues", "vhost")

    def __init__(self, vhost: VHost) -> None:
        self.vhost = vhost
        self.exchanges = {exchange.name: exchange for exchange in predeclared_exchanges(vhost.name)}
        self.queues: dict[str, QueueRecord] = {}
        self.bindings = BindingIndex()
        self.policies: dict[str, Policy] = {}
        self.operator_policies: dict[str, Policy] = {}
        self.parameters: dict[tuple[str, str], Parameter] = {}

    def copy(self) -> VHostState:
        """The same state, to be changed on its own."""
        other = VHostState(self.vhost)
        other.exchanges = dict(self.exchanges)
        other.queues = dict(self.queues)
        other.bindings = self.bindings.copy()
        other.policies = dict(self.policies)
        other.operator_policies = dict(self.operator_policies)
        other.parameters = dict(self.parameters)
        return other


def describe_vhost(vhost: VHost) -> Iterable[Command]:
    yield commands.put_vhost(
        vhost.name,
        description=vhost.description,
        tags=vhost.tags,
        default_queue_type=vhost.default_queue_type,
        tracing=vhost.tracing,
    )
    if vhost.limits:
        yield commands.limit_vhost(vhost.name, vhost.limits)


def describe_content(state: VHostState) -> Iterable[Command]:
    """What a vhost holds, without its queues (their ids must rise over all vhosts) and its bindings."""
    vhost = state.vhost.name
    for parameter in state.parameters.values():
        value = copy.deepcopy(parameter.value)
        yield commands.set_parameter(vhost, parameter.component, parameter.name, value)
    for operator, policies in ((False, state.policies), (True, state.operator_policies)):
        for policy in policies.values():
            yield commands.set_policy(
                vhost,
                policy.name,
                pattern=policy.pattern,
                definition=copy.deepcopy(dict[str, Any](policy.definition)),
                apply_to=policy.apply_to,
                priority=policy.priority,
                operator=operator,
            )
    for exchange in state.exchanges.values():
        if not exchange.is_predeclared:
            yield commands.declare_exchange(
                vhost,
                exchange.name,
                exchange.type,
                auto_delete=exchange.auto_delete,
                internal=exchange.internal,
                arguments_raw=exchange.arguments_raw,
                durable=exchange.durable,
            )


def describe_queue(queue: QueueRecord) -> Command:
    return commands.declare_queue(
        queue.vhost,
        queue.name,
        queue.queue_id,
        type_name=queue.type,
        auto_delete=queue.auto_delete,
        arguments_raw=queue.arguments_raw,
        durable=queue.durable,
        exclusive=queue.exclusive,
        home=queue.home,
    )
