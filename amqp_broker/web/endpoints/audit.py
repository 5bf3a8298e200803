"""The audit log, newest first, page by page: each page says from where the next one goes on."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Final

from amqp_broker.protocol.json_values import JsonObject, JsonValue
from amqp_broker.web.access import Access
from amqp_broker.web.answer import Answer
from amqp_broker.web.asked import Asked
from amqp_broker.web.body import integer
from amqp_broker.web.endpoint import Endpoint
from amqp_broker.web.errors import bad_request

_TEXTS: Final = ("node", "user", "what", "vhost", "name", "outcome", "from")
_NUMBERS: Final = ("limit", "since", "until")


def show_audit(asked: Asked) -> Answer:
    """`before` is the `next` of the page before; times are milliseconds since the epoch."""
    fields: JsonObject = {key: asked.query[key] for key in _TEXTS if key in asked.query}
    fields |= {key: integer(asked.query[key], key) for key in _NUMBERS if key in asked.query}
    if "before" in asked.query:
        fields["before"] = _read_place(asked.query["before"])
    page = asked.verb("audit.page", **fields)
    following = page["next"]
    return Answer(
        value={"items": page["rows"], "next": None if following is None else _place(following), "stale": page["stale"]}
    )


def _place(following: JsonValue) -> str:
    return base64.urlsafe_b64encode(json.dumps(following).encode("ascii")).decode("ascii")


def _read_place(text: str) -> JsonValue:
    try:
        return json.loads(base64.urlsafe_b64decode(text.encode("ascii")))
    except (binascii.Error, ValueError):
        raise bad_request("before: it has to be the `next` of the page before") from None


ENDPOINTS = (Endpoint("GET", "/v1/audit", show_audit, Access.ADMINISTRATOR),)
