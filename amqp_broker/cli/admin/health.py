"""`amqp-broker health`: what a probe or a script asks of a node: a line for each check, and an exit status.

`alive`, by itself, needs no login: the node's loop greets whoever comes. It is what a restart can help against, and
nothing else is: alarms, a lost majority or a node that is drained are left out of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from amqp_broker.cli.admin.asking import add_url_options, asking, greeted
from amqp_broker.cli.cells import shown

if TYPE_CHECKING:
    from amqp_broker.protocol.json_values import JsonObject

STATUS_BAD = 1
_LISTED_QUEUES = 5
_QUORUM_CRITICAL = "quorum-critical"
_ALIVE = "alive"


def _alarms(said: JsonObject) -> str:
    return ", ".join(f"{alarm['resource']} on {alarm['node']}" for alarm in said["alarms"])


def _critical(said: JsonObject) -> str:
    queues = [f"'{each['name']}' in '{each['virtual_host']}'" for each in said["quorum_critical"]]
    if not queues:
        return ""
    listed = ", ".join(queues[:_LISTED_QUEUES]) + (", ..." if len(queues) > _LISTED_QUEUES else "")
    return f"one more node lost, and these stand still: {listed}"


#: By name: what is wrong, "" for nothing.
CHECKS: dict[str, Callable[[JsonObject], str]] = {
    "ready": lambda said: "" if said["ready"] or said["is_draining"] else "it does not know yet all that it has to",
    "draining": lambda said: "it is going away" if said["is_draining"] else "",
    "alarms": _alarms,
    "listeners": lambda said: "" if said["listeners"] else "nobody is listened to",
    "connection-limit": lambda said: "" if said["below_connection_limit"] else "no more connections are accepted",
    "leaders": lambda said: ", ".join(f"group {each} has no leader" for each in said["leaderless_groups"]),
    _QUORUM_CRITICAL: _critical,
    _ALIVE: lambda said: "",  # it has answered
}
#: Asked for by name: a cluster of two always is critical, and who answers the others is alive.
_BY_NAME = (_ALIVE, _QUORUM_CRITICAL)
USUAL = tuple(name for name in CHECKS if name not in _BY_NAME)


@click.command()
@click.option(
    "--check", "names", multiple=True, type=click.Choice(tuple(CHECKS)),
    help=f"Only this check; may be repeated; {_ALIVE} alone needs no login. [all but {' and '.join(_BY_NAME)}]",
)  # fmt: skip
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object: what is wrong, by check.")
@add_url_options
def health(names: tuple[str, ...], is_json: bool, url: str) -> int:
    """Check a node. Exit status 0: all is well; 1: something is not, or the node does not answer."""
    said: JsonObject = {}
    if set(names) == {_ALIVE}:
        greeted(url)
    else:
        with asking(url) as client:
            said = client.request("health")
    found = {name: CHECKS[name](said) for name in names or USUAL}
    if is_json:
        click.echo(json.dumps({"is_well": not any(found.values()), "checks": found}, indent=2))
    else:
        for name, wrong in found.items():
            click.echo(f"{name}: {shown(wrong) or 'ok'}")
    return STATUS_BAD if any(found.values()) else 0
