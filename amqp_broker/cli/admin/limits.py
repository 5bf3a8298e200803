"""`amqp-broker limit`: how many connections, queues and channels a virtual host or a user may have."""

from __future__ import annotations

from collections.abc import Callable

import click

from amqp_broker.cli.admin.asking import add_url_options, asking, say
from amqp_broker.cli.failed import Failed
from amqp_broker.system_client import SystemClient

_of_vhost = click.option("--vhost", metavar="NAME", help="A limit of this virtual host.")
_of_user = click.option("--user", metavar="NAME", help="A limit of this user.")


@click.group()
def limit() -> None:
    """Set and clear limits of virtual hosts and users."""


def _holder(vhost: str | None, user: str | None) -> tuple[str, str, str]:
    """What has the limits: its noun, its kind and its name."""
    if vhost is not None and user is None:
        return "vhost", "vhosts", vhost
    if user is not None and vhost is None:
        return "user", "users", user
    raise click.UsageError("a limit is of a virtual host or of a user: name one, with --vhost or --user")


def _change(client: SystemClient, holder: tuple[str, str, str], change: Callable[[dict[str, int]], None]) -> None:
    """The verbs replace all limits of one."""
    noun, kind, name = holder
    limits = client.request("object", kind=kind, name=name)["object"]["limits"]
    change(limits)
    client.request(f"{noun}.limits", **{noun: name}, limits=limits)


@limit.command("set")
@click.argument("limit", metavar="LIMIT")
@click.argument("value", metavar="N", type=int)
@_of_vhost
@_of_user
@add_url_options
def set_command(limit: str, value: int, vhost: str | None, user: str | None, url: str) -> None:
    """Set LIMIT to N. Virtual hosts have max-connections and max-queues, users max-connections and max-channels."""
    noun, _, name = holder = _holder(vhost, user)
    with asking(url) as client:
        _change(client, holder, lambda limits: limits.update({limit: value}))
    say(f"{limit} of {noun} '{name}' is {value}")


@limit.command("clear")
@click.argument("limit", metavar="LIMIT|all")
@_of_vhost
@_of_user
@add_url_options
def clear_command(limit: str, vhost: str | None, user: str | None, url: str) -> None:
    """Take LIMIT away."""
    noun, _, name = holder = _holder(vhost, user)

    def take_away(limits: dict[str, int]) -> None:
        if limit != "all" and limit not in limits:
            raise Failed(f"{noun} '{name}' has no limit '{limit}'; it has: {', '.join(limits) or 'none'}")
        for each in list(limits) if limit == "all" else [limit]:
            del limits[each]

    with asking(url) as client:
        _change(client, holder, take_away)
    say(f"{noun} '{name}' has no limits" if limit == "all" else f"{noun} '{name}' has no limit {limit}")
