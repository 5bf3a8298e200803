"""`amqp-broker stream`: a stream by its offsets: what it has, where a time begins, and what is to go."""

from __future__ import annotations

import json
from datetime import datetime

import click

from amqp_broker.cli.admin.asking import add_url_options, asking, say, vhost_of, vhost_option
from amqp_broker.cli.admin.cells import duration, size


@click.group()
def stream() -> None:
    """Look at streams, and shorten them. To declare and delete one: `amqp-broker queue`."""


@stream.command("stat")
@click.argument("name")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object.")
@vhost_option
@add_url_options
def stat_command(name: str, is_json: bool, vhost: str | None, url: str) -> None:
    """Show offsets, times and limits of the stream NAME."""
    with asking(url) as client:
        found = client.request("stream.stat", vhost=vhost_of(url, vhost), name=name)
    if is_json:
        click.echo(json.dumps({key: value for key, value in found.items() if key != "ok"}, indent=2))
        return
    say(f"{found['messages']} messages, offsets from {found['first_offset']}, next {found['next_offset']}")
    say(f"{size(found['stream_bytes'])}, {found['consumers']} consumers at this node")
    if found.get("first_time"):
        say(f"its messages came within {duration(found['last_time'] - found['first_time'])}")
    if found.get("max_length_bytes") is not None:
        say(f"kept: {size(found['max_length_bytes'])} (max-length-bytes)")
    if found.get("max_age_ms") is not None:
        say(f"kept: for {duration(found['max_age_ms'])} (max-age)")
    for hold in found.get("holds", ()):
        say(f"held from offset {hold['offset']} on, for {hold['name']}")


@stream.command("find")
@click.argument("name")
@click.argument("time", type=click.DateTime(["%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M:%S%z", "%Y-%m-%d%z"]))
@vhost_option
@add_url_options
def find_command(name: str, time: datetime, vhost: str | None, url: str) -> None:
    """Print the offset from which on the stream NAME has what came at TIME or later."""
    milliseconds = int(time.timestamp() * 1000)
    with asking(url) as client:
        say(str(client.request("stream.find", vhost=vhost_of(url, vhost), name=name, time=milliseconds)["offset"]))


@stream.command("trim")
@click.argument("name")
@click.option("--before", type=click.IntRange(0), required=True, help="The offset that is to be the first one.")
@vhost_option
@add_url_options
def trim_command(name: str, before: int, vhost: str | None, url: str) -> None:
    """Drop the messages of the stream NAME that are before an offset, on all nodes. They cannot be had again."""
    with asking(url) as client:
        found = client.request("stream.trim", vhost=vhost_of(url, vhost), name=name, before=before)
    say(f"the stream '{name}' begins at offset {found['first_offset']}")
