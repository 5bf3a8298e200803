"""`amqp-broker vhost`: virtual hosts are made, described and deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from amqp_broker.cli.admin.asking import add_url_options, asking, say, told_by_its_end
from amqp_broker.cli.admin.listing import list_command
from amqp_broker.cli.failed import Failed
from amqp_broker.system_client import SystemRequestError

if TYPE_CHECKING:
    from amqp_broker.protocol.json_values import JsonObject

C = TypeVar("C", bound=Callable[..., object])


@click.group()
def vhost() -> None:
    """Add, change and delete virtual hosts."""


vhost.add_command(list_command("vhosts"), "list")


def _add_description(command: C) -> C:
    options = (
        click.option("--description", metavar="TEXT", help="What it is for."),
        click.option("--tag", "tags", metavar="TAG", multiple=True, help="May be repeated."),
        click.option("--default-queue-type", metavar="TYPE", help="For queues that are declared without one."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _described(description: str | None, tags: tuple[str, ...], default_queue_type: str | None) -> JsonObject:
    """The fields that are named."""
    fields = {"description": description, "tags": list(tags) or None, "default_queue_type": default_queue_type}
    return {name: value for name, value in fields.items() if value is not None}


@vhost.command("add")
@click.argument("name")
@_add_description
@click.option("--for-user", metavar="USER", help="Who gets all permissions in it. [nobody]")
@add_url_options
def add_command(
    name: str,
    description: str | None,
    tags: tuple[str, ...],
    default_queue_type: str | None,
    for_user: str | None,
    url: str,
) -> None:
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
        client.request("vhost.create", name=name, **_described(description, tags, default_queue_type), **allowed)
    say(f"virtual host '{name}' is made")


@vhost.command("change")
@click.argument("name")
@_add_description
@click.option(
    "--tracing/--no-tracing", default=None,
    help="RabbitMQ's flag: kept and exported. Nothing is published here: see tail, trace.",
)  # fmt: skip
@add_url_options
def change_command(
    name: str,
    description: str | None,
    tags: tuple[str, ...],
    default_queue_type: str | None,
    tracing: bool | None,
    url: str,
) -> None:
    """Describe the virtual host NAME otherwise. What is not named stays."""
    changes = _described(description, tags, default_queue_type) | ({} if tracing is None else {"tracing": tracing})
    if not changes:
        raise click.UsageError("nothing to change: name a --description, --tag, --default-queue-type or --tracing")
    with asking(url) as client:
        client.request("object", kind="vhosts", name=name)  # vhost.create would make one
        client.request("vhost.create", name=name, **changes)
    say(f"virtual host '{name}' is changed")


@vhost.command("protect")
@click.argument("name")
@add_url_options
def protect_command(name: str, url: str) -> None:
    """From now on the virtual host NAME is not deleted, whoever asks, until `unprotect`."""
    with asking(url) as client:
        client.request("vhost.protect", name=name, protected=True)
    say(f"virtual host '{name}' is protected from deletion")


@vhost.command("unprotect")
@click.argument("name")
@add_url_options
def unprotect_command(name: str, url: str) -> None:
    """The virtual host NAME may be deleted again."""
    with asking(url) as client:
        client.request("vhost.protect", name=name, protected=False)
    say(f"virtual host '{name}' may be deleted")


@vhost.command("delete")
@click.argument("name")
@add_url_options
def delete_command(name: str, url: str) -> None:
    """Delete the virtual host NAME, with all that is in it. Connections to it are closed."""
    with asking(url) as client, told_by_its_end(f"vhost '{name}' is deleted"):
        client.request("vhost.delete", name=name)
    say(f"virtual host '{name}' is deleted")
