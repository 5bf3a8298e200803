"""`amqp-broker stream`: a stream by its offsets: what it has, where a time begins, and what is to go."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING

import click

from amqp_broker.cli.admin.asking import add_url_options, asking, say, vhost_of, vhost_option
from amqp_broker.cli.admin.cells import duration, size

if TYPE_CHECKING:
    from amqp_broker.protocol.json_values import JsonObject


@click.group()
def stream() -> None:
    """Look at streams, and shorten them. To declare and delete one: `amqp-broker queue`. The name of one with
    partitions means all of them; NAME-0, NAME-1, ... are these."""


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
    if "partitions" in found:
        _show_partitions(found)
        return
    say(f"{found['messages']} messages, offsets from {found['first_offset']}, next {found['next_offset']}")
    say(f"{size(found['stream_bytes'])}, {found['consumers']} consumers at this node")
    if found.get("first_time"):
        say(f"its messages came within {duration(found['last_time'] - found['first_time'])}")
    if found.get("max_length_bytes") is not None:
        say(f"kept: {size(found['max_length_bytes'])} (max-length-bytes)")
    if found.get("max_age_ms") is not None:
        say(f"kept: for {duration(found['max_age_ms'])} (max-age)")
    for group in found.get("groups", ()):
        who = f"read at {group['reader']}" if group["reader"] else "nobody reads"
        say(f"group {group['name']}: at offset {group['position']}, {group['lag']} behind, {who}")
    for hold in found.get("holds", ()):
        say(f"held from offset {hold['offset']} on, for {hold['name']}")


def _show_partitions(found: JsonObject) -> None:
    """A stream with partitions."""
    say(f"{found['messages']} messages in {len(found['partitions'])} partitions")
    say(f"{size(found['stream_bytes'])}, {found['consumers']} consumers at this node")
    for part in found["partitions"]:
        led = f"led by {part['leader']}" if part["leader"] else "without a leader"
        said = f"{part['messages']} messages, offsets from {part['first_offset']}, next {part['next_offset']}"
        say(f"{part['name']}: {said}, {size(part['stream_bytes'])}, {led}")
    for group in found["groups"]:
        say(f"group {group['name']}: {group['members']} members, {group['lag']} behind")
        for row in group["partitions"]:
            who = f"read at {row['reader']}" if row["reader"] else "nobody reads"
            moves = f", goes to {row['owner']}" if row["owner"] != row["reader"] and row["owner"] else ""
            say(f"  partition {row['partition']}: at offset {row['position']}, {row['lag']} behind, {who}{moves}")


@stream.command("grow")
@click.argument("name")
@click.option("--partitions", type=click.IntRange(2), required=True, help="How many there are to be in all.")
@vhost_option
@add_url_options
def grow_command(name: str, partitions: int, vhost: str | None, url: str) -> None:
    """Give the stream NAME more partitions. From then on a key may go to another one than before, so what was published
    with it before and after is read in no order."""
    with asking(url) as client:
        found = client.request("stream.grow", vhost=vhost_of(url, vhost), name=name, partitions=partitions)
    say(f"the stream '{name}' has {found['partitions']} partitions")


@stream.command("find")
@click.argument("name")
@click.argument("time", type=click.DateTime(["%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M:%S%z", "%Y-%m-%d%z"]))
@vhost_option
@add_url_options
def find_command(name: str, time: datetime, vhost: str | None, url: str) -> None:
    """Print the offset from which on the stream NAME has what came at TIME or later."""
    milliseconds = int(time.timestamp() * 1000)
    with asking(url) as client:
        found = client.request("stream.find", vhost=vhost_of(url, vhost), name=name, time=milliseconds)
    for part in found.get("partitions", ()):
        say(f"{part['name']}: {part['offset']}")
    if "offset" in found:
        say(str(found["offset"]))


@stream.command("trim")
@click.argument("name")
@click.option("--before", type=click.IntRange(0), required=True, help="The offset that is to be the first one.")
@vhost_option
@add_url_options
def trim_command(name: str, before: int, vhost: str | None, url: str) -> None:
    """Drop the messages of the stream NAME that are before an offset, on all nodes. They cannot be had again."""
    with asking(url) as client:
        found = client.request("stream.trim", vhost=vhost_of(url, vhost), name=name, before=before)
    for part in found.get("partitions", [{"name": name, **found}]):
        say(f"the stream '{part['name']}' begins at offset {part['first_offset']}")


@stream.command("seek")
@click.argument("name")
@click.argument("group")
@click.option("--to", "offset", type=click.IntRange(0), required=True, help="The offset that it reads next.")
@vhost_option
@add_url_options
def seek_command(name: str, group: str, offset: int, vhost: str | None, url: str) -> None:
    """Have the readers of a GROUP of the stream NAME go on at an offset, forwards or back."""
    with asking(url) as client:
        found = client.request("stream.seek", vhost=vhost_of(url, vhost), name=name, group=group, offset=offset)
    for part in found.get("partitions", [{"name": name, **found}]):
        say(f"group '{group}' of the stream '{part['name']}' goes on at offset {part['position']}")


@stream.command("forget")
@click.argument("name")
@click.argument("group")
@vhost_option
@add_url_options
def forget_command(name: str, group: str, vhost: str | None, url: str) -> None:
    """Forget how far a GROUP of the stream NAME is. It must have no consumers."""
    with asking(url) as client:
        client.request("stream.forget", vhost=vhost_of(url, vhost), name=name, group=group)
    say(f"group '{group}' of the stream '{name}' is forgotten")
