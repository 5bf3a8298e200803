"""`amqp-broker queue peek | move | replay`: the messages of a queue are looked at, and moved by an AMQP client."""

from __future__ import annotations

import base64
import json
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import Progress as ProgressBar

from amqp_broker.cli.admin.asking import add_url_options, asking, connected, say, vhost_of, vhost_option
from amqp_broker.cli.cells import duration, for_programs, shown, size
from amqp_broker.cli.failed import Failed
from amqp_broker.moving.destinations import Destination, Place, to_first_exchange, to_first_queue, to_place
from amqp_broker.moving.mover import CannotMove, Move, Mover, require_place, why_not
from amqp_broker.moving.replayer import Replay, Replayer
from amqp_broker.moving.survey import PAGE_MESSAGES, SURVEYED, Selected, filtered, pages, survey, whole_body
from amqp_broker.protocol.json_values import JsonObject

if TYPE_CHECKING:
    from amqp_broker.client.connection import Connection
    from amqp_broker.moving.mover import Progress, Wanted

_filter_option = click.option(
    "--filter", "filter_text", metavar="WORDS", default="",
    help="As in 'routing_key=orders.* header.tenant=acme': all have to hold; a word alone is in the key or the body.",
)  # fmt: skip


def _from(context: click.Context, parameter: click.Parameter, value: str) -> int | str:
    if value in ("oldest", "newest"):
        return value
    if not value.isascii() or not value.isdigit():
        raise click.BadParameter(f"{value!r} is neither oldest nor newest nor a position")
    return int(value)


@click.command("peek")
@click.argument("name")
@click.option("--from", "begin", metavar="WHERE", default="oldest", callback=_from, help="oldest, newest, a position.")
@click.option("--limit", metavar="N", type=click.IntRange(1), default=10, help="At most so many. [10]")
@_filter_option
@click.option("--unacked", is_flag=True, help="Those that consumers hold, and who holds them.")
@click.option("--body", "position", metavar="POSITION", type=click.IntRange(0), help="Only that one's body, whole.")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON document: a list of objects; bodies as base64.")
@vhost_option
@add_url_options
def peek_command(
    name: str,
    begin: int | str,
    limit: int,
    filter_text: str,
    unacked: bool,
    position: int | None,
    is_json: bool,
    vhost: str | None,
    url: str,
) -> None:
    """Show messages of the queue NAME, which stay as they are.

    They are neither taken nor marked as redelivered nor counted.
    """
    vhost, state = vhost_of(url, vhost), "unacked" if unacked else "ready"
    with asking(url) as client:
        if position is not None:
            body = whole_body(client.request, vhost, name, position, state)
            if body is None:
                raise Failed(f"there is no message at position {position} of queue '{name}' (any more)")
            click.echo(body, nl=False)
            return
        found: list[JsonObject] = []
        wish: JsonObject = {"from": begin, "filter": filter_text, "state": state, "limit": min(limit, PAGE_MESSAGES)}
        for answer in pages(client.request, vhost, name, **wish):
            found += answer["messages"]
            if len(found) >= limit:
                break
    if is_json:
        click.echo(json.dumps(found[:limit], indent=2))
        return
    for message in found[:limit]:
        _print(message)
    if not found:
        say(f"queue '{name}' has no such messages that are {'unacknowledged' if unacked else 'ready'}")


def _print(message: JsonObject) -> None:
    where = f"{message['exchange'] or '(default exchange)'} -> {message['routing_key']}"
    known = [size(message["payload_bytes"])]
    if message["age_ms"] is not None:
        known.append(f"{duration(message['age_ms'])} old")
    if message["redelivered"]:
        known.append(f"came back {message['delivery_count']} times")
    if "holder" in message:
        holder = message["holder"]
        held = f" for {duration(message['held_ms'])}"
        whose = f"{holder.get('connection', 'somebody')} on {holder['node']}"
        known.append(f"held{held} by consumer '{holder['consumer_tag']}' of {whose}")
    click.echo(shown(f"#{message['position']} {where}  {', '.join(known)}"))
    if message["properties"]:
        click.echo(shown(f"    {for_programs(message['properties'])}"))
    body = base64.b64decode(message["payload"])
    rest = message["payload_bytes"] - len(body)
    click.echo("    " + shown(body.decode("utf-8", "surrogateescape")) + (f" ... {rest} octets more" if rest else ""))


# -- moving ------------------------------------------------------------------------------------------------------------


