"""What happens to messages: traces, which are read when somebody likes, and the live tail, a stream of copies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

import msgspec
from starlette.concurrency import run_in_threadpool

from amqp_broker.protocol.json_values import JsonObject, JsonValue
from amqp_broker.system_client import SystemRequestError
from amqp_broker.web.access import Access
from amqp_broker.web.answer import Answer, encode_json, no_content
from amqp_broker.web.asked import Asked
from amqp_broker.web.body import integer, read_body, read_json
from amqp_broker.web.endpoint import MADE, Endpoint
from amqp_broker.web.errors import ApiError, bad_request
from amqp_broker.web.node_client import NodeGone
from amqp_broker.web.who_asks import who_asks

#: How often the node is asked for what has come, and whether who reads may still do so; seconds.
_READ_EVERY_S: Final = 0.5
_CHECK_EVERY_S: Final = 2.0
_STREAM: Final = "text/event-stream"
#: What a query may narrow a tail by, and what the node calls it.
_QUERY: Final = {
    "exchange": "exchange", "key": "routing_key", "queue": "queue", "message_id": "message_id",
    "correlation_id": "correlation_id",
}  # fmt: skip


class TraceBody(msgspec.Struct):
    """What a trace is about, and for how long."""

    vhost: str
    exchange: str | None = None
    routing_key: str | None = None
    queue: str | None = None
    message_id: str | None = None
    correlation_id: str | None = None
    headers: JsonValue = None
    seconds: JsonValue = None


def open_trace(asked: Asked) -> Answer:
    body = read_body(asked.body, TraceBody)
    fields = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not None}
    if "seconds" in fields:
        fields["seconds"] = integer(fields["seconds"], "seconds")
    return Answer(201, value=_without_ok(asked.verb("tap.open", kind="trace", **fields)))


def list_traces(asked: Asked) -> Answer:
    return Answer(value=asked.verb("tap.list")["taps"])


def read_trace(asked: Asked) -> Answer:
    after = read_json(asked.query.get("after", "").encode())
    limit = integer(asked.query.get("limit", 500), "limit")
    return Answer(value=_without_ok(asked.verb("tap.read", id=asked.name("trace"), after=after, limit=limit)))


def close_trace(asked: Asked) -> Answer:
    asked.verb("tap.close", id=asked.name("trace"))
    return no_content()


def tail(asked: Asked) -> Answer:
    """Server-sent events, until who reads has gone, or may not any more."""
    vhost = asked.query.get("vhost")
    if vhost is None:
        raise bad_request("vhost is missing from the query")
    wanted: JsonObject = {name: asked.query[key] for key, name in _QUERY.items() if asked.query.get(key)}
    if "exchange" in wanted:
        wanted["exchange"] = "" if wanted["exchange"] == "amq.default" else wanted["exchange"]
    if asked.method == "HEAD":
        return Answer(media=_STREAM, raw=b"")
    opened = asked.verb("tap.open", kind="tail", vhost=vhost, **wanted)
    return Answer(media=_STREAM, stream=_Tail(asked, str(opened["id"])).events())


class _Tail:
    """One stream."""

    def __init__(self, asked: Asked, tap_id: str) -> None:
        self._asked = asked
        self._node = asked.services.node
        self._tap_id = tap_id
        self._after: JsonValue = {}
        self._missing = (0, 0)
        self._checked_at = time.monotonic()

    async def events(self) -> AsyncIterator[bytes]:
        """What is sent. Nothing is read from the node before who reads has taken what was read before."""
        try:
            yield b": it begins\n\n"
            while True:
                try:
                    found = await run_in_threadpool(self._read)
                except ApiError as error:
                    yield _event("end", error.body or {"reason": "the session is over"})
                    return
                except (NodeGone, SystemRequestError) as error:
                    yield _event("end", {"reason": str(error)})
                    return
                for event in found["events"]:
                    yield _event("message", event)
                missing = (found["left_out"], found["unseen"])
                if missing != self._missing:
                    self._missing = missing
                    yield _event("left_out", {"left_out": missing[0] + missing[1]})
                elif not found["events"]:
                    yield b": nothing\n\n"  # so that it is noticed when nobody is there
                await asyncio.sleep(_READ_EVERY_S)
        finally:
            # Not waited for: the stream may have been cancelled.
            asyncio.get_running_loop().run_in_executor(None, self._close)

    def _read(self) -> JsonObject:
        asked = self._asked
        if time.monotonic() - self._checked_at >= _CHECK_EVERY_S:
            asked.ask_as(who_asks(asked))
            asked.require(Access.ADMINISTRATOR)
            self._checked_at = time.monotonic()
        found = asked.verb("tap.read", id=self._tap_id, after=self._after)
        self._after = found["next"]
        return found

    def _close(self) -> None:
        with suppress(NodeGone, SystemRequestError):  # it ends by itself, too
            self._node.request("tap.close", id=self._tap_id)


def _event(name: str, value: JsonValue) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + encode_json(value) + b"\n\n"


def _without_ok(answer: JsonObject) -> JsonObject:
    return {key: value for key, value in answer.items() if key != "ok"}


ENDPOINTS = (
    Endpoint("POST", "/v1/traces", open_trace, Access.ADMINISTRATOR, body=TraceBody, done=MADE, refused=(404,)),
    Endpoint("GET", "/v1/traces", list_traces, Access.ADMINISTRATOR),
    Endpoint("GET", "/v1/traces/{trace}", read_trace, Access.ADMINISTRATOR),
    Endpoint("DELETE", "/v1/traces/{trace}", close_trace, Access.ADMINISTRATOR),
    Endpoint("GET", "/v1/tail", tail, Access.ADMINISTRATOR, media=_STREAM, refused=(404,)),
)
