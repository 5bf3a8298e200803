"""`amqp-broker cluster`: look at a cluster, change its members, say who leads; through any of its nodes.

`join` and `rejoin` do something here too: they make the data folder of the node. `restore` does all of it here.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from amqp_broker.cli.management import DEFAULT_URL, URL_VARIABLE
from amqp_broker.cli.restore import restore
from amqp_broker.cli.tls_options import add_tls_options, explain, tls_context
from amqp_broker.client.address import parse_url
from amqp_broker.client.errors import ClientError
from amqp_broker.links.generation import FIRST
from amqp_broker.links.members_file import KnownMembers, read_members, write_members
from amqp_broker.settings.cluster_config import ClusterConfig, read_secret
from amqp_broker.settings.kinds import NODE_NAME, NODE_NAME_RULE, Address, parse_address, parse_members
from amqp_broker.system_client import SystemClient, SystemRequestError
from raft.memory import IDENTITY_BYTES
from storage.disk import LOCK_FILE, FileDisk
from storage.errors import StorageError
from storage.folder_format import FORMAT_FILE

if TYPE_CHECKING:
    from amqp_broker.protocol.json_values import JsonObject

STATUS_UNSETTLED = 1
_LOOK_S = 0.1
_LISTED_QUEUES = 20
#: So long it is waited for the end of another change of members before a node is added, seconds.
ADDING_S = 30.0
#: What `rejoin` puts aside, once and again.
_ASIDE = re.compile(r"forgotten(-\d+)?")


@click.group()
def cluster() -> None:
    """Look at a cluster, change its members, say who leads."""


cluster.add_command(restore)


def _add_options(command: Callable[..., object]) -> Callable[..., object]:
    url = click.option(
        "--url",
        metavar="URL",
        envvar=URL_VARIABLE,
        default=DEFAULT_URL,
        help=f"Any node of the cluster, and an administrator; also from {URL_VARIABLE}. [{DEFAULT_URL}]",
    )
    as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
    return url(add_tls_options(as_json(command)))


_timeout = click.option(
    "--timeout", "timeout_s", metavar="SECONDS", type=float, default=30.0, help="How long to wait for it. [30]"
)


# -- looking -----------------------------------------------------------------------------------------------------------


@cluster.command("status")
@_add_options
def status_command(url: str, as_json: bool) -> int:
    """Show members, links, leaders and how far each is, as the node asked knows it.

    Exit status 1: a group has no leader, so what it holds stands still.
    """
    with _asking(url) as client:
        status = client.request("cluster.status")
    click.echo(json.dumps(status, indent=2) if as_json else "\n".join(render_status(status)))
    return 0 if all(row["leader"] is not None for row in status["groups"]) else STATUS_UNSETTLED


def render_status(status: JsonObject) -> list[str]:
    """The lines that a person reads."""
    lines = [f"cluster {status['cluster']}, as {status['node']} sees it", ""]
    if (upgrade := _upgrade_line(status)) is not None:
        lines += [upgrade, ""]
    # Where nobody is in one, or the node is of a version without, there is no column for racks.
    has_racks = any(row.get("rack") for row in status["members"])
    members = [
        (
            row["node"], row["address"] or "-", *([row.get("rack") or "-"] if has_racks else ()), _link_of(row),
            "leaving" if row["is_leaving"] else "",
        )
        for row in status["members"]
    ]  # fmt: skip
    lines += _table(("member", "address", *(("rack",) if has_racks else ()), "link", ""), members)
    lines.append("")
    lines += _table(
        ("group", "leader", "term", "committed", "applied here", "lag of the others", "voters", "learners", "queues"),
        [_group_row(row) for row in status["groups"]],
    )
    lines.append("")
    critical = [str(row["group"]) for row in status["groups"] if row["is_critical"]]
    if critical:
        lines.append(f"quorum-critical: groups {', '.join(critical)}: one more node lost, and they stand still")
        lines += [f"  {queue['vhost']}  {queue['name']}" for queue in status["critical_queues"][:_LISTED_QUEUES]]
        if status["critical_queue_count"] > _LISTED_QUEUES:
            lines.append(f"  and {status['critical_queue_count'] - _LISTED_QUEUES} queues more")
    elif len(status["members"]) == 1:
        lines.append("a node alone: what it holds is as safe as its disk")
    else:
        lines.append("quorum-critical: none")
    return lines


def _upgrade_line(status: JsonObject) -> str | None:
    """Of a cluster whose members could speak a later level than they do; a node of an older version says nothing of
    levels."""
    spoken = {row["node"]: row.get("speaks_level") for row in status["members"]}
    latest = max((each for each in spoken.values() if each is not None), default=0)
    behind = [name for name, each in spoken.items() if each is None or each < latest]
    if latest <= status.get("level", latest) or not behind:
        return None
    return (
        f"level {status['level']}, and {latest} once all members speak it, which {', '.join(behind)} "
        f"{'does' if len(behind) == 1 else 'do'} not: until then each can go back to the version before"
    )


def _link_of(row: JsonObject) -> str:
    if row["is_this_node"]:
        return "this node"
    return "up" if row["is_linked"] else "down"


def _group_row(row: JsonObject) -> tuple[str, ...]:
    lag = ", ".join(f"{name} {entries}" for name, entries in row["lag"].items())
    worker = f" (worker {row['worker']})" if row.get("worker") else ""
    return (
        f"{row['group']} {row['holds']}" if row["group"] == 0 else f"{row['group']}{worker}",
        row["leader"] or "none",
        str(row["term"]),
        str(row["commit_index"]),
        str(row["applied_index"]),
        lag or ("-" if row["role"] == "leader" else f"{row['leader']} knows" if row["leader"] else "-"),
        " ".join(row["voters"]),
        " ".join(row["learners"]) or "-",
        str(row["queues"]),
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in (head, *rows)
    ]


# -- members -----------------------------------------------------------------------------------------------------------


@cluster.command("add")
@click.argument("node", metavar="NODE=HOST:PORT")
@_add_options
def add_command(node: str, url: str, as_json: bool) -> None:
    """Make NODE a member, reached by the others at HOST:PORT.

    It learns what there is once it is started with --cluster-join, and has a vote when it has learned it.
    `amqp-broker cluster join` on the new machine does this and makes the folder too.
    """
    with _asking(url) as client:
        answer = client.request("cluster.add", node=node)
    name = node.partition("=")[0].strip()
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    click.echo(f"{name} is a member. Start it, with the cluster's secret, its own --listen and --data-dir:")
    click.echo(
        f"amqp-broker serve --node-name {name} --cluster-join --cluster {','.join(answer['members'])} "
        f"--cluster-listen {node.partition('=')[2].strip()} --cluster-secret-file FILE{_unusual(answer)}"
    )


@cluster.command("remove")
@click.argument("node", metavar="NODE")
@click.option("--drop-queues", is_flag=True, help="Even if classic queues live on it, which are gone with it.")
@_timeout
@_add_options
def remove_command(node: str, drop_queues: bool, timeout_s: float, url: str, as_json: bool) -> int:
    """Make NODE no member any more, whether it runs or not. It stops by itself if it runs."""
    with _asking(url) as client:
        answer = client.request("cluster.remove", node=node, drops_queues=drop_queues)
        is_done = _wait_for(client, _is_gone, timeout_s, node)
    return _tell(
        as_json, is_done, answer, f"{node} is no member any more", f"{node} is leaving, but some groups still have it"
    )


def _new_node(command: Callable[..., object]) -> Callable[..., object]:
    options = (
        click.option("--url", metavar="URL", required=True, help="Any node of the cluster."),
        click.option("--node-name", metavar="NAME", required=True, help="Name of the node."),
        click.option(
            "--cluster-listen", metavar="HOST:PORT", required=True, help="Where it listens to the other members."
        ),
        click.option("--address", metavar="HOST:PORT", help="Where they reach it, if that is another address."),
        click.option("--data-dir", metavar="DIR", required=True, help="Its folder, which is made if need be."),
        click.option("--cluster-secret-file", metavar="FILE", required=True, help="The cluster's secret."),
    )
    command = add_tls_options(command)
    for option in reversed(options):
        command = option(command)
    return command


@cluster.command("join")
@_new_node
def join_command(
    url: str, node_name: str, cluster_listen: str, address: str | None, data_dir: str, cluster_secret_file: str
) -> None:
    """Make a new node a member, and a folder for it that knows the others. `amqp-broker serve` then starts it."""
    if NODE_NAME.fullmatch(node_name) is None:
        raise click.UsageError(f"--node-name: '{node_name}' is not valid; allowed: {NODE_NAME_RULE}")
    reached = _reachable(address or cluster_listen)
    read_secret(Path(cluster_secret_file))
    disk = _new_folder(Path(data_dir), node_name)
    try:
        with _asking(url) as client:
            answer = _be_added(client, disk, node_name, reached)
    finally:
        disk.close()
    _tell_how_to_start(answer, node_name, data_dir, cluster_listen, cluster_secret_file)


@cluster.command("rejoin")
@_new_node
@click.option("--drop-queues", is_flag=True, help="Even if classic queues live on it, which are gone.")
@_timeout
def rejoin_command(
    url: str,
    node_name: str,
    cluster_listen: str,
    address: str | None,
    data_dir: str,
    cluster_secret_file: str,
    drop_queues: bool,
    timeout_s: float,
) -> None:
    """Bring back a member whose folder has forgotten what it had promised: it was emptied, or is an older copy.

    The node must not run. What its folder holds is set aside in DIR/forgotten. The node is removed and added again: it
    has a vote once it has learned what the others know. Refused unless those who remember are a majority.
    """
    reached = _reachable(address or cluster_listen)
    read_secret(Path(cluster_secret_file))
    disk = _locked_folder(Path(data_dir), node_name)
    try:
        with _asking(url) as client:
            members = [row["node"] for row in client.request("cluster.status")["members"]]
            if node_name in members:
                client.request("cluster.remove", node=node_name, drops_queues=drop_queues)
            if not _wait_for(client, _is_gone, timeout_s, node_name):
                raise click.ClickException(f"{node_name} is leaving, but some groups still have it; ask again")
            _set_aside(Path(data_dir))
            answer = _be_added(client, disk, node_name, reached)
    finally:
        disk.close()
    _tell_how_to_start(answer, node_name, data_dir, cluster_listen, cluster_secret_file)


def _may_be_added(status: JsonObject, node: str) -> bool:
    """Whether there is an answer to whether it may be, and not the advice to ask again."""
    is_member = any(row["node"] == node and not row["is_leaving"] for row in status["members"])
    return is_member or bool(status.get("has_left", True))


def _is_gone(status: JsonObject) -> bool:
    return bool(status.get("has_left"))


def _be_added(client: SystemClient, disk: FileDisk, node_name: str, reached: Address) -> JsonObject:
    """Make a node a member, and its folder know of it: whose it is, whom to call, and since when."""
    known = read_members(disk)
    identity = known.identity if known is not None and known.identity else secrets.token_hex(IDENTITY_BYTES)
    _wait_for(client, lambda status: _may_be_added(status, node_name), ADDING_S, node_name)
    # Before it is asked: should the answer be lost, whoever asks again does so for the same folder.
    write_members(disk, KnownMembers(node_name, (), joins=True, identity=identity))
    answer = client.request("cluster.add", node=f"{node_name}={reached}", identity=identity)
    members = parse_members(",".join(answer["members"]))
    since, generation = answer.get("index", 0), answer.get("generation", FIRST)
    replaces = bool(answer.get("replaces"))
    write_members(disk, KnownMembers(node_name, members, True, since, identity, generation, replaces))
    return answer


def _tell_how_to_start(
    answer: JsonObject, node_name: str, data_dir: str, cluster_listen: str, cluster_secret_file: str
) -> None:
    click.echo(f"{node_name} is a member of {answer['cluster']}. Start it:")
    click.echo(
        f"amqp-broker serve --node-name {node_name} --data-dir {data_dir} --cluster-listen {cluster_listen} "
        f"--cluster-secret-file {cluster_secret_file}{_unusual(answer)}"
    )


def _set_aside(folder: Path) -> None:
    """Everything in a folder goes into one of its own, but for what makes it a data folder."""
    kept = (FORMAT_FILE, LOCK_FILE)
    held = [entry for entry in sorted(folder.iterdir()) if entry.name not in kept and not _ASIDE.match(entry.name)]
    if held:
        count = sum(_ASIDE.match(entry.name) is not None for entry in folder.iterdir())
        aside = folder / (f"forgotten-{count + 1}" if count else "forgotten")
        aside.mkdir()
        for entry in held:
            entry.rename(aside / entry.name)
        click.echo(f"What {folder} held is in {aside}; delete that when {folder.name} is well again.")


def _locked_folder(folder: Path, node_name: str) -> FileDisk:
    """A folder, which may be new, that no node runs on and that is no other node's."""
    disk = FileDisk(folder)
    try:
        disk.lock()
        known = read_members(disk)
    except (StorageError, OSError) as error:
        disk.close()
        raise click.ClickException(str(error)) from error
    if known is not None and known.node != node_name:
        disk.close()
        raise click.ClickException(f"{folder}: it was made for node {known.node}; name a new folder")
    return disk


