"""`amqp-broker consumer`: consumers are cancelled."""

from __future__ import annotations

import click

from amqp_broker.cli.admin.asking import add_url_options, asking, say
from amqp_broker.cli.admin.listing import list_command


@click.group()
def consumer() -> None:
    """Cancel consumers."""


consumer.add_command(list_command("consumers"), "list")


@consumer.command("cancel")
@click.argument("connection")
@click.argument("channel", type=click.IntRange(0, 0xFFFF))
@click.argument("tag")
@add_url_options
def cancel_command(connection: str, channel: int, tag: str, url: str) -> None:
    """Cancel the consumer TAG on a CHANNEL of the connection of that name.

    The client hears basic.cancel; what the consumer holds stays with its channel.
    """
    with asking(url) as client:
        client.request("consumer.cancel", connection=connection, channel=channel, tag=tag)
    say(f"consumer '{tag}' is cancelled")
