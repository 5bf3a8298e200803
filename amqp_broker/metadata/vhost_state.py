"""VHostState: one vhost and all that lives in it.

It holds; what may be put in is decided in metadata.py.
"""

from __future__ import annotations

from amqp_broker.metadata.bindings import BindingIndex
from amqp_broker.metadata.entities import (
    AppRecord,
    Parameter,
    Policy,
    QueueRecord,
    VHost,
    predeclared_exchanges,
)


class VHostState:
    """One vhost and all that lives in it."""

    __slots__ = ("apps", "bindings", "exchanges", "operator_policies", "parameters", "policies", "queues", "vhost")

    def __init__(self, vhost: VHost) -> None:
        self.vhost = vhost
        self.exchanges = {exchange.name: exchange for exchange in predeclared_exchanges(vhost.name)}
        self.queues: dict[str, QueueRecord] = {}
        self.bindings = BindingIndex()
        self.policies: dict[str, Policy] = {}
        self.operator_policies: dict[str, Policy] = {}
        self.parameters: dict[tuple[str, str], Parameter] = {}
        self.apps: dict[str, AppRecord] = {}

    def draft(self) -> VHostState:
        """The same state without the bindings, to be changed on its own."""
        other = VHostState(self.vhost)
        other.exchanges = dict(self.exchanges)
        other.queues = dict(self.queues)
        other.policies = dict(self.policies)
        other.operator_policies = dict(self.operator_policies)
        other.parameters = dict(self.parameters)
        other.apps = dict(self.apps)
        return other
