"""PolicyVerbs: policies, operator policies and parameters: set and cleared."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from amqp_broker.management.definitions.exporting import LIMITS_PARAMETER, OPERATOR_POLICY
from amqp_broker.management.refused import not_found
from amqp_broker.metadata import commands
from amqp_broker.metadata.cluster_identity import CLUSTER_ID, CLUSTER_NAME, check_cluster_name
from amqp_broker.metadata.entities import Policy
from amqp_broker.queue_types.register import QUEUE_TYPES
from amqp_broker.turn.task import Steps
from amqp_broker.vhosts.policies import EXCHANGES, check_policy, keys_without_effect, would_apply

if TYPE_CHECKING:
    from amqp_broker.management.administration import Administration
    from amqp_broker.management.request import Request
    from amqp_broker.protocol.json_values import JsonObject
    from amqp_broker.vhosts.broker import Broker

#: So many names are looked at in one slice, and listed.
_SLICE = 32
#: With so many names a pattern is compared in one slice.
_COMPARED = 4
_MOST_LISTED = 100


class PolicyVerbs:
    """See the module's docstring. What a parameter means, others know: it is kept for them."""

    def __init__(self, broker: Broker, administration: Administration) -> None:
        self._broker = broker
        self._metadata = broker.metadata
        self._execute = administration.carry_out
        self._vhost = administration.vhost
        self._changed_vhost = administration.changed_vhost
        self.verbs: dict[str, Callable[[Request], Steps]] = {
            "policy.put": self._put_policy,
            "policy.delete": self._delete_policy,
            "policy.preview": self._preview,
            "operator_policy.put": self._put_operator_policy,
            "operator_policy.delete": self._delete_operator_policy,
            "parameter.put": self._put_parameter,
            "parameter.delete": self._delete_parameter,
            "global_parameter.put": self._put_global_parameter,
            "global_parameter.delete": self._delete_global_parameter,
        }

    def _put_policy(self, request: Request) -> Steps:
        return self._set_policy(request, operator=False)

    def _put_operator_policy(self, request: Request) -> Steps:
        return self._set_policy(request, operator=True)

    def _set_policy(self, request: Request, operator: bool) -> Steps:
        """notes: what of it does nothing."""
        vhost = self._changed_vhost(request)
        pattern, apply_to = request.text("pattern"), request.text("apply_to", "all")
        priority, definition = request.get("priority", 0), request.get("definition")
        check_policy(pattern, apply_to, priority, definition, operator=operator)
        yield from self._execute(
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
        return {"notes": keys_without_effect(definition, apply_to)}

    def _preview(self, request: Request) -> Steps:
        """Which queues and exchanges a policy would match if it were set, and to how many it would apply; nothing is
        set. operator: it would be an operator policy."""
        vhost, operator = self._changed_vhost(request), request.flag("operator")
        policy = Policy(
            vhost,
            request.text("name", ""),
            request.text("pattern"),
            request.text("apply_to", "all"),
            request.number("priority", 0, -(1 << 31), 1 << 31),
            request.get("definition"),
        )
        check_policy(policy.pattern, policy.apply_to, policy.priority, policy.definition, operator=operator)
        yield None
        found: JsonObject = {"notes": keys_without_effect(policy.definition, policy.apply_to)}
        for kind, names in (("queues", self._queues(vhost)), ("exchanges", self._exchanges(vhost))):
            listed: list[str] = []
            matched = applied = 0
            for number, (name, policy_kind) in enumerate(names, 1):
                matches, applies = would_apply(self._metadata, policy, policy_kind, name, operator=operator)
                matched += matches
                if matches and len(listed) < _MOST_LISTED:
                    listed.append(name)
                applied += applies
                if number % _COMPARED == 0:
                    yield None
            found[kind] = {"matched": matched, "applied": applied, "names": listed}
        return found

    def _queues(self, vhost: str) -> Iterator[tuple[str, str]]:
        """Names, with the kind of policy that each takes; of a list that is read bit by bit."""
        there = self._broker.vhosts[vhost]
        for names in there.queue_names.in_slices(_SLICE):
            for name in names:
                kind = there.queues.type_of(name)
                if kind is not None:
                    yield name, QUEUE_TYPES[kind].policy_kind

    def _exchanges(self, vhost: str) -> Iterator[tuple[str, str]]:
        for names in self._broker.vhosts[vhost].router.names.in_slices(_SLICE):
            yield from ((name, EXCHANGES) for name in names)

    def _delete_policy(self, request: Request) -> Steps:
        return self._execute(commands.clear_policy(self._changed_vhost(request), request.text("name")))

    def _delete_operator_policy(self, request: Request) -> Steps:
        return self._execute(
            commands.clear_policy(self._vhost(request).name, request.text("name"), operator=True)
        )

    def _put_parameter(self, request: Request) -> Steps:
        vhost, component = self._changed_vhost(request), request.name("component")
        if component in (OPERATOR_POLICY, LIMITS_PARAMETER):
            raise ValueError(f"field component: '{component}' has a verb of its own: operator_policy.put, vhost.limits")
        command = commands.set_parameter(vhost, component, request.name("name"), _value(request))
        return self._execute(command)

    def _delete_parameter(self, request: Request) -> Steps:
        vhost = self._changed_vhost(request)
        component, name = request.text("component"), request.text("name")
        if self._metadata.parameter(vhost, component, name) is None:
            raise not_found("parameter", f"{component} {name}", vhost)
        return self._execute(commands.clear_parameter(vhost, component, name))

    def _put_global_parameter(self, request: Request) -> Steps:
        name, value = request.name("name"), _value(request)
        _check_changes(name)
        if name == CLUSTER_NAME:
            check_cluster_name(value)
        return self._execute(commands.set_global_parameter(name, value))

    def _delete_global_parameter(self, request: Request) -> Steps:
        name = request.text("name")
        _check_changes(name)
        if self._metadata.global_parameter(name) is None:
            raise not_found("global parameter", name)
        return self._execute(commands.clear_global_parameter(name))


def _check_changes(name: str) -> None:
    """Raises ValueError."""
    if name == CLUSTER_ID:
        raise ValueError(f"global parameter '{name}' never changes; to name the cluster set '{CLUSTER_NAME}'")


def _value(request: Request) -> object:
    """Any JSON value that can be written again. Raises ValueError."""
    value = request.get("value")
    try:
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"field value cannot be written as JSON again: {error}") from None
    return value
