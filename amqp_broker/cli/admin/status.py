"""`amqp-broker status`: what a node says of itself."""

from __future__ import annotations

import json
import sys

import click

from amqp_broker.cli.admin.asking import add_url_options, asking
from amqp_broker.cli.cells import for_people, for_programs

#: Of the answer, what is not about the node, and what would take too much of the screen.
_LEFT_OUT = ("ok", "at", "exchange_types", "auth_mechanisms", "listeners", "nodes", "stale", "memory_budget")


@click.command()
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object, with all that the node says.")
@add_url_options
def status(is_json: bool, url: str) -> None:
    """Show what a node is, where it listens, its limits and alarms."""
    with asking(url) as client:
        said = client.request("node")
    if is_json:
        click.echo(json.dumps(said, indent=2))
        return
    is_terminal = sys.stdout.isatty()
    for name, value in said.items():
        if name not in _LEFT_OUT:
            click.echo(f"{name}: {for_people(name, value, said['at']) if is_terminal else for_programs(value)}")
    for each in said["listeners"]:
        place = f"{each['ip_address']} port {each['port']}"
        click.echo(f"listener: {each['protocol']} on {place}{' with TLS' if each['tls'] else ''}")
