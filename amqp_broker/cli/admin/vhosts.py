"""`amqp-broker vhost`: virtual hosts are made, described and deleted."""

from __future__ import annotations

import click

from amqp_broker.cli.admin.asking import add_url_options, asking, say
from amqp_broker.cli.admin.listing import list_command
from amqp_broker.cli.failed import Failed
from amqp_broker.system_client import SystemRequestError


@click.group()
def vhost() -> None:
    """Add, change and delete virtual hosts."""


vhost.add_command(list_command("vhosts"), "list")


@vhost.command("add")
@click.argument("name")
@click.option("--description", metavar="TEXT", default="", help="What it is for.")
@click.option("--for-user", metavar="USER", help="Who gets all permissions in it. [nobody]")
@add_url_options
def add_command(name: str, description: str, for_user: str | None, url: str) -> None:
    """Make the virtual host NAME."""
    with asking(url) as client:
        try:
            client.request("object", kind="vhosts", name=name)
        except SystemRequestError as error:
            if error.code != "not_found":
                raise
        else:
            raise Failed(f"virtual host '{name}' is there already; choose another name")
        allowed = {} if for_user is None else {"permissions_for": for_user}
        client.request("vhost.create", name=name, description=description, **allowed)
    say(f"virtual host '{name}' is made")


@vhost.command("delete")
@click.argument("name")
@add_url_options
def delete_command(name: str, url: str) -> None:
    """Delete the virtual host NAME, with all that is in it. Connections to it are closed."""
    with asking(url) as client:
        client.request("vhost.delete", name=name)
    say(f"virtual host '{name}' is deleted")
