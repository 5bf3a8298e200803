"""`amqp-broker topic-permission`: which routing keys a user may use with an exchange of type topic."""

from __future__ import annotations

import click

from amqp_broker.cli.admin.asking import add_url_options, asking, say, vhost_of, vhost_option
from amqp_broker.cli.admin.listing import list_command


@click.group("topic-permission")
def topic_permission() -> None:
    """Set and clear topic permissions: patterns over routing keys."""


topic_permission.add_command(list_command("topic-permissions"), "list")


@topic_permission.command("set")
@click.argument("user")
@click.argument("exchange")
@click.argument("write")
@click.argument("read")
@vhost_option
@add_url_options
def set_command(user: str, exchange: str, write: str, read: str, vhost: str | None, url: str) -> None:
    """Have USER use EXCHANGE with routing keys only that these patterns match."""
    place = vhost_of(url, vhost)
    with asking(url) as client:
        client.request("topic_permission.put", user=user, vhost=place, exchange=exchange, write=write, read=read)
    say(f"user '{user}' is held to these routing keys of exchange '{exchange}' in virtual host '{place}'")


@topic_permission.command("clear")
@click.argument("user")
@click.argument("exchange")
@vhost_option
@add_url_options
def clear_command(user: str, exchange: str, vhost: str | None, url: str) -> None:
    """Let USER use any routing key of EXCHANGE again."""
    place = vhost_of(url, vhost)
    with asking(url) as client:
        client.request("object", kind="topic_permissions", vhost=place, user=user, exchange=exchange)
        client.request("topic_permission.delete", user=user, vhost=place, exchange=exchange)
    say(f"user '{user}' may use any routing key of exchange '{exchange}' in virtual host '{place}'")
