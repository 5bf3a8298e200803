"""`amqp-broker binding`: bindings are added and deleted, with AMQP's own methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from amqp_broker.cli.admin.asking import add_url_options, asking, say, speaking, vhost_of, vhost_option
from amqp_broker.cli.admin.json_text import arguments_option, read_arguments
from amqp_broker.cli.admin.listing import list_command
from amqp_broker.protocol import methods as m
from amqp_broker.web.field_values import arguments_of
from amqp_broker.web.properties_key import properties_key

C = TypeVar("C", bound=Callable[..., object])


@click.group()
def binding() -> None:
    """Add and delete bindings."""


binding.add_command(list_command("bindings"), "list")


def _add_options(command: C) -> C:
    options = (
        click.argument("source"),
        click.argument("destination"),
        click.option("--to-exchange", is_flag=True, help="DESTINATION is an exchange. [a queue]"),
        click.option("--key", metavar="KEY", default="", help="Its routing key. ['']"),
        arguments_option, vhost_option, add_url_options,
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@binding.command("add")
@_add_options
def add_command(
    source: str,
    destination: str,
    to_exchange: bool,
    key: str,
    arguments: tuple[str, ...],
    vhost: str | None,
    url: str,
) -> None:
    """Bind the queue DESTINATION to the exchange SOURCE."""
    table = read_arguments(arguments)
    method: m.Method = m.QueueBind(queue=destination, exchange=source, routing_key=key, arguments=table)
    if to_exchange:
        method = m.ExchangeBind(destination=destination, source=source, routing_key=key, arguments=table)
    with speaking(url, vhost) as channel:
        channel.call(method)
    say(f"'{destination}' is bound to exchange '{source}' with the key '{key}'")


@binding.command("delete")
@_add_options
def delete_command(
    source: str,
    destination: str,
    to_exchange: bool,
    key: str,
    arguments: tuple[str, ...],
    vhost: str | None,
    url: str,
) -> None:
    """Delete the binding of DESTINATION to the exchange SOURCE that has this key and these arguments."""
    named = read_arguments(arguments)
    with asking(url) as client:  # unbinding is silent where there is none
        found = client.request(
            "object", kind="bindings", vhost=vhost_of(url, vhost), source=source, destination=destination,
            destination_type="exchange" if to_exchange else "queue", properties_key=properties_key(key, named),
        )["object"]  # fmt: skip
    table = arguments_of(found)
    method: m.Method = m.QueueUnbind(queue=destination, exchange=source, routing_key=key, arguments=table)
    if to_exchange:
        method = m.ExchangeUnbind(destination=destination, source=source, routing_key=key, arguments=table)
    with speaking(url, vhost) as channel:
        channel.call(method)
    say(f"'{destination}' is no more bound to exchange '{source}' with the key '{key}'")