def _unusual(answer: JsonObject) -> str:
    """Flags for what has to be the same on every member, where it is not the default."""
    defaults = ClusterConfig()
    flags = ""
    if answer["queue_groups"] != defaults.queue_groups:
        flags += f" --queue-groups {answer['queue_groups']}"
    if answer["cluster"] != defaults.cluster_name:
        flags += f" --cluster-name {answer['cluster']}"
    return flags


def _reachable(text: str) -> Address:
    """An address that others can dial."""
    try:
        address = parse_address(text)
    except ValueError as error:
        raise click.UsageError(f"'{text}' is {error}") from None
    if not address.port or address.host in ("0.0.0.0", "::"):
        raise click.UsageError(f"'{text}' is no address that others can reach; name one with --address HOST:PORT")
    return address


def _new_folder(folder: Path, node_name: str) -> FileDisk:
    """A locked folder that nothing has been stored in. The command may be repeated until the node was started."""
    if (folder / FORMAT_FILE).exists() and (folder / "journal").exists():
        raise click.ClickException(f"{folder}: a node was started on it already; name a new folder")
    return _locked_folder(folder, node_name)


# -- leaders -----------------------------------------------------------------------------------------------------------


@cluster.command("transfer")
@click.argument("queue", metavar="QUEUE")
@click.argument("node", metavar="NODE")
@click.option("--vhost", metavar="NAME", help="The queue's virtual host. [the URL's]")
@_timeout
@_add_options
def transfer_command(queue: str, node: str, vhost: str | None, timeout_s: float, url: str, as_json: bool) -> int:
    """Have NODE lead the group that the quorum queue QUEUE is in (with all other queues of the group)."""
    with _asking(url) as client:
        place = vhost if vhost is not None else parse_url(url).virtual_host
        answer = client.request("cluster.transfer", vhost=place, queue=queue, node=node)
        is_done = _wait_for(client, lambda status: _leads(status, {answer["group"]: node}), timeout_s)
    what = f"group {answer['group']}, which {queue} is in"
    return _tell(as_json, is_done, answer, f"{node} leads {what}", f"{node} was asked to lead {what}, and does not yet")


