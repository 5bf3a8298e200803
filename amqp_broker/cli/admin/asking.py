"""Whom a command asks, and what is said where the answer is no: a connection for verbs, or one for AMQP's own methods.

Every failure is one line with the way out, and exit status 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

import click

from amqp_broker.cli.cells import shown
from amqp_broker.cli.failed import Failed
from amqp_broker.cli.management import DEFAULT_URL, URL_VARIABLE
from amqp_broker.cli.tls_options import add_tls_options, explain, tls_context
from amqp_broker.client.address import Address, parse_url
from amqp_broker.client.connection import Connection
from amqp_broker.client.errors import ChannelClosed, ClientError, ConnectFailed, ConnectionClosed
from amqp_broker.protocol.constants import ReplyCode
from amqp_broker.system_client import SystemClient, SystemRequestError

if TYPE_CHECKING:
    from amqp_broker.client.channel import Channel

#: A refusal of the service begins with what was asked, which nobody has typed.
_VERB = re.compile(r"^[a-z_]+(\.[a-z_]+)?: ")
_MISSING = re.compile(r"\bno ([a-z ]+) '")
#: So much of a text is left whole in what the broker closes a connection with.
_TOLD_CHARACTERS: Final = 50
C = TypeVar("C", bound=Callable[..., object])

#: By what the broker calls one of a kind: the list that has them.
_LISTS = {
    "queue": "queues", "exchange": "exchanges", "binding": "bindings", "vhost": "vhosts", "user": "users",
    "connection": "connections", "consumer": "consumers", "policy": "policies", "operator policy": "operator-policies",
    "permission": "permissions", "topic permission": "topic-permissions", "parameter": "parameters",
    "global parameter": "global-parameters",
}  # fmt: skip


def add_url_options(command: C) -> C:
    """Give a command --url and how it speaks TLS."""
    option = click.option(
        "--url",
        metavar="URL",
        envvar=URL_VARIABLE,
        default=DEFAULT_URL,
        help=f"Any node, and who asks; also from {URL_VARIABLE}, where nobody sees the password. [{DEFAULT_URL}]",
    )
    return option(add_tls_options(command))


vhost_option = click.option("--vhost", metavar="NAME", help="The virtual host. [the URL's]")


def say(text: str) -> None:
    """What has been done, for people."""
    click.echo(shown(text))


def vhost_of(url: str, vhost: str | None) -> str:
    """The virtual host that a command is about."""
    return vhost if vhost is not None else _checked(url).virtual_host


@contextmanager
def asking(url: str, vhost: str | None = None) -> Iterator[SystemClient]:
    """A connection for verbs; in a virtual host of its own for those that are about the connection's."""
    _checked(url)
    with _told_in_one_line(url), SystemClient(url, tls_context(url), virtual_host=vhost) as client:
        yield client


@contextmanager
def told_by_its_end(text: str) -> Iterator[None]:
    """Around a request that may end the connection which it goes over, by a close that has this text: whoever is told
    so knows that it was carried out."""
    try:
        yield
    except ConnectionClosed as error:
        said = error.reply_text.partition(" - ")[2]
        if error.reply_code != ReplyCode.CONNECTION_FORCED or not said.startswith(text[:_TOLD_CHARACTERS]):
            raise


def greeted(url: str) -> None:
    """Without a login: the broker answers whoever comes."""
    _checked(url)
    with _told_in_one_line(url):
        Connection.greet(url, ssl_context=tls_context(url))


@contextmanager
def speaking(url: str, vhost: str | None) -> Iterator[Channel]:
    """A channel in a virtual host (None: the URL's), for what AMQP has methods for."""
    _checked(url)
    with (
        _told_in_one_line(url),
        Connection.open(url, ssl_context=tls_context(url), name="amqp-broker command", virtual_host=vhost) as opened,
    ):
        yield opened.channel()


@contextmanager
def connected(url: str, vhost: str) -> Iterator[tuple[Connection, str]]:
    """A connection in a virtual host, and as whom."""
    address = _checked(url)
    with (
        _told_in_one_line(url),
        Connection.open(url, ssl_context=tls_context(url), name="amqp-broker command", virtual_host=vhost) as opened,
    ):
        yield opened, address.user


def _checked(url: str) -> Address:
    try:
        return parse_url(url)
    except ValueError as error:
        raise click.UsageError(f"--url: {error}") from error


@contextmanager
def _told_in_one_line(url: str) -> Iterator[None]:
    try:
        yield
    except SystemRequestError as error:
        raise Failed(f"{_VERB.sub('', error.text)}{_way_out(error)}") from error
    except ChannelClosed as error:
        raise Failed(f"{error.reply_text}{_list_for(error.reply_text)}") from error
    except ConnectFailed as error:
        text = explain(error, url)
        way_out = "; --url says where the broker is, who asks, and the virtual host" if text == str(error) else ""
        raise Failed(f"{text}{way_out}") from error
    except (ClientError, OSError) as error:
        raise Failed(explain(error, url)) from error


def _way_out(error: SystemRequestError) -> str:
    if error.code == "not_authorised" and error.answer.get("reason") != "Not_Authorized":
        return "; name a user who may in --url"
    return _list_for(f"no {error.kind} '") if error.code == "not_found" else ""


def _list_for(text: str) -> str:
    """Where to look, if the text is about something that is not there."""
    missing = _MISSING.search(text)
    known = _LISTS.get(missing[1]) if missing is not None else None
    return f"; `amqp-broker list {known}` shows which there are" if known is not None else ""
