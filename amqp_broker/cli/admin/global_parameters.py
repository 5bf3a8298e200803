"""`amqp-broker global-parameter`: what is kept for others than the broker, by name, in no virtual host."""

from __future__ import annotations

import click

from amqp_broker.cli.admin.asking import add_url_options, asking, say
from amqp_broker.cli.admin.json_text import read_value
from amqp_broker.cli.admin.listing import list_command


@click.group("global-parameter")
def global_parameter() -> None:
    """Set and clear parameters of the whole cluster."""


global_parameter.add_command(list_command("global-parameters"), "list")


@global_parameter.command("set")
@click.argument("name")
@click.argument("value")
@add_url_options
def set_command(name: str, value: str, url: str) -> None:
    """Set the parameter NAME; VALUE is JSON, or else a text."""
    with asking(url) as client:
        client.request("global_parameter.put", name=name, value=read_value(value))
    say(f"global parameter '{name}' is set")


@global_parameter.command("clear")
@click.argument("name")
@add_url_options
def clear_command(name: str, url: str) -> None:
    """Clear the parameter NAME."""
    with asking(url) as client:
        client.request("global_parameter.delete", name=name)
    say(f"global parameter '{name}' is cleared")
