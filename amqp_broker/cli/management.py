"""`amqp-broker management`: RabbitMQ's HTTP API and Prometheus' metrics, beside any node.

`amqp-broker serve` starts it by itself, with sockets that are bound already and the URL in the environment, where the
list of processes does not show it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from amqp_broker.cli.tls_options import add_tls_options, tls_context
from amqp_broker.client.address import parse_url
from amqp_broker.settings.kinds import ADDRESSES, Address, split_list

if TYPE_CHECKING:
    from amqp_broker.web.places import Places

DEFAULT_URL = "amqp://guest:guest@127.0.0.1:5672/%2F"
URL_VARIABLE = "AMQP_BROKER_MANAGEMENT_URL"


@click.command()
@click.option("--url", metavar="URL", help=f"The node, and a user with the tag administrator. [{DEFAULT_URL}]")
@add_tls_options
@click.option("--listen", default="127.0.0.1:15672", show_default=True, help="Addresses of the API, or off.")
@click.option(
    "--prometheus-listen", default="127.0.0.1:15692", show_default=True, help="Addresses of the metrics, or off."
)
@click.option("--sockets", default=None, hidden=True, help="Descriptors of sockets that take the place of --listen.")
@click.option("--prometheus-sockets", default=None, hidden=True, help="The same for --prometheus-listen.")
@click.option("--exit-with-parent", is_flag=True, hidden=True, help="Stop when standard input is at its end.")
@click.option(
    "--statistics-objects", type=click.IntRange(100, 10_000_000), default=50_000, show_default=True,
    help="Of so many queues, connections, channels and exchanges what they counted is remembered, for rates.",
)
@click.option(
    "--list-rows", type=click.IntRange(0, 10_000_000), default=100_000, show_default=True,
    help="Whole lists are given again for a second, so many rows of all of them together.",
)
@click.option(
    "--allowed-hosts", default="", metavar="NAME,...",
    help="Names by which a proxy or a browser asks over an address of this machine's own; * for any.",
)
@click.option("--log-level", default="info", show_default=True, help="debug, info, warning or error.")
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Of lines.")
def management(
    url: str | None,
    listen: str,
    prometheus_listen: str,
    sockets: str | None,
    prometheus_sockets: str | None,
    exit_with_parent: bool,
    statistics_objects: int,
    list_rows: int,
    allowed_hosts: str,
    log_level: str,
    log_format: str,
) -> int:
    """Serve RabbitMQ's HTTP API and Prometheus' metrics for a node.

    The URL may be in the environment, too (AMQP_BROKER_MANAGEMENT_URL), so that nobody sees its password.
    """
    try:
        from amqp_broker.web.places import Places
        from amqp_broker.web.process.main import run, start_logging
    except ImportError as error:
        raise click.ClickException(
            f"management needs packages that are not installed here ({error}): pip install 'warrenmq[management]'"
        ) from None
    address = url or os.environ.get(URL_VARIABLE) or DEFAULT_URL
    try:
        parse_url(address)
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    tls = tls_context(address)
    start_logging(log_level, log_format)
    allowed = tuple(split_list(allowed_hosts))
    if sockets is None:
        allowed += tuple(each.host for each in _addresses("--listen", listen))
        places = _bound(listen, prometheus_listen)
        for protocol, host, port in places.names():
            click.echo(f"{protocol} on http://{Address(host, port)}/", err=True)
    else:
        places = Places.inherited(sockets, prometheus_sockets or "")
    return run(
        address, places, ends_with_parent=exit_with_parent, statistics_objects=statistics_objects, list_rows=list_rows,
        tls=tls, allowed_hosts=allowed,
    )  # fmt: skip


def _bound(listen: str, prometheus_listen: str) -> Places:
    """Raises ClickException that names the address."""
    from amqp_broker.web.places import Places

    try:
        return Places.bound(_addresses("--listen", listen), _addresses("--prometheus-listen", prometheus_listen))
    except OSError as error:
        reason = error.strerror or error
        raise click.ClickException(f"{error.filename}: {reason}; choose another address, or stop who has it") from None


def _addresses(flag: str, text: str) -> tuple[Address, ...]:
    try:
        found = ADDRESSES.parse(text)
    except ValueError as error:
        raise click.ClickException(f"{flag}: {text!r} is not valid ({error}); write HOST:PORT, or off") from None
    assert isinstance(found, tuple)
    return found
