"""Users: lists, one, made, changed and removed; and who asks."""

from __future__ import annotations

import base64
import hashlib
import secrets

import msgspec

from amqp_broker.protocol.json_values import JsonObject, JsonValue
from amqp_broker.system_client import SystemRequestError
from amqp_broker.web.access import Access
from amqp_broker.web.answer import Answer, created, no_content
from amqp_broker.web.asked import Asked
from amqp_broker.web.body import read_body, tags
from amqp_broker.web.endpoint import NO_ANSWER, Endpoint
from amqp_broker.web.endpoints.lists import find_row, show_objects, show_rows
from amqp_broker.web.endpoints.permissions import WHOSE
from amqp_broker.web.errors import ApiError, bad_request, precondition_failed
from amqp_broker.web.listing import cut, read_columns
from amqp_broker.web.node_client import LONG_DEADLINE_S
from amqp_broker.web.shapes import QUEUE

_SALT_OCTETS = 4
#: Who has this tag is changed and deleted on the command line alone (RabbitMQ 4.2).
PROTECTED = "protected"
_FIELDS = ("name", "password_hash", "hashing_algorithm", "tags", "limits")


class UserBody(msgspec.Struct):
    """A user; without password and hash he has no password."""

    password: str | None = None
    password_hash: str | None = None
    hashing_algorithm: str | None = None
    tags: JsonValue = None


class PasswordBody(msgspec.Struct):
    """One's own."""

    old_password: str
    password: str


class BulkBody(msgspec.Struct):
    """Names of users."""

    users: list[str]


def list_users(asked: Asked) -> Answer:
    return show_rows(asked, map(_shown, asked.objects("users").rows))


def list_without_permissions(asked: Asked) -> Answer:
    allowed = {row["user"] for row in asked.objects("permissions").rows}
    return show_rows(asked, [_shown(row) for row in asked.objects("users").rows if row["name"] not in allowed])


def show_user(asked: Asked) -> Answer:
    row = find_row(asked, "users", name=asked.name("user"))
    return Answer(value=cut(_shown(row), read_columns(asked.query)))


def _shown(row: JsonObject) -> JsonObject:
    return {name: row[name] for name in _FIELDS if name in row}


def find_unprotected(asked: Asked, name: str) -> JsonObject | None:
    """A user as he is now, None where there is none; whoever asks. Raises ApiError for one whom HTTP does not
    change."""
    try:
        found: JsonObject = asked.services.node.request("object", kind="users", name=name)["object"]
    except SystemRequestError as error:
        if error.code != "not_found":
            raise
        return None
    if PROTECTED in found["tags"]:
        raise protected_user(name)
    return found


def protected_user(name: str) -> ApiError:
    """The refusal of what would change him."""
    return precondition_failed(
        f"user '{name}' has the tag {PROTECTED}: he is changed and deleted by `amqp-broker user` alone, not over HTTP"
    )


def put_user(asked: Asked) -> Answer:
    name, body = asked.name("user"), read_body(asked.body, UserBody)
    was_there = find_unprotected(asked, name) is not None
    fields: JsonObject = {"name": name, "tags": tags(body.tags)}
    if body.password is not None and body.password_hash is not None:
        raise bad_request("password and password_hash are both given; give one")
    if body.password is not None:
        fields["password"] = body.password
    elif body.password_hash is not None:
        fields["password_hash"] = body.password_hash
        if body.hashing_algorithm is not None:
            fields["hashing_algorithm"] = body.hashing_algorithm
    else:  # as in RabbitMQ: one who cannot log in with a password
        fields["password_hash"] = ""
    asked.change("user.put", deadline_s=LONG_DEADLINE_S, **fields)
    _changed(asked, name)
    return created(was_there)


def change_password(asked: Asked) -> Answer:
    """Of who asks; his sessions end."""
    find_unprotected(asked, asked.user.name)
    body = read_body(asked.body, PasswordBody)
    asked.change(
        "password.change", deadline_s=LONG_DEADLINE_S, old_password=body.old_password, password=body.password
    )
    _changed(asked, asked.user.name)
    return no_content()


def delete_user(asked: Asked) -> Answer:
    name = asked.name("user")
    find_unprotected(asked, name)
    asked.change("user.delete", name=name)
    _changed(asked, name)
    return no_content()


def delete_users(asked: Asked) -> Answer:
    """All of them, and those who are gone already count as deleted; none, where one of them is protected."""
    names = read_body(asked.body, BulkBody).users
    for name in names:
        find_unprotected(asked, name)
    for name in names:
        try:
            asked.change("user.delete", name=name)
        except SystemRequestError as error:
            if error.code != "not_found":
                raise
        _changed(asked, name)
    return no_content()


def _changed(asked: Asked, user: str) -> None:
    asked.services.sessions.end_of(user)


def list_permissions(asked: Asked) -> Answer:
    return _rows_of(asked, "permissions")


def list_topic_permissions(asked: Asked) -> Answer:
    return _rows_of(asked, "topic_permissions")


def _rows_of(asked: Asked, kind: str) -> Answer:
    name = asked.name("user")
    find_row(asked, "users", name=name)
    return show_rows(asked, [row for row in asked.objects(kind).rows if row["user"] == name], *WHOSE)


def list_queues(asked: Asked) -> Answer:
    """Those that a user declared, as far as is known: exclusive ones, whose owner is."""
    user = asked.name("user")
    return show_objects(asked, QUEUE, lambda row: (row.get("owner_pid_details") or {}).get("user") == user)


def who_am_i(asked: Asked) -> Answer:
    return Answer(value=whoami(asked))


def whoami(asked: Asked) -> JsonObject:
    """Who asks, as the API says it."""
    return {"name": asked.user.name, "tags": list(asked.user.tags), "is_internal_user": True}


def hash_password(asked: Asked) -> Answer:
    """RabbitMQ's form: four octets of salt, and SHA-256 of them and the password."""
    salt = secrets.token_bytes(_SALT_OCTETS)
    digest = hashlib.sha256(salt + asked.name("password").encode("utf-8", "surrogateescape")).digest()
    return Answer(value={"ok": base64.b64encode(salt + digest).decode("ascii")})


ENDPOINTS = (
    Endpoint("GET", "/users", list_users, Access.ADMINISTRATOR),
    Endpoint("GET", "/users/without-permissions", list_without_permissions, Access.ADMINISTRATOR),
    Endpoint(
        "POST",
        "/users/bulk-delete",
        delete_users,
        Access.ADMINISTRATOR,
        body=BulkBody,
        done=NO_ANSWER,
        refused=(412,),
    ),
    Endpoint("GET", "/users/{user}", show_user, Access.ADMINISTRATOR),
    Endpoint("PUT", "/users/{user}", put_user, Access.ADMINISTRATOR, body=UserBody, refused=(412,)),
    Endpoint("DELETE", "/users/{user}", delete_user, Access.ADMINISTRATOR, refused=(412,)),
    Endpoint("GET", "/users/{user}/permissions", list_permissions, Access.ADMINISTRATOR),
    Endpoint("GET", "/users/{user}/topic-permissions", list_topic_permissions, Access.ADMINISTRATOR),
    Endpoint("GET", "/users/{user}/queues", list_queues),
    Endpoint("GET", "/whoami", who_am_i),
    Endpoint("PUT", "/v1/password", change_password, Access.VIEWER, body=PasswordBody, done=NO_ANSWER, refused=(412,)),
    Endpoint("GET", "/auth/hash_password/{password}", hash_password, Access.ADMINISTRATOR),
)