@cluster.command("rebalance")
@_timeout
@_add_options
def rebalance_command(timeout_s: float, url: str, as_json: bool) -> int:
    """Spread the leaders of the groups evenly over the members that are linked."""
    with _asking(url) as client:
        answer = client.request("cluster.rebalance")
        wanted = {move["group"]: move["to"] for move in answer["moves"]}
        is_done = _wait_for(client, lambda status: _leads(status, wanted), timeout_s)
    moves = [f"group {move['group']} from {move['from']} to {move['to']}" for move in answer["moves"]]
    text = "; ".join(moves) or "nothing to do: the leaders are spread"
    return _tell(as_json, is_done, answer, text, f"not all of it has happened: {text}")


def _leads(status: JsonObject, wanted: dict[int, str]) -> bool:
    return all(row["leader"] == wanted[row["group"]] for row in status["groups"] if row["group"] in wanted)


# -- asking ------------------------------------------------------------------------------------------------------------


def _wait_for(
    client: SystemClient, condition: Callable[[JsonObject], bool], timeout_s: float, node: str | None = None
) -> bool:
    """Ask for the status, with regard to a node, until the condition holds. False: it did not in time, or the node
    asked has stopped."""
    deadline = time.monotonic() + timeout_s
    try:
        while not condition(client.request("cluster.status", **({} if node is None else {"node": node}))):
            if time.monotonic() >= deadline:
                return False
            time.sleep(_LOOK_S)
    except ClientError:
        return False
    return True


def _tell(as_json: bool, is_done: bool, answer: JsonObject, done: str, pending: str) -> int:
    """Print what has become of it; returns the exit status."""
    if as_json:
        click.echo(json.dumps({**answer, "is_done": is_done}, indent=2))
    else:
        click.echo(done if is_done else f"{pending}; `amqp-broker cluster status` shows it")
    return 0 if is_done else STATUS_UNSETTLED


@contextmanager
def _asking(url: str) -> Iterator[SystemClient]:
    """A connection to a node; what may go wrong becomes one line for the user."""
    try:
        parse_url(url)
    except ValueError as error:
        raise click.UsageError(f"--url: {error}") from error
    try:
        with SystemClient(url, tls_context(url)) as client:
            yield client
    except (ClientError, SystemRequestError, OSError) as error:
        raise click.ClickException(explain(error, url)) from error
