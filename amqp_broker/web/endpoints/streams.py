"""Streams by their offsets: what one has, where a time begins; what is held, dropped, and published again; how far its
groups of readers are."""

from __future__ import annotations

import json
import uuid
from datetime import datetime

import msgspec

from amqp_broker.moving.replayer import End, Replay
from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.protocol.message_filter import MessageFilter
from amqp_broker.system_client import SYSTEM_EXCHANGE
from amqp_broker.web.access import Access
from amqp_broker.web.answer import Answer, no_content
from amqp_broker.web.asked import Asked
from amqp_broker.web.body import integer, read_body
from amqp_broker.web.endpoint import ANSWER, JOB, Endpoint
from amqp_broker.web.endpoints.exchange_names import exchange_of
from amqp_broker.web.endpoints.jobs import ToBody, check_pace, require_place
from amqp_broker.web.endpoints.queues import require
from amqp_broker.web.errors import ACCESS_REFUSED, bad_request, node_gone, not_authorised, object_not_found
from amqp_broker.web.user_sessions import Key

_NOT_FOUND, _REFUSED, _BUSY = "not-found", "access-refused", "busy"


class TrimBody(msgspec.Struct):
    """What is before this offset goes."""

    before: int


class SeekBody(msgspec.Struct):
    """The offset that a group reads next."""

    offset: int


class HoldBody(msgspec.Struct):
    """What is from this offset on stays, for so long, milliseconds."""

    offset: int
    for_ms: int = 24 * 3_600_000


class StreamReplayBody(msgspec.Struct, kw_only=True):
    """A range (offsets, or times as ISO 8601), to where, which messages, how many, how fast."""

    to: ToBody
    first: int | str = msgspec.field(name="from")
    below: int | str | None = None
    keep_routing_key: bool = False
    values: list[str] = []
    filter: str = ""
    limit: int | None = None
    rate: float | None = None


def show_stream(asked: Asked) -> Answer:
    return _answer(asked.verb("stream.stat", **_named(asked)))


def find_offset(asked: Asked) -> Answer:
    """The offset at which a time begins."""
    if "time" not in asked.query:
        raise bad_request("time is ISO 8601, such as 2026-01-31T12:00:00Z, or milliseconds since the epoch")
    end = _end(asked.query["time"], "time")
    return _answer(asked.verb("stream.find", **_named(asked), time=end.time if end.time is not None else end.offset))


def trim_stream(asked: Asked) -> Answer:
    body = read_body(asked.body, TrimBody)
    return _answer(asked.change("stream.trim", **_named(asked), before=body.before))


def compact_stream(asked: Asked) -> Answer:
    return _answer(asked.change("stream.compact", **_named(asked)))


def seek_group(asked: Asked) -> Answer:
    body = read_body(asked.body, SeekBody)
    return _answer(asked.change("stream.seek", **_named(asked), group=asked.name("group"), offset=body.offset))


def forget_group(asked: Asked) -> Answer:
    asked.change("stream.forget", **_named(asked), group=asked.name("group"))
    return no_content()


def hold_stream(asked: Asked) -> Answer:
    body = read_body(asked.body, HoldBody)
    return _answer(_ask(asked, "stream.hold", name=asked.name("hold"), offset=body.offset, for_ms=body.for_ms))


def end_hold(asked: Asked) -> Answer:
    _ask(asked, "stream.hold", name=asked.name("hold"), until=0)
    return no_content()


def show_producer(asked: Asked) -> Answer:
    """What it has published last; with `sequence`, whether that is among it."""
    fields: JsonObject = {"producer": asked.name("producer")}
    if "sequence" in asked.query:
        fields["sequence"] = integer(asked.query["sequence"], "sequence")
    return _answer(_ask(asked, "stream.producer", **fields))


def replay_stream(asked: Asked) -> Answer:
    """A job: see /v1/jobs."""
    body = read_body(asked.body, StreamReplayBody)
    check_pace(body.limit, body.rate)
    vhost, name = asked.name("vhost"), asked.name("stream")
    require(asked, "queues", vhost, name)
    try:
        wanted = MessageFilter(body.filter)
    except ValueError as error:
        raise bad_request(str(error)) from None
    place = body.to.place()
    key = None if body.keep_routing_key else place.routing_key
    if place.exchange or key is not None:
        require_place(asked, vhost, place)
    replay = Replay(
        uuid.uuid4().hex, name, exchange_of(place.exchange), key, _end(body.first, "from"),
        None if body.below is None else _end(body.below, "below"), tuple(body.values), wanted, body.limit, body.rate,
    )  # fmt: skip
    job = asked.services.jobs.start("stream-replay", Key(asked.user.name, vhost, asked.host), replay)
    return Answer(202, job.shown(), {"location": f"/api/v1/jobs/{replay.name}"})


def _named(asked: Asked) -> JsonObject:
    return {"vhost": asked.name("vhost"), "name": asked.name("stream")}


def _answer(found: JsonObject) -> Answer:
    return Answer(value={key: value for key, value in found.items() if key != "ok"})


def _ask(asked: Asked, verb: str, **fields: object) -> JsonObject:
    """A verb that is for clients, asked as one: the user's own permissions decide."""
    with asked.channel(asked.name("vhost")) as channel:
        octets = json.dumps({"stream": asked.name("stream"), **fields}).encode()
        found: JsonObject = json.loads(channel.request(SYSTEM_EXCHANGE, verb, octets).body)
    if found["ok"]:
        return found
    if found["code"] == _NOT_FOUND:
        raise object_not_found()
    if found["code"] == _REFUSED:
        raise not_authorised(ACCESS_REFUSED)
    raise node_gone(found["error"]) if found["code"] == _BUSY else bad_request(found["error"])


def _end(value: int | str, name: str) -> End:
    """An offset, or a time. Raises ApiError."""
    if isinstance(value, int) or (value.isascii() and value.isdigit()):
        if int(value) < 0:
            raise bad_request(f"{name} is at least 0")
        return End(offset=int(value))
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise bad_request(f"{name} is an offset, or a time such as 2026-01-31T12:00:00Z") from None
    if moment.tzinfo is None:
        raise bad_request(f"{name}: a time needs its zone, such as the Z of 2026-01-31T12:00:00Z")
    return End(time=max(0, int(moment.timestamp() * 1000)))


_STREAM = "/v1/streams/{vhost}/{stream}"
ENDPOINTS = (
    Endpoint("GET", _STREAM, show_stream),
    Endpoint("GET", f"{_STREAM}/offset", find_offset),
    Endpoint("POST", f"{_STREAM}/trim", trim_stream, Access.ADMINISTRATOR, body=TrimBody),
    Endpoint("POST", f"{_STREAM}/compact", compact_stream, Access.ADMINISTRATOR),
    Endpoint("PUT", f"{_STREAM}/groups/{{group}}", seek_group, Access.ADMINISTRATOR, body=SeekBody, done=ANSWER),
    Endpoint("DELETE", f"{_STREAM}/groups/{{group}}", forget_group, Access.ADMINISTRATOR),
    Endpoint("PUT", f"{_STREAM}/holds/{{hold}}", hold_stream, body=HoldBody, done=ANSWER),
    Endpoint("DELETE", f"{_STREAM}/holds/{{hold}}", end_hold),
    Endpoint("GET", f"{_STREAM}/producers/{{producer}}", show_producer),
    Endpoint("POST", f"{_STREAM}/replay", replay_stream, body=StreamReplayBody, done=JOB),
)
