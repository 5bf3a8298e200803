"""Streams by their offsets: what one has and in which files, where a time begins; what is held, dropped, and published
again; how far its groups of readers are."""

from __future__ import annotations

import json
import uuid

import msgspec

from amqp_broker.moving.replayer import Replay
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
from amqp_broker.web.endpoints.stream_places import end_of, offset_at, offsets_at, place_fields, time_of
from amqp_broker.web.errors import ACCESS_REFUSED, bad_request, node_gone, not_authorised, object_not_found
from amqp_broker.web.user_sessions import Key

_NOT_FOUND, _REFUSED, _BUSY = "not-found", "access-refused", "busy"


class TrimBody(msgspec.Struct):
    """What is before this offset, or before another place in the stream, goes."""

    before: int | str


class SeekBody(msgspec.Struct):
    """The offset that a group reads next, or another place in the stream."""

    offset: int | str


class HoldBody(msgspec.Struct):
    """What is from this offset, or another place in the stream, on stays, for so long, milliseconds."""

    offset: int | str
    for_ms: int = 24 * 3_600_000


class StreamReplayBody(msgspec.Struct, kw_only=True):
    """A range (offsets, times as ISO 8601, or other places), to where, which messages, how many, how fast."""

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
    """The offset at which a time begins, or that another place is."""
    query = asked.query
    if ("time" in query) is ("at" in query):
        raise bad_request(
            "time is ISO 8601, such as 2026-01-31T12:00:00Z, or milliseconds since the epoch; or at is an offset, "
            "below 0 so many from the end, first, last, next, or an age such as 1h"
        )
    if "at" in query:
        fields = place_fields(query["at"], "at")
    else:
        time = query["time"]
        fields = {"time": integer(time, "time") if time.isascii() and time.isdigit() else time_of(time, "time")}
    return _answer(asked.verb("stream.find", **_named(asked), **fields))


def list_segments(asked: Asked) -> Answer:
    """How it lies in files, a page of them from an offset on."""
    fields = {name: integer(asked.query[name], name) for name in ("from", "limit") if name in asked.query}
    return _answer(asked.verb("stream.segments", **_named(asked), **fields))


def trim_stream(asked: Asked) -> Answer:
    body = read_body(asked.body, TrimBody)
    return _change_at(asked, "stream.trim", "before", body.before, {})


def compact_stream(asked: Asked) -> Answer:
    return _answer(asked.change("stream.compact", **_named(asked)))


def seek_group(asked: Asked) -> Answer:
    body = read_body(asked.body, SeekBody)
    return _change_at(asked, "stream.seek", "offset", body.offset, {"group": asked.name("group")})


def forget_group(asked: Asked) -> Answer:
    asked.change("stream.forget", **_named(asked), group=asked.name("group"))
    return no_content()


def hold_stream(asked: Asked) -> Answer:
    body = read_body(asked.body, HoldBody)
    offset = offset_at(asked, body.offset, "offset")
    return _answer(_ask(asked, "stream.hold", name=asked.name("hold"), offset=offset, for_ms=body.for_ms))


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
    first = end_of(asked, body.first, "from")
    below = None if body.below is None else end_of(asked, body.below, "below")
    replay = Replay(
        uuid.uuid4().hex, name, exchange_of(place.exchange), key, first, below, tuple(body.values), wanted, body.limit,
        body.rate,
    )  # fmt: skip
    job = asked.services.jobs.start("stream-replay", Key(asked.user.name, vhost, asked.host), replay)
    return Answer(202, job.shown(), {"location": f"/api/v1/jobs/{replay.name}"})


def _change_at(asked: Asked, verb: str, key: str, place: int | str, more: JsonObject) -> Answer:
    """At a place in the stream, which the verb has under this key; of one that has partitions, where that is in each of
    them."""
    if isinstance(place, int):
        fields = {**_named(asked), key: place, **more}
        return _answer(asked.change(verb, **fields))
    found: list[JsonObject] = []
    for name, offset in offsets_at(asked, place, key):
        fields = {**_named(asked), "name": name, key: offset, **more}
        found.append({"name": name, **_shown(asked.change(verb, **fields))})
    if [each["name"] for each in found] == [asked.name("stream")]:
        return Answer(value={name: value for name, value in found[0].items() if name != "name"})
    return Answer(value={"partitions": found})


def _named(asked: Asked) -> JsonObject:
    return {"vhost": asked.name("vhost"), "name": asked.name("stream")}


def _answer(found: JsonObject) -> Answer:
    return Answer(value=_shown(found))


def _shown(found: JsonObject) -> JsonObject:
    return {key: value for key, value in found.items() if key != "ok"}


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


_STREAM = "/v1/streams/{vhost}/{stream}"
ENDPOINTS = (
    Endpoint("GET", _STREAM, show_stream),
    Endpoint("GET", f"{_STREAM}/offset", find_offset),
    Endpoint("GET", f"{_STREAM}/segments", list_segments),
    Endpoint("POST", f"{_STREAM}/trim", trim_stream, Access.ADMINISTRATOR, body=TrimBody),
    Endpoint("POST", f"{_STREAM}/compact", compact_stream, Access.ADMINISTRATOR),
    Endpoint("PUT", f"{_STREAM}/groups/{{group}}", seek_group, Access.ADMINISTRATOR, body=SeekBody, done=ANSWER),
    Endpoint("DELETE", f"{_STREAM}/groups/{{group}}", forget_group, Access.ADMINISTRATOR),
    Endpoint("PUT", f"{_STREAM}/holds/{{hold}}", hold_stream, body=HoldBody, done=ANSWER),
    Endpoint("DELETE", f"{_STREAM}/holds/{{hold}}", end_hold),
    Endpoint("GET", f"{_STREAM}/producers/{{producer}}", show_producer),
    Endpoint("POST", f"{_STREAM}/replay", replay_stream, body=StreamReplayBody, done=JOB),
)
