"""Definitions: all that is declared and configured, out and in."""

from __future__ import annotations

import re
from collections.abc import Collection
from email.parser import BytesParser
from email.policy import HTTP

from amqp_broker.protocol.json_values import JsonObject, JsonValue
from amqp_broker.system_client import SystemRequestError
from amqp_broker.web.access import Access
from amqp_broker.web.answer import Answer, encode_json, no_content
from amqp_broker.web.asked import Asked
from amqp_broker.web.body import flag, read_object, tags
from amqp_broker.web.endpoint import IMPORTED, MIB, Endpoint
from amqp_broker.web.endpoints.lists import require_vhost
from amqp_broker.web.endpoints.policies import WARNING
from amqp_broker.web.endpoints.users import PROTECTED, protected_user
from amqp_broker.web.errors import bad_request
from amqp_broker.web.node_client import LONG_DEADLINE_S
from amqp_broker.web.product import API_LEVEL

BODY_LIMIT_BYTES = 64 * MIB
#: Characters of what was left out of an import, in a header: clients take some 8 KiB of headers in all.
MOST_WARNING = 4096
_UNSAFE_IN_FILE_NAME = re.compile(r"[^\w.\- ]")


def export_all(asked: Asked) -> Answer:
    answer = asked.verb("definitions.export", deadline_s=LONG_DEADLINE_S)
    name = asked.services.totals.read()["cluster_name"]
    about = {
        "rabbitmq_definition_format": "cluster",
        "original_cluster_name": name,
        "explanation": f"Definitions of cluster '{name}'",
    }
    return _file(asked, {**answer["definitions"], **_levels(), **about})


def export_vhost(asked: Asked) -> Answer:
    vhost = asked.name("vhost")
    require_vhost(asked, vhost)
    answer = asked.verb("definitions.export", deadline_s=LONG_DEADLINE_S, vhost=vhost)
    about = {
        "rabbitmq_definition_format": "single_virtual_host",
        "original_vhost_name": vhost,
        "explanation": f"Definitions of virtual host '{vhost}'",
    }
    return _file(asked, {**answer["definitions"], **_levels(), **about})


def _levels() -> dict[str, str]:
    return {"rabbit_version": API_LEVEL, "rabbitmq_version": API_LEVEL}


def _file(asked: Asked, definitions: JsonObject) -> Answer:
    """`?download=NAME` has browsers save it."""
    name = asked.query.get("download")
    if name is None:
        return Answer(value=definitions)
    name = _UNSAFE_IN_FILE_NAME.sub("_", name).encode("ascii", "replace").decode("ascii")
    return Answer(raw=encode_json(definitions), headers={"content-disposition": f'attachment; filename="{name}"'})


def import_all(asked: Asked) -> Answer:
    return _import(asked, {"definitions": _uploaded(asked)})


def import_vhost(asked: Asked) -> Answer:
    require_vhost(asked, asked.name("vhost"))
    return _import(asked, {"definitions": _uploaded(asked), "vhost": asked.name("vhost")})


def diff(asked: Asked) -> Answer:
    """What an import would do: add, change, conflict, extra; nothing is changed."""
    try:
        said = asked.verb("definitions.diff", deadline_s=LONG_DEADLINE_S, definitions=_uploaded(asked))
    except SystemRequestError as error:
        raise bad_request(error.text) from None
    return Answer(value={key: value for key, value in said.items() if key != "ok"})


def _import(asked: Asked, fields: JsonObject) -> Answer:
    """`?dry_run=true`: says how much an import would change, and changes nothing. `?only=queues[3]`, more of them with
    commas between: these items of the file alone."""
    is_dry = flag(asked.query.get("dry_run"))
    if "only" in asked.query:
        fields["only"] = [place for place in asked.query["only"].split(",") if place]
    if not is_dry and "vhost" not in fields:
        _check_users(asked, fields["definitions"].get("users"), fields.get("only"))
    try:
        if is_dry:
            said = asked.verb("definitions.import", deadline_s=LONG_DEADLINE_S, dry_run=True, **fields)
            return Answer(value={"changes": said["commands"], "notes": said["notes"]})
        said = asked.change("definitions.import", deadline_s=LONG_DEADLINE_S, **fields)
    except SystemRequestError as error:
        if error.code in ("not_found", "precondition"):
            raise bad_request(error.text) from None
        raise
    return Answer(204, headers={WARNING: _as_header(said["notes"])}) if said["notes"] else no_content()


def _as_header(notes: list[str]) -> str:
    """Those that fit: names may have any characters, and there may be very many."""
    text = ""
    for number, note in enumerate(notes):
        shown = note.encode("ascii", "backslashreplace").decode("ascii")
        shown = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in shown)
        if len(text) + len(shown) > MOST_WARNING:
            return f"{text}{'; ' if text else ''}{len(notes) - number} more: ask with dry_run=true"
        text += f"; {shown}" if text else shown
    return text


def _check_users(asked: Asked, users: JsonValue, only: Collection[str] | None) -> None:
    """Those who are protected have to be as they are. Raises ApiError."""
    known = {row["name"]: row for row in asked.objects("users").rows if PROTECTED in row["tags"]}
    for number, each in enumerate(users if known and isinstance(users, list) else ()):
        name = str(each.get("name")) if isinstance(each, dict) else ""
        if name not in known or (only is not None and f"users[{number}]" not in only):
            continue
        row = known[name]
        is_same = (each.get("password_hash"), set(tags(each.get("tags")))) == (row["password_hash"], set(row["tags"]))
        if not is_same or "password" in each or each.get("limits", row["limits"]) != row["limits"]:
            raise protected_user(name)


def _uploaded(asked: Asked) -> JsonObject:
    """The body, or the file in a form. Raises ApiError."""
    kind = asked.headers.get("content-type", "")
    if not kind.lower().startswith("multipart/form-data"):
        return read_object(asked.body)
    head = f"content-type: {kind}\r\n\r\n".encode("latin-1", "replace")
    form = BytesParser(policy=HTTP).parsebytes(head + asked.body)
    for part in form.iter_parts() if form.is_multipart() else ():
        if part.get_param("name", header="content-disposition") == "file":
            content = part.get_payload(decode=True)
            return read_object(content if isinstance(content, bytes) else b"")
    raise bad_request("the form has no field 'file'")


ENDPOINTS = (
    Endpoint("GET", "/definitions", export_all, Access.ADMINISTRATOR),
    Endpoint("POST", "/definitions", import_all, Access.ADMINISTRATOR, BODY_LIMIT_BYTES, done=IMPORTED, refused=(412,)),
    Endpoint("POST", "/v1/definitions/diff", diff, Access.ADMINISTRATOR, BODY_LIMIT_BYTES),
    Endpoint("GET", "/all-configuration", export_all, Access.ADMINISTRATOR),
    Endpoint(
        "POST",
        "/all-configuration",
        import_all,
        Access.ADMINISTRATOR,
        BODY_LIMIT_BYTES,
        done=IMPORTED,
        refused=(412,),
    ),
    Endpoint("GET", "/definitions/{vhost}", export_vhost, Access.ADMINISTRATOR),
    Endpoint(
        "POST",
        "/definitions/{vhost}",
        import_vhost,
        Access.ADMINISTRATOR,
        BODY_LIMIT_BYTES,
        done=IMPORTED,
        refused=(412,),
    ),
)
