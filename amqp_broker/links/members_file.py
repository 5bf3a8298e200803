"""The MEMBERS file of a data folder: where the other members were last known to be.

The metadata have it too, but a node that starts reads those from its log only once it hears from a member. The file
tells it whom to call until then, and that it was made by `amqp-broker cluster join`.

Version 1 had neither `since` nor `identity`, version 2 no `generation`, version 3 no `replaces`; all are still read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from amqp_broker.settings.kinds import MemberAddress, parse_member
from storage.disk import Disk
from storage.errors import StorageError

MEMBERS_FILE = "MEMBERS"
_DRAFT = "MEMBERS.new"
_VERSION = 4
_EARLIER_VERSIONS = (1, 2, 3)
#: What a file is written as that says nothing which came with version 4: the version of the broker before reads it.
_PLAIN_VERSION = 3
_MAX_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class KnownMembers:
    """node: whose folder it is. members: all whose address is known. joins: the folder was made to be added to a
    cluster. since: what the cluster had applied of the metadata when it was added, 0 where that is not known. identity:
    of the folder, hexadecimal, if it was made with one. generation: of the cluster that it belongs to, which each
    `amqp-broker cluster restore` raises; 0 for one that was never restored. replaces: nodes of earlier generations end
    when they meet one of this."""

    node: str
    members: tuple[MemberAddress, ...]
    joins: bool
    since: int = 0
    identity: str = ""
    generation: int = 0
    replaces: bool = False


def read_members(disk: Disk) -> KnownMembers | None:
    """What the file says; None without one. Raises StorageError."""
    if not disk.exists(MEMBERS_FILE):
        return None
    try:
        contents = json.loads(disk.read(MEMBERS_FILE, 0, _MAX_BYTES))
        if contents["version"] not in (_VERSION, *_EARLIER_VERSIONS):
            raise ValueError(f"version {contents['version']!r} instead of {_VERSION}")
        members = tuple(map(parse_member, contents["members"]))
        since, identity = int(contents.get("since", 0)), str(contents.get("identity", ""))
        bytes.fromhex(identity)
        generation = int(contents.get("generation", 0))
        replaces = bool(contents.get("replaces", False))
        node, joins = str(contents["node"]), bool(contents["joins"])
        return KnownMembers(node, members, joins, since, identity, generation, replaces)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StorageError(
            f"{MEMBERS_FILE} in the data folder cannot be read ({error}): restore it from a copy, or write it anew "
            f"with the members that `amqp-broker cluster status` shows on another node"
        ) from None


def write_members(disk: Disk, known: KnownMembers) -> None:
    """Replace the file, durably. Raises OSError."""
    if disk.exists(_DRAFT):
        disk.remove(_DRAFT)
    members = [str(member) for member in known.members]
    contents = {
        "version": _VERSION if known.replaces else _PLAIN_VERSION,
        "node": known.node,
        "members": members,
        "joins": known.joins,
        "since": known.since,
        "identity": known.identity,
        "generation": known.generation,
        "replaces": known.replaces,
    }
    disk.append(_DRAFT, [json.dumps(contents).encode() + b"\n"])
    disk.sync(_DRAFT)
    disk.rename(_DRAFT, MEMBERS_FILE)
    disk.sync_folder("")
