"""`amqp-broker user`: who may log in, with which password, and what for (tags)."""

from __future__ import annotations

import click

from amqp_broker.cli.admin.asking import add_url_options, asking, say, told_by_its_end
from amqp_broker.cli.admin.listing import list_command
from amqp_broker.cli.admin.passwords import add_password_options, read_password
from amqp_broker.cli.failed import Failed
from amqp_broker.client.address import parse_url
from amqp_broker.system_client import SystemClient, SystemRequestError


@click.group()
def user() -> None:
    """Add, change and delete users."""


user.add_command(list_command("users"), "list")


@user.command("add")
@click.argument("name")
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="administrator, monitoring, ...; may be repeated.")
@click.option("--no-password", is_flag=True, help="Who comes with a certificate needs none.")
@add_password_options
@add_url_options
def add_command(
    name: str, tags: tuple[str, ...], no_password: bool, password_stdin: bool, password_file: str | None, url: str
) -> None:
    """Make the user NAME. The password is asked for, unless an option says where it is."""
    if no_password and (password_stdin or password_file is not None):
        raise click.UsageError("--no-password excludes --password-stdin and --password-file: leave one of them out")
    with asking(url) as client:
        if _is_there(client, name):
            raise Failed(f"user '{name}' is there already; `amqp-broker user password` gives another password")
        password = "" if no_password else read_password(name, password_stdin, password_file)
        given = {} if no_password else {"password": password}
        client.request("user.put", name=name, tags=list(tags), **given)
    say(f"user '{name}' is made; `amqp-broker permission set` lets them into a virtual host")


def _is_there(client: SystemClient, name: str) -> bool:
    try:
        client.request("object", kind="users", name=name)
    except SystemRequestError as error:
        if error.code == "not_found":
            return False
        raise
    return True


@user.command("password")
@click.argument("name")
@add_password_options
@add_url_options
def password_command(name: str, password_stdin: bool, password_file: str | None, url: str) -> None:
    """Give the user NAME another password. It counts from the next login on."""
    with asking(url) as client:
        client.request("object", kind="users", name=name)  # user.put would make one
        client.request("user.put", name=name, password=read_password(name, password_stdin, password_file))
    say(f"user '{name}' has a new password")


@user.command("own-password")
@add_password_options
@add_url_options
def own_password_command(password_stdin: bool, password_file: str | None, url: str) -> None:
    """Change one's own password: whose it is, and the old one, stand in --url."""
    with asking(url) as client:
        own = parse_url(url)
        password = read_password(own.user, password_stdin, password_file)
        client.request("password.change", old_password=own.password, password=password)
    say(f"user '{own.user}' has a new password")


@user.command("tags")
@click.argument("name")
@click.argument("tags", metavar="[TAG]...", nargs=-1)
@add_url_options
def tags_command(name: str, tags: tuple[str, ...], url: str) -> None:
    """Give the user NAME these tags instead of those they have; none, to take all away."""
    with asking(url) as client:
        client.request("object", kind="users", name=name)  # user.put would make one
        client.request("user.put", name=name, tags=list(tags))
    say(f"user '{name}' has the tags {', '.join(tags)}" if tags else f"user '{name}' has no tags")


@user.command("check")
@click.argument("name")
@add_password_options
@add_url_options
def check_command(name: str, password_stdin: bool, password_file: str | None, url: str) -> None:
    """Say whether the user NAME could log in with a password. It counts like a login of this machine."""
    with asking(url) as client:
        password = read_password(name, password_stdin, password_file, is_new=False)
        client.request("login", user=name, password=password, host="127.0.0.1")
    say(f"user '{name}' may log in with this password")


@user.command("delete")
@click.argument("name")
@add_url_options
def delete_command(name: str, url: str) -> None:
    """Delete the user NAME, with all permissions. Their connections are closed."""
    with asking(url) as client, told_by_its_end(f"user '{name}' is deleted"):
        client.request("user.delete", name=name)
    say(f"user '{name}' is deleted")
