"""Policies and operator policies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from amqp_broker.protocol.json_values import JsonObject, JsonValue
from amqp_broker.system_client import SystemRequestError
from amqp_broker.web.access import Access
from amqp_broker.web.answer import Answer, created, no_content
from amqp_broker.web.asked import Asked
from amqp_broker.web.body import integer, read_body
from amqp_broker.web.endpoint import Endpoint
from amqp_broker.web.endpoints.lists import find_row, is_there, read_objects, require_vhost, show_rows
from amqp_broker.web.errors import bad_request, kind_not_found
from amqp_broker.web.listing import cut, read_columns
from amqp_broker.web.node_client import LONG_DEADLINE_S

#: The header of an answer that has no body: what was done, and does nothing.
WARNING = "x-warning"
_FIELDS = ("vhost", "name", "pattern", "apply-to", "definition", "priority")


class PolicyBody(msgspec.Struct, rename={"apply_to": "apply-to"}):
    """A policy."""

    pattern: JsonValue
    definition: JsonValue
    priority: JsonValue = 0
    apply_to: JsonValue = "all"


class PreviewBody(msgspec.Struct, rename={"apply_to": "apply-to"}):
    """A policy that is not set yet. operator: it would be an operator policy."""

    vhost: str
    pattern: JsonValue
    definition: JsonValue
    name: str = ""
    priority: JsonValue = 0
    apply_to: JsonValue = "all"
    operator: bool = False


def preview(asked: Asked) -> Answer:
    """Which queues and exchanges a policy would match; nothing is set."""
    body = read_body(asked.body, PreviewBody)
    if not is_there(asked, "vhosts", name=body.vhost):
        raise kind_not_found("vhost")
    fields: JsonObject = {"pattern": body.pattern, "definition": body.definition, "apply_to": body.apply_to}
    fields |= {"name": body.name, "priority": integer(body.priority, "priority"), "operator": body.operator}
    said = asked.verb("policy.preview", deadline_s=LONG_DEADLINE_S, vhost=body.vhost, **fields)
    return Answer(value={key: value for key, value in said.items() if key != "ok"})


@dataclass(frozen=True, slots=True)
class PolicyEndpoints:
    """The endpoints of one of the two kinds."""

    path: str
    kind: str
    verb: str
    access: Access

    def list_all(self, asked: Asked) -> Answer:
        if asked.vhost is not None:
            require_vhost(asked, asked.vhost)
        return show_rows(asked, map(_shown, read_objects(asked, self.kind).rows))

    def show(self, asked: Asked) -> Answer:
        vhost = asked.name("vhost")
        row = find_row(asked, self.kind, vhost, name=asked.name("policy"))
        return Answer(value=cut(_shown(row), read_columns(asked.query)))

    def put(self, asked: Asked) -> Answer:
        vhost, name = asked.name("vhost"), asked.name("policy")
        body = read_body(asked.body, PolicyBody)
        if not is_there(asked, "vhosts", name=vhost):
            raise kind_not_found("vhost")
        was_there = any(row["name"] == name for row in asked.objects(self.kind, vhost).rows)
        notes = self.change(
            asked,
            vhost=vhost,
            name=name,
            pattern=body.pattern,
            definition=body.definition,
            priority=integer(body.priority, "priority"),
            apply_to=body.apply_to,
        )
        return created(was_there, {WARNING: "; ".join(notes)} if notes else {})

    def change(self, asked: Asked, **fields: JsonValue) -> list[str]:
        """What of the policy does nothing. Raises ApiError, with the words of RabbitMQ before those of the node."""
        try:
            return list(asked.change(f"{self.verb}.put", **fields)["notes"])
        except SystemRequestError as error:
            if error.code in ("bad_request", "failed"):
                raise bad_request(f"Validation failed\n\n{error.text}") from None
            raise

    def delete(self, asked: Asked) -> Answer:
        vhost, name = asked.name("vhost"), asked.name("policy")
        find_row(asked, self.kind, vhost, name=name)
        asked.change(f"{self.verb}.delete", vhost=vhost, name=name)
        return no_content()

    def all(self) -> tuple[Endpoint, ...]:
        one = f"{self.path}/{{vhost}}/{{policy}}"
        get: tuple[tuple[str, Callable[[Asked], Answer]], ...] = (
            (self.path, self.list_all),
            (f"{self.path}/{{vhost}}", self.list_all),
            (one, self.show),
        )
        return (
            *(Endpoint("GET", path, answer, refused=(404,)) for path, answer in get),
            Endpoint("PUT", one, self.put, self.access, body=PolicyBody),
            Endpoint("DELETE", one, self.delete, self.access),
        )


def _shown(row: JsonObject) -> JsonObject:
    named = {**row, "apply-to": row.get("apply-to", row.get("apply_to", "all"))}
    return {name: named[name] for name in _FIELDS if name in named}


POLICIES = PolicyEndpoints("/policies", "policies", "policy", Access.POLICYMAKER)
OPERATOR_POLICIES = PolicyEndpoints(
    "/operator-policies", "operator_policies", "operator_policy", Access.ADMINISTRATOR
)
ENDPOINTS = (
    *POLICIES.all(),
    *OPERATOR_POLICIES.all(),
    Endpoint("POST", "/v1/policies/preview", preview, Access.POLICYMAKER, body=PreviewBody, refused=(404,)),
)