def _which(command: Callable[..., None]) -> Callable[..., None]:
    """The options that move and replay have in common."""
    for option in (
        vhost_option,
        click.option("--dry-run", is_flag=True, help=f"Count what would be moved, of {SURVEYED} messages at most."),
        click.option("--rate", metavar="N", type=click.FloatRange(0, min_open=True), help="At most so many a second."),
        click.option("--limit", metavar="N", type=click.IntRange(1), help="At most so many."),
        click.option("--position", "positions", metavar="N", type=click.IntRange(0), multiple=True,
                     help="Only the message at this position (see peek). May be repeated."),
        _filter_option,
    ):  # fmt: skip
        command = option(command)
    return add_url_options(command)


@click.command("move")
@click.argument("name")
@click.option("--to-queue", metavar="QUEUE", help="The queue that gets them.")
@click.option("--to-exchange", metavar="EXCHANGE", help="The exchange that they are published to.")
@click.option("--routing-key", metavar="KEY", default="", help="The routing key for --to-exchange.")
@_which
def move_command(
    name: str, to_queue: str | None, to_exchange: str | None, routing_key: str, **which: object
) -> None:
    """Move messages of the queue NAME to another place.

    Each is published, confirmed, and only then acknowledged; what no queue takes stays.
    """
    if (to_queue is None) == (to_exchange is None):
        raise click.UsageError("name one of --to-queue and --to-exchange")
    place = Place("", to_queue) if to_queue is not None else Place(to_exchange or "", routing_key)
    _do(name, to_place(place), place, **which)  # type: ignore[arg-type]


@click.command("replay")
@click.argument("name")
@click.option(
    "--into", type=click.Choice(["queue", "exchange"]), default="queue",
    help="The queue in which each died first, or the exchange that it was published to before. [queue]",
)  # fmt: skip
@_which
def replay_command(name: str, into: str, **which: object) -> None:
    """Move the dead letters of the queue NAME back to where they came from, by their header x-death."""
    _do(name, to_first_queue if into == "queue" else to_first_exchange, None, **which)  # type: ignore[arg-type]


def _do(
    name: str,
    destination: Destination,
    place: Place | None,
    filter_text: str,
    positions: tuple[int, ...],
    limit: int | None,
    rate: float | None,
    dry_run: bool,
    vhost: str | None,
    url: str,
) -> None:
    vhost = vhost_of(url, vhost)
    if positions and (filter_text or len(positions) > PAGE_MESSAGES):
        raise click.UsageError(f"--position: at most {PAGE_MESSAGES} of them, and without --filter")
    try:
        wanted: Wanted = filtered(filter_text)
    except ValueError as error:
        raise click.UsageError(f"--{error}") from None
    if place is not None:
        with connected(url, vhost) as (connection, _):
            for each in (Place("", name), place):
                require_place(connection, each)
    if dry_run:
        with asking(url) as client:
            _tell(survey(client.request, vhost, name, filter_text, destination))
        return
    try:
        if positions:
            with asking(url) as client:
                wanted, limit = Selected(client.request, vhost, name, positions), len(positions)
        move = Move(secrets.token_hex(8), name, destination, wanted, limit, rate)
        with connected(url, vhost) as (connection, user):
            run_job(connection, user, move)
    except CannotMove as error:
        raise Failed(why_not(error)) from None


def run_job(connection: Connection, user: str, move: Move | Replay) -> None:
    """Do it, show how far it is, and say what came of it."""
    mover = move.begin(connection, user, time.monotonic, time.sleep)
    progress = mover.progress
    try:
        with _until_interrupted(mover), _bar() as advance:
            mover.run(advance)
    finally:
        say(progress.told())
    for place, count in progress.by_place.items():
        say(f"  {count} to {place}")


@contextmanager
def _until_interrupted(mover: Mover | Replayer) -> Iterator[None]:
    """Ctrl-C ends it behind what is on its way, so that nothing is published that is not acknowledged."""
    before = signal.signal(signal.SIGINT, lambda number, frame: mover.cancel())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _bar() -> Iterator[Callable[[Progress], None]]:
    console = Console(stderr=True)
    with ProgressBar(console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("moving", total=None)
        yield lambda progress: bar.update(task, completed=progress.taken, total=progress.ready)


def _tell(found: JsonObject) -> None:
    scope = "" if found["is_all"] else f" among the first {found['looked_at']}"
    say(f"{found['moved']} of {found['messages_ready']} messages would be moved{scope}")
    for origin in found["origins"]:
        say(f"  {origin['messages']} that died in '{origin['queue']}' ({origin['reason']}): "
            f"{'to ' + origin['to'] if origin['to'] else 'stay, nothing says where they came from'}")  # fmt: skip
