"""JSON that is read from the command line, and written for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from amqp_broker.protocol.errors import EncodeError
from amqp_broker.protocol.fields import Table, encode_table

if TYPE_CHECKING:
    from amqp_broker.protocol.json_values import JsonObject, JsonValue

arguments_option = click.option(
    "--argument", "arguments", metavar="NAME=VALUE", multiple=True,
    help="An x-argument; VALUE is JSON, or else a text. May be repeated.",
)  # fmt: skip


def read_object(name: str, text: str) -> JsonObject:
    """Raises UsageError."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{name}: {text!r} is no JSON ({error})") from None
    if not isinstance(found, dict):
        raise click.UsageError(f"{name}: {text!r} has to be a JSON object, as in '{{\"max-length\": 1000}}'")
    return found


def read_value(text: str) -> JsonValue:
    """JSON, or else the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def read_arguments(given: tuple[str, ...]) -> Table:
    """Raises UsageError."""
    found = read_pairs("--argument", given, "x-max-length=1000")
    for name, value in found.items():
        try:
            encode_table({name: value})
        except (EncodeError, ValueError) as error:
            raise click.UsageError(f"--argument: '{name}' cannot be sent: {error}") from None
    return Table(found)


def read_pairs(option: str, given: tuple[str, ...], example: str = "kind=order") -> JsonObject:
    """NAME=VALUE, where a value is JSON or else a text. Raises UsageError."""
    found: JsonObject = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not (name and equals):
            raise click.UsageError(f"{option}: {each!r} is not NAME=VALUE, as in {example}")
        found[name] = read_value(value)
    return found


def say_answer(found: JsonObject) -> None:
    """What a node has answered, for programs."""
    click.echo(json.dumps({key: value for key, value in found.items() if key != "ok"}, indent=2))
