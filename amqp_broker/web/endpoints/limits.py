"""Limits of virtual hosts and of users."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from amqp_broker.protocol.json_values import JsonObject, JsonValue
from amqp_broker.web.access import Access
from amqp_broker.web.answer import Answer, no_content
from amqp_broker.web.asked import Asked
from amqp_broker.web.body import integer, read_body
from amqp_broker.web.endpoint import NO_ANSWER, Endpoint
from amqp_broker.web.endpoints.lists import is_there, show_rows
from amqp_broker.web.endpoints.users import find_unprotected
from amqp_broker.web.errors import bad_request, object_not_found


class LimitBody(msgspec.Struct):
    """A limit; -1 is none."""

    value: JsonValue


@dataclass(frozen=True, slots=True)
class LimitEndpoints:
    """The endpoints of one of the two kinds; `of` is who has the limits. refused: statuses of its own, where they are
    set."""

    path: str
    of: str
    kind: str
    names: tuple[str, ...]
    refused: tuple[int, ...] = ()

    def list_all(self, asked: Asked) -> Answer:
        return show_rows(asked, asked.objects(self.kind).rows, self.of)

    def list_of(self, asked: Asked) -> Answer:
        name = asked.name(self.of)
        if self.of == "user" and name != asked.user.name:
            asked.require(Access.MONITORING)
        self._require(asked, name)
        return show_rows(asked, [row for row in asked.objects(self.kind).rows if row[self.of] == name], self.of)

    def put(self, asked: Asked) -> Answer:
        value = integer(read_body(asked.body, LimitBody).value, "value")
        name, limit = self._ends(asked)
        self._set(asked, name, {**self._limits(asked, name), limit: value})
        return no_content()

    def delete(self, asked: Asked) -> Answer:
        name, limit = self._ends(asked)
        left = {key: value for key, value in self._limits(asked, name).items() if key != limit}
        self._set(asked, name, left)
        return no_content()

    def _ends(self, asked: Asked) -> tuple[str, str]:
        name, limit = asked.name(self.of), asked.name("limit")
        self._require_changeable(asked, name)
        if limit not in self.names:
            raise bad_request(f"'{limit}' is no limit; there are {', '.join(self.names)}")
        return name, limit

    def _require(self, asked: Asked, name: str) -> None:
        if self.of == "vhost":
            found = is_there(asked, "vhosts", name=name)
        else:
            found = any(row["name"] == name for row in asked.services.objects.read("users", None).rows)
        if not found:
            raise object_not_found()

    def _require_changeable(self, asked: Asked, name: str) -> None:
        self._require(asked, name)
        if self.of == "user":
            find_unprotected(asked, name)

    def _limits(self, asked: Asked, name: str) -> dict[str, int]:
        asked.services.objects.forget()  # what is set replaces all of them, so they have to be those of now
        rows = asked.objects(self.kind).rows
        return next((dict(row["value"]) for row in rows if row[self.of] == name), {})

    def _set(self, asked: Asked, name: str, limits: dict[str, int]) -> None:
        fields: JsonObject = {self.of: name, "limits": limits}
        asked.change(f"{self.of}.limits", **fields)

    def all(self) -> tuple[Endpoint, ...]:
        one = f"{self.path}/{{{self.of}}}/{{limit}}"
        return (
            Endpoint("GET", self.path, self.list_all),
            Endpoint("GET", f"{self.path}/{{{self.of}}}", self.list_of),
            Endpoint("PUT", one, self.put, Access.ADMINISTRATOR, body=LimitBody, done=NO_ANSWER, refused=self.refused),
            Endpoint("DELETE", one, self.delete, Access.ADMINISTRATOR, refused=self.refused),
        )


ENDPOINTS = (
    *LimitEndpoints("/vhost-limits", "vhost", "vhost_limits", ("max-connections", "max-queues")).all(),
    *LimitEndpoints("/user-limits", "user", "user_limits", ("max-connections", "max-channels"), (412,)).all(),
)
