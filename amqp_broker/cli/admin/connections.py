"""`amqp-broker connection`: connections of clients are closed."""

from __future__ import annotations

import click

from amqp_broker.cli.admin.asking import add_url_options, asking, say, told_by_its_end
from amqp_broker.cli.admin.listing import list_command

#: What the broker says where nobody gives a reason.
_REASON = "Closed via"


@click.group()
def connection() -> None:
    """Close connections."""


connection.add_command(list_command("connections"), "list")


@connection.command("close")
@click.argument("name", required=False)
@click.option("--user", metavar="NAME", help="All connections of this user.")
@click.option("--reason", metavar="TEXT", default="", help="What the client is told, with 320.")
@add_url_options
def close_command(name: str | None, user: str | None, reason: str, url: str) -> None:
    """Close the connection NAME, as `amqp-broker connection list` shows it, or all of a user."""
    if (name is None) == (user is None):
        raise click.UsageError("name one connection, or a user with --user")
    chosen = {"user": user} if name is None else {"name": name}
    said = f"connection '{name}' is closed"
    if user is not None:
        said = f"connections of user '{user}' are closed, this command's, too"
    with asking(url) as client, told_by_its_end(reason or _REASON):
        if user is not None:
            client.request("object", kind="users", name=user)
        closed = client.request("connection.close", reason=reason, **chosen)["closed"]
        if user is not None:
            said = f"connections of user '{user}' closed: {closed}"
    say(said)
