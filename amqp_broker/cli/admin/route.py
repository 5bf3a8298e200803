"""`amqp-broker route`: where a message would go, as a tree, and what would become of it in each queue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from amqp_broker.cli.admin.asking import add_url_options, asking
from amqp_broker.cli.admin.json_text import read_pairs, say_answer
from amqp_broker.cli.cells import duration, for_programs, shown

if TYPE_CHECKING:
    from amqp_broker.protocol.json_values import JsonObject

STATUS_NOWHERE = 1
_DEFAULT = ("amq.default", "")


@click.command()
@click.argument("vhost")
@click.argument("exchange")
@click.argument("routing_key", metavar="KEY")
@click.option(
    "--header", "headers", metavar="NAME=VALUE", multiple=True,
    help="A header of the message; VALUE is JSON, or else a text. May be repeated.",
)  # fmt: skip
@click.option(
    "--property", "properties", metavar="NAME=VALUE", multiple=True,
    help="A property that some exchange may look at, as message_id=1. May be repeated.",
)  # fmt: skip
@click.option("--user", metavar="NAME", help="Who would publish it. [the URL's]")
@click.option("--size", type=click.IntRange(0), metavar="OCTETS", default=0, help="Of its body. [0]")
@click.option("--bindings", "shows_bindings", is_flag=True, help="Show also bindings that do not match.")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object.")
@add_url_options
def route(
    vhost: str,
    exchange: str,
    routing_key: str,
    headers: tuple[str, ...],
    properties: tuple[str, ...],
    user: str | None,
    size: int,
    shows_bindings: bool,
    is_json: bool,
    url: str,
) -> int:
    """Show where a message with routing KEY would go from EXCHANGE (amq.default: the default exchange).

    Nothing is published. Exit status 0: to some queue; 1: to none, or its publisher is refused.
    """
    fields: JsonObject = {"vhost": vhost, "exchange": "" if exchange in _DEFAULT else exchange, "size": size}
    fields |= {"routing_key": routing_key, "headers": read_pairs("--header", headers)}
    given = {name: for_programs(value) for name, value in read_pairs("--property", properties).items()}
    fields["properties"] = given
    if user is not None:
        fields["user"] = user
    with asking(url) as client:
        found = client.request("route.test", **fields)
    if is_json:
        say_answer(found)
    else:
        for line in _lines(found, shows_bindings):
            click.echo(shown(line))
    is_somewhere = found["permitted"] and (found["queue_count"] or found["waits_before"])
    return 0 if is_somewhere else STATUS_NOWHERE


def _lines(found: JsonObject, shows_bindings: bool) -> Iterator[str]:
    yield found["summary"]
    for each in found["exchanges"]:
        how = "" if each["reached_from"] is None else f", by {each['reached_by']} from '{each['reached_from']}'"
        yield f"exchange '{each['name']}' ({each['type']}){how}"
        for binding in each["matched"]:
            yield f"  + {_binding(binding)}"
        if shows_bindings:
            for binding in each["not_matched"]:
                yield f"  - {_binding(binding)}"
            if each["next_skip"] is not None:
                yield f"  ... {each['binding_count']} bindings altogether"
        if each["waits"]:
            yield "  it waits here (x-delay)"
        if each["takes_alternate"]:
            yield f"  nothing matches: on to the alternate exchange '{each['alternate_exchange']}'"
    for queue in found["queues"]:
        yield f"queue '{queue['name']}' ({queue['type']}): {_prospects(queue)}"
    if found["queues_left_out"]:
        yield f"... and {found['queues_left_out']} more queues"


def _binding(binding: JsonObject) -> str:
    arguments = f" {for_programs(binding['arguments'])}" if binding["arguments"] else ""
    return f"'{binding['routing_key']}'{arguments} -> {binding['destination_type']} '{binding['destination']}'"


def _prospects(queue: JsonObject) -> str:
    said = [queue["delivery"]]
    limits = queue["limits"]
    if limits is not None and limits["would"] != "take":
        would = {"reject": "it is full and refuses it", "drop-head": "it is full and gives up its first message"}
        said.insert(0, f"{would[limits['would']]} ({', '.join(limits['reached'])})")
    if queue["expires_after_ms"] is not None:
        said.append(f"expires after {duration(queue['expires_after_ms'])}")
    said += [f"{each['consumer_tag']}: {each['why_not']}" for each in queue["consumers"] if each["why_not"]]
    return "; ".join(said)
