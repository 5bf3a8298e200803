"""`amqp-broker permission`: what a user may do with which names in a virtual host."""

from __future__ import annotations

import click

from amqp_broker.cli.admin.asking import add_url_options, asking, say, vhost_of, vhost_option
from amqp_broker.cli.admin.listing import list_command


@click.group()
def permission() -> None:
    """Set and clear permissions: patterns over names of queues and exchanges."""


permission.add_command(list_command("permissions"), "list")


@permission.command("set")
@click.argument("user")
@click.argument("configure")
@click.argument("write")
@click.argument("read")
@vhost_option
@add_url_options
def set_command(user: str, configure: str, write: str, read: str, vhost: str | None, url: str) -> None:
    """Let USER into a virtual host, to configure, write and read what these patterns match.

    A pattern matches anywhere in a name unless it is anchored: '.*' is everything, '' is nothing.
    """
    place = vhost_of(url, vhost)
    with asking(url) as client:
        client.request("permission.put", user=user, vhost=place, configure=configure, write=write, read=read)
    say(f"user '{user}' has permissions in virtual host '{place}'")


@permission.command("clear")
@click.argument("user")
@vhost_option
@add_url_options
def clear_command(user: str, vhost: str | None, url: str) -> None:
    """Let USER into a virtual host no more."""
    place = vhost_of(url, vhost)
    with asking(url) as client:
        client.request("object", kind="permissions", vhost=place, user=user)
        client.request("permission.delete", user=user, vhost=place)
    say(f"user '{user}' has no permissions in virtual host '{place}'")
