"""`amqp-broker exchange`: exchanges are declared and deleted, with AMQP's own methods."""

from __future__ import annotations

import click

from amqp_broker.cli.admin.asking import add_url_options, say, speaking, vhost_option
from amqp_broker.cli.admin.json_text import arguments_option, read_arguments
from amqp_broker.cli.admin.listing import list_command
from amqp_broker.protocol import methods as m


@click.group()
def exchange() -> None:
    """Declare and delete exchanges."""


exchange.add_command(list_command("exchanges"), "list")


@exchange.command("declare")
@click.argument("name")
@click.argument("exchange_type", metavar="TYPE")
@click.option("--transient", is_flag=True, help="Gone when the broker stops.")
@click.option("--auto-delete", is_flag=True, help="Gone with its last binding.")
@click.option("--internal", is_flag=True, help="For bindings of other exchanges only.")
@arguments_option
@vhost_option
@add_url_options
def declare_command(
    name: str,
    exchange_type: str,
    transient: bool,
    auto_delete: bool,
    internal: bool,
    arguments: tuple[str, ...],
    vhost: str | None,
    url: str,
) -> None:
    """Declare the exchange NAME of a TYPE (direct, fanout, topic, ...); one that is there has to be the same."""
    method = m.ExchangeDeclare(
        exchange=name, type=exchange_type, durable=not transient, auto_delete=auto_delete, internal=internal,
        arguments=read_arguments(arguments),
    )  # fmt: skip
    with speaking(url, vhost) as channel:
        channel.call(method)
    say(f"exchange '{name}' is declared")


@exchange.command("delete")
@click.argument("name")
@click.option("--if-unused", is_flag=True, help="Only if it has no bindings.")
@vhost_option
@add_url_options
def delete_command(name: str, if_unused: bool, vhost: str | None, url: str) -> None:
    """Delete the exchange NAME, with its bindings."""
    with speaking(url, vhost) as channel:
        channel.call(m.ExchangeDeclare(exchange=name, passive=True))  # exchange.delete is silent where there is none
        channel.call(m.ExchangeDelete(exchange=name, if_unused=if_unused))
    say(f"exchange '{name}' is deleted")
