"""JSON that is written on the command line."""

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
    found: JsonObject = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not (name and equals):
            raise click.UsageError(f"--argument: {each!r} is not NAME=VALUE, as in x-max-length=1000")
        found[name] = read_value(value)
        try:
            encode_table({name: found[name]})
        except (EncodeError, ValueError) as error:
            raise click.UsageError(f"--argument: {each!r} cannot be sent: {error}") from None
    return Table(found)
