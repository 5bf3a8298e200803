"""Places in a stream, as commands name them: an offset, a time, first, last, next, or an age; and the offsets that
these are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from amqp_broker.queue_types.stream.arguments import age_of

if TYPE_CHECKING:
    from amqp_broker.protocol.json_values import JsonObject
    from amqp_broker.system_client import SystemClient

TIMES: Final = ["%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M:%S%z", "%Y-%m-%d%z"]
_WORDS: Final = ("first", "last", "next")


def place(context: click.Context, parameter: click.Parameter, value: str) -> JsonObject:
    """What `stream.find` is asked for. Raises BadParameter."""
    if value.isascii() and value.removeprefix("-").isdigit():
        return {"at": int(value)}
    if value in _WORDS or age_of(value) is not None:
        return {"at": value}
    try:
        moment = click.DateTime(TIMES).convert(value, parameter, context)
    except click.BadParameter:
        raise click.BadParameter(
            f"{value!r} is no offset, no time such as 2026-01-31T12:00:00+0000, no age such as 12h or 7D, and none of "
            f"{', '.join(_WORDS)}"
        ) from None
    return {"time": int(moment.timestamp() * 1000)}


def offsets_at(client: SystemClient, vhost: str, name: str, where: JsonObject) -> list[tuple[str, int]]:
    """The names of a stream's partitions, and the offset that a place is in each; of one without, its own. Raises
    SystemRequestError, ClientError."""
    found = client.request("stream.find", vhost=vhost, name=name, **where)
    return [(row["name"], row["offset"]) for row in _rows(name, found)]


def change_at(
    client: SystemClient, verb: str, vhost: str, name: str, key: str, where: JsonObject, more: JsonObject
) -> list[JsonObject]:
    """Something is changed at a place, which the verb has under this key: an answer with a `name` for each partition,
    or for the one stream. Raises SystemRequestError, ClientError."""
    at = where.get("at")
    if isinstance(at, int) and at >= 0:
        return _rows(name, client.request(verb, vhost=vhost, name=name, **{key: at}, **more))
    return [
        {"name": part, **client.request(verb, vhost=vhost, name=part, **{key: offset}, **more)}
        for part, offset in offsets_at(client, vhost, name, where)
    ]


def _rows(name: str, found: JsonObject) -> list[JsonObject]:
    rows: list[JsonObject] = found.get("partitions", [{"name": name, **found}])
    return rows
