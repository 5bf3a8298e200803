"""`amqp-broker parameter`: what is kept for others than the broker, by component and name in a virtual host."""

from __future__ import annotations

import click

from amqp_broker.cli.admin.asking import add_url_options, asking, say, vhost_of, vhost_option
from amqp_broker.cli.admin.json_text import read_value
from amqp_broker.cli.admin.listing import list_command


@click.group()
def parameter() -> None:
    """Set and clear parameters of virtual hosts."""


parameter.add_command(list_command("parameters"), "list")


@parameter.command("set")
@click.argument("component")
@click.argument("name")
@click.argument("value")
@vhost_option
@add_url_options
def set_command(component: str, name: str, value: str, vhost: str | None, url: str) -> None:
    """Set the parameter NAME of COMPONENT; VALUE is JSON, or else a text."""
    place = vhost_of(url, vhost)
    with asking(url) as client:
        client.request("parameter.put", vhost=place, component=component, name=name, value=read_value(value))
    say(f"parameter '{name}' of component '{component}' is set in virtual host '{place}'")


@parameter.command("clear")
@click.argument("component")
@click.argument("name")
@vhost_option
@add_url_options
def clear_command(component: str, name: str, vhost: str | None, url: str) -> None:
    """Clear the parameter NAME of COMPONENT."""
    place = vhost_of(url, vhost)
    with asking(url) as client:
        client.request("parameter.delete", vhost=place, component=component, name=name)
    say(f"parameter '{name}' of component '{component}' is cleared in virtual host '{place}'")
