"""`amqp-broker tail` and `amqp-broker trace`: messages that go by, and what happens to them, until Ctrl-C."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import click

from amqp_broker.cli.admin.asking import add_url_options, asking, vhost_of, vhost_option
from amqp_broker.cli.admin.json_text import read_pairs
from amqp_broker.cli.cells import shown
from amqp_broker.system_client import SystemRequestError

if TYPE_CHECKING:
    from amqp_broker.protocol.json_values import JsonObject
    from amqp_broker.system_client import SystemClient

_READ_EVERY_S = 0.5
_SHOWN_CHARACTERS = 200
C = TypeVar("C", bound=Callable[..., object])


def _add_options(command: C) -> C:
    """What narrows a tap, and when it ends."""
    options = (
        click.option("--exchange", metavar="NAME", help="Published to this one; amq.default: the default exchange."),
        click.option("--key", "routing_key", metavar="PATTERN", help="Routing keys that fit, as of topic exchanges."),
        click.option("--queue", metavar="NAME", help="Of this queue, or on the way to it."),
        click.option("--message-id", metavar="ID", help="With this message-id."),
        click.option("--correlation-id", metavar="ID", help="With this correlation-id."),
        click.option(
            "--header", "headers", metavar="NAME=VALUE", multiple=True, help="With this header. May be repeated."
        ),
        click.option("--count", type=click.IntRange(1), metavar="N", help="End after so many."),
        click.option("--seconds", type=click.IntRange(1), metavar="N", help="End after so long."),
        click.option("--json", "is_json", is_flag=True, help="Print a JSON object on each line."),
        vhost_option,
    )
    for option in reversed(options):
        command = option(command)
    return add_url_options(command)


@click.command()
@_add_options
def tail(url: str, vhost: str | None, count: int | None, seconds: int | None, is_json: bool, **wanted: object) -> None:
    """Show copies of messages as they are published, sampled. Where they go is as without it."""
    _follow("tail", url, vhost, count, seconds, is_json, wanted)


@click.command()
@_add_options
def trace(url: str, vhost: str | None, count: int | None, seconds: int | None, is_json: bool, **wanted: object) -> None:
    """Show what happens to messages: published, delivered to whom, acknowledged, rejected, dropped, dead-lettered."""
    _follow("trace", url, vhost, count, seconds, is_json, wanted)


def _follow(
    kind: str,
    url: str,
    vhost: str | None,
    count: int | None,
    seconds: int | None,
    is_json: bool,
    wanted: dict[str, object],
) -> None:
    headers = wanted.pop("headers")
    fields: JsonObject = {name: value for name, value in wanted.items() if value is not None}
    if fields.get("exchange") == "amq.default":
        fields["exchange"] = ""
    fields["headers"] = read_pairs("--header", headers if isinstance(headers, tuple) else ())
    if seconds is not None:
        fields["seconds"] = seconds
    tap: JsonObject = {}
    try:
        with suppress(KeyboardInterrupt), asking(url) as client:
            tap = client.request("tap.open", kind=kind, vhost=vhost_of(url, vhost), **fields)
            for node in tap["stale"]:
                click.echo(f"note: node {shown(node)} does not answer; what happens there is not seen", err=True)
            for number, event in enumerate(_events(client, str(tap["id"])), 1):
                click.echo(json.dumps(event) if is_json else shown(_line(event)))
                if count is not None and number >= count:
                    break
    finally:
        # On a connection of its own: the other one may have been interrupted in the middle of a word.
        if tap:
            with asking(url) as closing, suppress(SystemRequestError):  # it may be over
                closing.request("tap.close", id=tap["id"])


def _events(client: SystemClient, tap_id: str) -> Iterator[JsonObject]:
    """Until the tap is over."""
    after: JsonObject = {}
    missing = 0
    while True:
        try:
            found = client.request("tap.read", id=tap_id, after=after)
        except SystemRequestError as error:
            if error.code == "not_found":
                return
            raise
        yield from found["events"]
        after = found["next"]
        if found["left_out"] + found["unseen"] != missing:
            missing = found["left_out"] + found["unseen"]
            click.echo(f"note: {missing} left out so far", err=True)
        time.sleep(_READ_EVERY_S)


def _line(event: JsonObject) -> str:
    """For people."""
    clock = time.strftime("%H:%M:%S", time.localtime(event["at"] / 1000))
    said = [f"{clock}.{event['at'] % 1000:03}", event["what"], event["track"]]
    said.append(f"'{event['exchange']}' '{event['routing_key']}' {event['body_size']} B")
    if event["message_id"]:
        said.append(f"id {event['message_id']}")
    if event.get("queues"):
        said.append(f"queues {', '.join(event['queues'])}")
    for name in ("consumer_tag", "user", "connection", "reason", "to_exchange"):
        if event.get(name):
            said.append(f"{name.replace('_', ' ')} {event[name]}")
    if "payload" in event:
        said.append(event["payload"][:_SHOWN_CHARACTERS])
    return "  ".join(said)
