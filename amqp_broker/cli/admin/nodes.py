"""`amqp-broker node`: a node lets go of its work before it is stopped, and takes it up again; whether it can be."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import click

from amqp_broker.cli.admin.asking import add_url_options, asking
from amqp_broker.cli.cells import shown

if TYPE_CHECKING:
    from amqp_broker.protocol.json_values import JsonObject

STATUS_NOT_SAFE = 1
_LOOK_S = 0.5
_LISTED_QUEUES = 5


@click.group()
def node() -> None:
    """Drain a node before it is stopped, revive it, ask whether it can be stopped."""


_name = click.argument("name", metavar="[NODE]", required=False)
_wait = click.option("--wait", "wait_s", metavar="SECONDS", type=click.FloatRange(0), default=0.0, help="Wait for it.")
_json = click.option("--json", "is_json", is_flag=True, help="Print one JSON object.")


@node.command("drain")
@_name
@click.option("--pace", metavar="N", type=click.IntRange(1), help="Connections closed in a second. [drain_pace]")
@_wait
@_json
@add_url_options
def drain(name: str | None, pace: int | None, wait_s: float, is_json: bool, url: str) -> int:
    """Have a node lead nothing and part from its clients.

    Without NODE it is the one that is asked. --wait waits until it has none and can be stopped. Exit status 1: not
    yet.
    """
    fields: JsonObject = {} if pace is None else {"pace": pace}
    return _ask("node.drain", name, fields, wait_s, is_json, url, is_empty=True)


@node.command("revive")
@_name
@_json
@add_url_options
def revive(name: str | None, is_json: bool, url: str) -> int:
    """Have a drained node let clients in again, and lead."""
    _ask("node.revive", name, {}, 0.0, is_json, url)
    return 0


@node.command("guard")
@_name
@_wait
@_json
@add_url_options
def guard(name: str | None, wait_s: float, is_json: bool, url: str) -> int:
    """Say whether a node can be stopped: what would stand still, and who lags behind.

    --wait waits until it can. Exit status 1: it cannot.
    """
    return _ask("node.guard", name, {}, wait_s, is_json, url)


def _ask(
    verb: str, name: str | None, fields: JsonObject, wait_s: float, is_json: bool, url: str, *, is_empty: bool = False
) -> int:
    """is_empty: it is waited for until nothing is left to be closed or led."""
    which = {} if name is None else {"node": name}
    with asking(url) as client:
        said = client.request(verb, **which, **fields)
        until = time.monotonic() + wait_s
        while not _is_over(said, is_empty) and time.monotonic() < until:
            time.sleep(_LOOK_S)
            said = client.request("node.guard", **which)
    said.pop("ok", None)
    click.echo(json.dumps(said, indent=2) if is_json else "\n".join(_lines(said)))
    return 0 if _is_over(said, is_empty) else STATUS_NOT_SAFE


def _is_over(said: JsonObject, is_empty: bool) -> bool:
    """A worker that has started again since is not drained, and has clients soon, if it has none now."""
    is_empty_now = not (said["connections"] or said["leads"] or said.get("workers_in_service"))
    return bool(said["is_safe"] and (is_empty_now or not is_empty))


def _lines(said: JsonObject) -> list[str]:
    lines = [
        f"node {said['node']}: {'drained' if said['is_draining'] else 'in service'}, "
        f"{'can be stopped' if said['is_safe'] else 'cannot be stopped'}",
        f"leads {said['leads']} groups, has {said['connections']} connections of clients",
    ]
    if said.get("silent_workers"):
        lines.append(f"{', '.join(said['silent_workers'])} does not answer: what is there is not known; ask again")
    if said.get("workers_in_service"):
        names = ", ".join(said["workers_in_service"])
        lines.append(f"{names} is in service, unlike the others: say `amqp-broker node drain` again, or revive")
    if said["critical_groups"]:
        queues = [f"'{each['name']}' in '{each['vhost']}'" for each in said["critical_queues"]]
        listed = ", ".join(queues[:_LISTED_QUEUES]) + (", ..." if len(queues) > _LISTED_QUEUES else "")
        groups = ", ".join(map(str, said["critical_groups"]))
        lines.append(f"without it groups {groups} have no majority{shown(f': {listed}') if listed else ''}")
    if said["lag"]:
        groups = ", ".join(map(str, said.get("lagging_groups", ())))
        lines.append(f"members of groups {groups} that a majority needs then lag {said['lag']} entries behind")
    if said.get("leaderless_groups"):
        lines.append(f"groups {', '.join(map(str, said['leaderless_groups']))} have no leader now")
    away = [f"{said['classic_queues']} durable classic queues live there"] if said["classic_queues"] else []
    if said.get("only_copies"):
        away.append(f"{said['only_copies']} quorum queues and streams have no other copy")
    if away:
        lines.append(f"{' and '.join(away)}: they are away with it")
    return lines
