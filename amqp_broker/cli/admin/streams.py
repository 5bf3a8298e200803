"""`amqp-broker stream`: a stream by its offsets: what it has, where a time begins, what is to stay or to go or to be
published again."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

import click

from amqp_broker.cli.admin.asking import add_url_options, asking, connected, say, vhost_of, vhost_option
from amqp_broker.cli.admin.json_text import say_answer
from amqp_broker.cli.admin.queue_messages import run_job
from amqp_broker.cli.admin.stream_places import TIMES, change_at, offsets_at, place
from amqp_broker.cli.cells import duration, size
from amqp_broker.cli.failed import Failed
from amqp_broker.moving.destinations import Place
from amqp_broker.moving.mover import CannotMove, require_place, why_not
from amqp_broker.moving.replayer import End, Replay
from amqp_broker.protocol.message_filter import MessageFilter
from amqp_broker.queue_types.stream.arguments import age_of

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
        say_answer(found)
        return
    if "partitions" in found:
        _show_partitions(found)
        return
    say(f"{found['messages']} messages, offsets from {found['first_offset']}, next {found['next_offset']}")
    say(f"{_stored(found)}, {found['consumers']} consumers at this node")
    if found.get("first_time"):
        say(f"its messages came within {duration(found['last_time'] - found['first_time'])}")
    if found.get("max_length_bytes") is not None:
        say(f"kept: {size(found['max_length_bytes'])} (max-length-bytes)")
    if found.get("max_age_ms") is not None:
        say(f"kept: for {duration(found['max_age_ms'])} (max-age)")
    if compaction := found.get("compaction"):
        say(_compacted(compaction, found.get("node", "")))
    for group in found.get("groups", ()):
        who = f"read at {group['reader']}" if group["reader"] else "nobody reads"
        say(f"group {group['name']}: at offset {group['position']}, {group['lag']} behind, {who}")
    for hold in found.get("holds", ()):
        _show_hold(hold)


def _stored(found: JsonObject) -> str:
    """Its octets; with those that it would have where some of it is compressed, if the node says so."""
    stored, taken = found["stream_bytes"], found.get("stream_uncompressed_bytes", 0)
    return f"{size(stored)}, compressed from {size(taken)}" if taken > stored else str(size(stored))


def _compacted(found: JsonObject, node: str) -> str:
    """How far it is compacted on a node, and by what. node: "" where the broker does not say whose figures they are."""
    where = f"on {node}" if node else "here"
    agreed = f"on all nodes below {found['agreed']}"
    left = f"{found['dirty_percent']} % are not, {found['tombstones']} tombstones"
    return f"compacted by {found['key']}: {where} below offset {found['below']}, {agreed}; {left}"


def _show_partitions(found: JsonObject) -> None:
    """A stream with partitions."""
    say(f"{found['messages']} messages in {len(found['partitions'])} partitions")
    say(f"{_stored(found)}, {found['consumers']} consumers at this node")
    for part in found["partitions"]:
        led = f"led by {part['leader']}" if part["leader"] else "without a leader"
        said = f"{part['messages']} messages, offsets from {part['first_offset']}, next {part['next_offset']}"
        say(f"{part['name']}: {said}, {size(part['stream_bytes'])}, {led}")
        if part["compaction"]:
            say(f"  {_compacted(part['compaction'], part.get('node', ''))}")
    for group in found["groups"]:
        say(f"group {group['name']}: {group['members']} members, {group['lag']} behind")
        for row in group["partitions"]:
            who = f"read at {row['reader']}" if row["reader"] else "nobody reads"
            moves = f", goes to {row['owner']}" if row["owner"] != row["reader"] and row["owner"] else ""
            say(f"  partition {row['partition']}: at offset {row['position']}, {row['lag']} behind, {who}{moves}")
    for hold in found.get("holds", ()):
        _show_hold(hold, f"partition {hold['partition']} ")


def _show_hold(hold: JsonObject, of: str = "") -> None:
    left = duration(hold["until"] - time.time() * 1000)
    say(f"{of}held from offset {hold['offset']} on, for {hold['name']}, {left} more")


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
@click.argument("where", callback=place)
@vhost_option
@add_url_options
def find_command(name: str, where: JsonObject, vhost: str | None, url: str) -> None:
    """Print the offset from which on the stream NAME has what came at a time or later: WHERE is that time, or an age
    such as 12h, first, last, next, or an offset."""
    with asking(url) as client:
        found = offsets_at(client, vhost_of(url, vhost), name, where)
    for part, offset in found:
        say(str(offset) if part == name else f"{part}: {offset}")


@stream.command("segments")
@click.argument("name")
@click.option("--from", "offset", type=click.IntRange(0), default=0, help="From the one with this offset on. [0]")
@click.option("--limit", metavar="N", type=click.IntRange(1), default=50, help="At most so many. [50]")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object.")
@vhost_option
@add_url_options
def segments_command(name: str, offset: int, limit: int, is_json: bool, vhost: str | None, url: str) -> None:
    """Show in which files the stream NAME lies at the node that answers, or at a member where that has no copy."""
    with asking(url) as client:
        named = {"vhost": vhost_of(url, vhost), "name": name}
        found = client.request("stream.segments", **named, **{"from": offset, "limit": limit})
    if is_json:
        say_answer(found)
        return
    say(f"{found['files']} files at {found['node']}")
    for each in found["segments"]:
        say(_segment(each))
    if found["next"] is not None:
        say(f"there are more: --from {found['next']}")


def _segment(each: JsonObject) -> str:
    """In one line."""
    where = f"file {each['file']}" if each["file"] else "in no file yet"
    taken = each["uncompressed_octets"]
    stored = str(size(each["octets"])) + (f", compressed from {size(taken)}" if taken > each["octets"] else "")
    said = ["sealed"] if each["is_sealed"] else []
    said += ["compacted"] if each["is_compacted"] else []
    line = f"{where}: offsets from {each['first_offset']}, next {each['next_offset']}, {each['messages']} messages"
    return ", ".join([line, f"{each['pages']} pages", stored, *said])


@stream.command("trim")
@click.argument("name")
@click.option("--before", metavar="WHERE", callback=place, required=True,
              help="The offset that is to be the first one, a time, or an age.")  # fmt: skip
@vhost_option
@add_url_options
def trim_command(name: str, before: JsonObject, vhost: str | None, url: str) -> None:
    """Drop the messages of the stream NAME that are before an offset, on all nodes. They cannot be had again."""
    with asking(url) as client:
        found = change_at(client, "stream.trim", vhost_of(url, vhost), name, "before", before, {})
    for part in found:
        say(f"the stream '{part['name']}' begins at offset {part['first_offset']}")


@stream.command("compact")
@click.argument("name")
@vhost_option
@add_url_options
def compact_command(name: str, vhost: str | None, url: str) -> None:
    """Have all nodes compact the stream NAME now: what it has is gone but for the newest message of each key. Each does
    it in the background; `stream stat` shows how far a node is."""
    with asking(url) as client:
        found = client.request("stream.compact", vhost=vhost_of(url, vhost), name=name)
    for part in found.get("partitions", [{"name": name, **found}]):
        say(f"the stream '{part['name']}' is being compacted below offset {part['next_offset']}")


@stream.command("seek")
@click.argument("name")
@click.argument("group")
@click.option("--to", "where", metavar="WHERE", callback=place, required=True,
              help="The offset that it reads next, a time, an age, first, last or next.")  # fmt: skip
@vhost_option
@add_url_options
def seek_command(name: str, group: str, where: JsonObject, vhost: str | None, url: str) -> None:
    """Have the readers of a GROUP of the stream NAME go on at an offset, forwards or back."""
    with asking(url) as client:
        found = change_at(client, "stream.seek", vhost_of(url, vhost), name, "offset", where, {"group": group})
    for part in found:
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


def _age(context: click.Context, parameter: click.Parameter, value: str) -> int:
    age = age_of(value)
    if age is None:
        raise click.BadParameter(f"{value!r} is no time such as 12h or 7D: a number and one of Y M D h m s")
    return age


@stream.command("hold")
@click.argument("name")
@click.argument("hold")
@click.option("--at", "offset", type=click.IntRange(0), help="What is from this offset on stays.")
@click.option("--for", "for_ms", metavar="TIME", default="1D", callback=_age, help="So long: 12h, 7D. [1D]")
@click.option("--end", "is_ended", is_flag=True, help="It is not needed any more.")
@vhost_option
@add_url_options
def hold_command(
    name: str, hold: str, offset: int | None, for_ms: int, is_ended: bool, vhost: str | None, url: str
) -> None:
    """Keep messages of the stream NAME from retention, under the name HOLD.

    Up to twice its limits: then they go all the same. The same HOLD again replaces the one before.
    """
    if (offset is None) is not is_ended:
        raise click.UsageError("name one of --at and --end")
    with asking(url, vhost) as client:
        if is_ended:
            client.request("stream.hold", stream=name, name=hold, until=0)
            say(f"hold '{hold}' of the stream '{name}' is ended")
            return
        found = client.request("stream.hold", stream=name, name=hold, offset=offset, for_ms=for_ms)
    for part in found.get("partitions", [{"name": name, **found}]):
        first = max(offset or 0, part["first"])
        say(f"the stream '{part['name']}' is held from offset {first} on for {duration(for_ms)}")


@stream.command("producer")
@click.argument("name")
@click.argument("producer")
@click.option("--sequence", type=click.IntRange(0), help="Say whether this one has arrived: exit status 1 if not.")
@vhost_option
@add_url_options
def producer_command(name: str, producer: str, sequence: int | None, vhost: str | None, url: str) -> None:
    """Show what a PRODUCER (the header x-producer-id) has published last to the stream NAME.

    The last 10,000 producers are remembered. Of a stream with partitions each is asked: a sequence is in the one to
    which the key of its message leads.
    """
    asked = {} if sequence is None else {"sequence": sequence}
    with asking(url, vhost) as client:
        answer = client.request("stream.producer", stream=name, producer=producer, **asked)
    rows = answer.get("partitions", [{"name": name, **answer}])
    if sequence is not None and not any(row["is_published"] for row in rows):
        newest = max([row["sequence"] for row in rows if row["sequence"] is not None], default=None)
        last = "nothing" if newest is None else f"sequence {newest}"
        raise Failed(f"sequence {sequence} is not in the stream '{name}': of producer '{producer}' it has {last} last")
    if sequence is not None and "partitions" in answer:
        known = ", ".join([row["name"] for row in rows if row["is_published"]])
        raise Failed(f"sequence {sequence} has arrived if the key of its message leads to one of {known}: ask the "
                     "partition to which it leads")  # fmt: skip
    for row in rows:
        where = f"{row['name']}: " if "partitions" in answer else ""
        if row["sequence"] is None:
            say(f"the stream '{row['name']}' remembers no producer '{producer}'")
        else:
            last = f"sequence {row['sequence']} last, at offset {row['offset']}"
            say(f"{where}producer '{producer}' has published {last}")


def _end(context: click.Context, parameter: click.Parameter, value: str | None) -> End | None:
    if value is None:
        return None
    if value.isascii() and value.isdigit():
        return End(offset=int(value))
    moment = click.DateTime(TIMES).convert(value, parameter, context)
    return End(time=int(moment.timestamp() * 1000))


@stream.command("replay")
@click.argument("name")
@click.option("--from", "first", metavar="WHERE", required=True, callback=_end, help="The first offset, or a time.")
@click.option("--to", "below", metavar="WHERE", callback=_end, help="The offset behind the last, or a time. [the end]")
@click.option("--to-queue", metavar="QUEUE", help="The queue that gets them.")
@click.option("--to-exchange", metavar="EXCHANGE", help="The exchange that they are published to.")
@click.option("--routing-key", metavar="KEY", help="With --to-exchange; without it each keeps its own.")
@click.option("--value", "values", metavar="VALUE", multiple=True,
              help="Only what has this x-stream-filter-value. May be repeated.")  # fmt: skip
@click.option("--filter", "filter_text", metavar="WORDS", default="", help="As for `queue peek`.")
@click.option("--limit", metavar="N", type=click.IntRange(1), help="At most so many.")
@click.option("--rate", metavar="N", type=click.FloatRange(0, min_open=True), help="At most so many a second.")
@vhost_option
@add_url_options
def replay_command(
    name: str,
    first: End,
    below: End | None,
    to_queue: str | None,
    to_exchange: str | None,
    routing_key: str | None,
    values: tuple[str, ...],
    filter_text: str,
    limit: int | None,
    rate: float | None,
    vhost: str | None,
    url: str,
) -> None:
    """Publish messages of the stream NAME again, elsewhere. They stay where they are.

    Each is confirmed; a full queue ends it, and where to go on is said.
    """
    if (to_queue is None) == (to_exchange is None) or (to_queue is not None and routing_key is not None):
        raise click.UsageError("name one of --to-queue and --to-exchange, and a --routing-key only with the latter")
    try:
        wanted = MessageFilter(filter_text)
    except ValueError as error:
        raise click.UsageError(f"--{error}") from None
    replay = Replay(
        secrets.token_hex(8), name, to_exchange or "", to_queue if to_queue is not None else routing_key, first, below,
        values, wanted, limit, rate,
    )  # fmt: skip
    try:
        with connected(url, vhost_of(url, vhost)) as (connection, user):
            if replay.exchange or replay.routing_key is not None:
                require_place(connection, Place(replay.exchange, replay.routing_key or ""))
            run_job(connection, user, replay)
    except CannotMove as error:
        raise Failed(why_not(error)) from None
