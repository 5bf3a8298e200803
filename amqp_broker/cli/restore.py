"""`amqp-broker cluster restore`: of one folder of a cluster, a cluster of one node, under a new identity.

For a backup that all nodes are set back to, and for a majority that is lost for good: it is said by an operator that
what this folder holds is what there is. The logs of all groups end with a configuration of this node alone, and those
who were members beside it are none any more. A node without clients is run on the folder for that.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from amqp_broker.links.generation import FIRST, next_generation
from amqp_broker.links.members_file import KnownMembers, read_members, write_members
from amqp_broker.metadata import commands
from amqp_broker.metadata.stored_groups import StoredGroups
from amqp_broker.server.workers_file import folder_of, read_stored
from amqp_broker.settings.kinds import MemberAddress, parse_address
from amqp_broker.settings.workers import worker_name
from storage.disk import FileDisk
from storage.errors import StorageError
from storage.folder_format import FORMAT_FILE
from storage.inspect import inspect_folder

if TYPE_CHECKING:
    from amqp_broker.node import Node
    from amqp_broker.settings.config import Config
    from storage.disk import Disk


@click.command("restore")
@click.option("--data-dir", metavar="DIR", required=True, help="The folder that everything is to begin from.")
@click.option("--node-name", metavar="NAME", help="The node's name, if the folder does not say it.")
@click.option("--replace", "replaces", is_flag=True, help="Nodes of the old cluster end when they meet one of the new.")
def restore(data_dir: str, node_name: str | None, replaces: bool) -> None:
    """Make the folder DIR of a member a cluster of that node alone. The others join it anew, with empty folders.

    What the folder holds is what there is from then on: what only others had is lost, and classic queues that lived on
    them. Nodes of the old cluster and of the new refuse each other; with --replace those of the old end when they meet
    one of the new.
    """
    folder = Path(data_dir)
    if not (folder / FORMAT_FILE).is_file():
        raise click.ClickException(f"{folder}: no data folder of a broker")
    disk = FileDisk(folder)
    try:
        disk.lock()
        known = read_members(disk)
        name = node_name or (known.node if known is not None else "")
        if not name:
            raise click.ClickException(f"{folder}: it does not say whose it is; say so with --node-name")
        generation = known.generation if known is not None else FIRST
        others = go_on_alone(disk, folder, name, generation, int(time.time() * 1000), replaces=replaces)
    except (StorageError, OSError) as error:
        raise click.ClickException(str(error)) from error
    finally:
        disk.close()
    click.echo(f"{name} is all of the cluster{', without ' + ', '.join(others) if others else ''}.")
    click.echo("Start it with the flags that it had. The others come back with empty folders: amqp-broker cluster join")


def go_on_alone(
    disk: Disk, folder: Path, name: str, generation: int, now: int, *, replaces: bool = False
) -> list[str]:
    """generation: that of the cluster so far. now: ms. replaces: nodes of it end when they meet one of
    the new. Returns who was a member besides. Raises StorageError, OSError,
    ClickException for a folder from which no cluster can begin."""
    from amqp_broker.node import Node  # late: the other commands of the group need no broker
    from amqp_broker.settings.config import Config

    stored = StoredGroups()
    inspect_folder(disk, lambda segment, kind, payload: _take(stored, segment, kind, bytes(payload)))
    voters = sorted({voter for group in stored.describe() for voter in group.voters})
    if voters and name not in voters:
        raise click.ClickException(f"{folder}: {name} is no member of its groups, which have {', '.join(voters)}")
    groups = stored.group_ids()
    if not groups:
        raise click.ClickException(f"{folder}: it holds nothing of a cluster")
    workers = read_stored(folder).group_workers()
    config = Config(data_dir=folder, node_name=name, queue_groups=max(groups), group_workers=workers)
    for number in sorted({*workers} - {0}):
        _go_on_at_worker(config, number, now)
    node = Node(config, disk, now, secrets.token_bytes)
    node.go_on_alone()
    node.recover(now)
    broker, identity = node.broker, node.identity
    metadata = broker.metadata
    others = [member for member in metadata.members() if member != name]
    for member in others:
        last = broker.propose(commands.remove_member(member, queues=commands.DROP))
        while not last.is_done:
            _sync(node)
    address = metadata.members().get(name, "")
    if name in metadata.members():
        broker.propose(commands.put_member(name, address, identity.hex()))
    _sync(node)
    members = (MemberAddress(name, parse_address(address)),) if address else ()
    # Last: a folder that still has its groups must not tell the others of a cluster that is none yet.
    known = KnownMembers(name, members, joins=False, generation=next_generation(generation, now), replaces=replaces)
    write_members(disk, known)
    return others


def _go_on_at_worker(config: Config, number: int, now: int) -> None:
    """The same with the groups that another worker of the node has."""
    from amqp_broker.node import Node

    folder = folder_of(config.data_dir, number)
    disk = FileDisk(folder)
    disk.lock()
    try:
        of_worker = replace(
            config, node_name=worker_name(config.node_name, number), data_dir=folder, worker=number, worker_processes=2
        )
        node = Node(of_worker, disk, now, secrets.token_bytes)
        node.go_on_alone()
        node.recover(now)
        _sync(node)
    finally:
        disk.close()


def _take(stored: StoredGroups, segment: int, kind: int, payload: bytes) -> None:
    from raft.journal_records import FIRST_RAFT_KIND

    if kind >= FIRST_RAFT_KIND:
        stored.take(segment, kind, payload)


def _sync(node: Node) -> None:
    """A turn, and its sync."""
    clock = node.clock
    node.end_turn(clock.now)
    job = node.take_sync()
    if job is not None:
        job.run()
        node.synced(job, clock.now)
