"""Messages of a queue, for who only looks: page by page, and the body of one as a whole."""

from __future__ import annotations

import base64

from amqp_broker.moving.survey import whole_body
from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.web.answer import Answer
from amqp_broker.web.asked import Asked
from amqp_broker.web.body import flag, integer
from amqp_broker.web.endpoint import Endpoint
from amqp_broker.web.errors import bad_request, object_not_found

_OCTETS = "application/octet-stream"
_NUMBERS = ("limit", "max_body_bytes")
_ENCODINGS = ("auto", "base64")
#: Looking through many messages for a few takes longer than other questions.
_DEADLINE_S = 5.0


def peek_messages(asked: Asked) -> Answer:
    """As queue.peek answers; payloads as text where they are text."""
    query = asked.query
    encoding = query.get("encoding", "auto")
    if encoding not in _ENCODINGS:
        raise bad_request(f"encoding is one of {', '.join(_ENCODINGS)}")
    begin = query.get("from", "oldest")
    fields: JsonObject = {name: integer(query[name], name) for name in _NUMBERS if name in query}
    fields |= {name: query[name] for name in ("filter", "state") if name in query}
    fields["from"] = begin if begin in ("oldest", "newest") else integer(begin, "from")
    fields["backwards"] = flag(query.get("backwards"))
    names = {"vhost": asked.name("vhost"), "name": asked.name("queue")}
    found = asked.verb("queue.peek", deadline_s=_DEADLINE_S, **names, **fields)
    found.pop("ok")
    if encoding == "auto":
        for message in found["messages"]:
            _show_text(message)
    return Answer(value=found)


def _show_text(message: JsonObject) -> None:
    octets = base64.b64decode(message["payload"])
    is_cut = len(octets) < message["payload_bytes"]
    try:
        # A character that was cut in two does not make it binary.
        message["payload"] = octets.decode("utf-8") if not is_cut else _without_last(octets)
        message["payload_encoding"] = "string"
    except UnicodeDecodeError:
        pass


def _without_last(octets: bytes) -> str:
    for less in range(4):
        try:
            return octets[: len(octets) - less].decode("utf-8")
        except UnicodeDecodeError:
            if less == 3:
                raise
    raise AssertionError("never")


def download_body(asked: Asked) -> Answer:
    """As octets that no browser shows."""
    position = integer(asked.name("position"), "position")
    state = asked.query.get("state", "ready")
    body = whole_body(asked.verb, asked.name("vhost"), asked.name("queue"), position, state)
    if body is None:
        raise object_not_found()
    name = f'attachment; filename="message-{position}"'
    return Answer(raw=body, media=_OCTETS, headers={"content-disposition": name})


ENDPOINTS = (
    Endpoint("GET", "/v1/queues/{vhost}/{queue}/messages", peek_messages, for_viewers=False),
    Endpoint(
        "GET", "/v1/queues/{vhost}/{queue}/messages/{position}/body", download_body, media=_OCTETS, for_viewers=False
    ),
)
