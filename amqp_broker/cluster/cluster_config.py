"""ClusterConfig: the settings of a node that is one of several, declared as those of `Config` are.

It knows no sockets. It reads one file, the secret, and only when asked.

Invariants:
1. A ClusterConfig that exists is valid: the constructor checks bounds and the rules between fields, and raises
   ConfigError, which names the key, the value and the way out.
2. The secret itself is no setting: only the name of its file is, so it shows nowhere.
"""
# ruff: noqa: RUF009  # `setting` makes a dataclasses.field

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NamedTuple

from amqp_broker.config import KIB, MIB, SECOND, default_node_name
from amqp_broker.setting import ConfigError, Setting, setting, setting_of
from amqp_broker.setting_kinds import (
    ADDRESSES,
    COUNT,
    DURATION,
    FILE,
    SIZE,
    TEXT,
    Address,
    Kind,
    parse_address,
    split_list,
)

CLUSTER = "Cluster"
MIN_SECRET_BYTES = 32
MAX_SECRET_BYTES = 4096
MAX_MEMBERS = 255  # of one sort, in the configuration of a Raft group

#: It is written on command lines, in lists, logs and certificates.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,127}")
_NAME_RULE = "1 to 128 letters, digits and ._@- that begin with a letter or digit"
#: Silence that long is at least so many pings that did not come.
_PINGS = 2


class MemberAddress(NamedTuple):
    """A node of the cluster, and where the others reach it."""

    name: str
    address: Address

    def __str__(self) -> str:
        return f"{self.name}={self.address}"


def parse_members(text: str) -> tuple[MemberAddress, ...]:
    """Members from "n1=HOST:PORT,n2=HOST:PORT", in the order of their names. Raises ValueError."""
    members = []
    for part in split_list(text):
        name, equals, address = part.partition("=")
        if not equals or _NAME.fullmatch(name.strip()) is None:
            raise ValueError("not NAME=HOST:PORT")
        members.append(MemberAddress(name.strip(), parse_address(address)))
    return tuple(sorted(members))


def _show_members(value: object) -> str:
    if not isinstance(value, tuple):
        raise TypeError(f"{value!r} is not a tuple")
    return ",".join(str(part) for part in value)


MEMBERS = Kind(
    "members",
    "NAME=HOST:PORT",
    "NAME=HOST:PORT, with an IPv6 host in brackets, several with commas",
    parse_members,
    _show_members,
    is_list=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """Everything that can be set about the links between nodes. Numbers are octets, milliseconds or counts."""

    node_name: str = setting(
        TEXT,
        default_node_name,
        CLUSTER,
        "Name of this node: the other members know it by this, and it must never change.",
        default_text="amqp-broker@ and the host's name",
    )
    cluster_name: str = setting(
        TEXT, "amqp-broker", CLUSTER, "Name of the cluster, the same on every member; no other cluster is talked to."
    )
    cluster_listen: tuple[Address, ...] = setting(
        ADDRESSES, (), CLUSTER, "Addresses for the other members. Port 0 takes a free one. Empty: none."
    )
    cluster: tuple[MemberAddress, ...] = setting(
        MEMBERS,
        (),
        CLUSTER,
        "All members, this node too, each with the address where the others reach it. Empty: a cluster of one.",
    )
    cluster_secret_file: Path | None = setting(
        FILE, None, CLUSTER, "A file with the secret that all members share, readable by its owner only."
    )
    cluster_cert: Path | None = setting(
        FILE, None, CLUSTER, "This node's certificate chain for links between nodes, PEM; it has the node's name."
    )
    cluster_key: Path | None = setting(FILE, None, CLUSTER, "Its private key, PEM.")
    cluster_ca: Path | None = setting(FILE, None, CLUSTER, "The authorities whose nodes are accepted, PEM.")
    cluster_frame_max_bytes: int = setting(
        SIZE,
        192 * MIB,
        CLUSTER,
        "Largest frame between nodes, the same on every member; it holds at least one message of the largest size.",
        minimum=64 * KIB,
        maximum=1024 * MIB,
    )
    peer_buffer_limit_bytes: int = setting(
        SIZE,
        256 * MIB,
        CLUSTER,
        "Unsent output for one member at which the link to it is dropped; it catches up later.",
        minimum=64 * KIB,
    )
    peer_ping_ms: int = setting(
        DURATION, 500, CLUSTER, "A link on which nothing was sent for so long carries a ping.", minimum=10
    )
    peer_timeout_ms: int = setting(
        DURATION, 3 * SECOND, CLUSTER, "A link on which nothing has come for so long is dropped.", minimum=20
    )
    peer_handshake_timeout_ms: int = setting(
        DURATION, 2 * SECOND, CLUSTER, "From dialling or accepting to an open link; later ones are dropped.", minimum=10
    )
    max_pending_peers: int = setting(
        COUNT,
        64,
        CLUSTER,
        "Links accepted that have not proved who they are; the oldest is dropped when one more comes.",
        minimum=1,
    )

    def __post_init__(self) -> None:
        for each in CLUSTER_SETTINGS:
            each.check(getattr(self, each.attribute))
        self._check_members()
        self._check_credentials()
        if self.peer_timeout_ms < _PINGS * self.peer_ping_ms:
            raise self._refuse("peer_timeout", f"at least twice peer_ping, which is {self._shown('peer_ping')}")
        if self.peer_buffer_limit_bytes < self.cluster_frame_max_bytes:
            raise self._refuse(
                "peer_buffer_limit", f"at least cluster_frame_max, which is {self._shown('cluster_frame_max')}"
            )

    @property
    def others(self) -> dict[str, Address]:
        """The addresses of the other members by name, in the order of the names."""
        return {name: address for name, address in self.cluster if name != self.node_name}

    def _check_members(self) -> None:
        if _NAME.fullmatch(self.node_name) is None:
            raise self._refuse("node_name", _NAME_RULE)
        names = [member.name for member in self.cluster]
        addresses = [member.address for member in self.cluster]
        if len(set(names)) != len(names) or len(set(addresses)) != len(addresses):
            raise self._refuse("cluster", "each name and each address once")
        if len(names) > MAX_MEMBERS:
            raise self._refuse("cluster", f"at most {MAX_MEMBERS} members")
        if any(address.port == 0 for address in addresses):
            raise self._refuse("cluster", "the ports that the members listen on, not 0")
        if names and self.node_name not in names:
            raise self._refuse(
                "cluster", f"a list with this node, {self.node_name}, in it; add it, or correct node_name"
            )
        if self.others and not self.cluster_listen:
            raise self._refuse("cluster", "only together with cluster_listen, where the other members come in; set it")

    def _check_credentials(self) -> None:
        if (self.others or self.cluster_listen) and self.cluster_secret_file is None:
            key = "cluster" if self.others else "cluster_listen"
            raise self._refuse(
                key,
                "only together with cluster_secret_file, a file of mode 600 that is the same on every member; "
                "`openssl rand -hex 32` writes one",
            )
        files = {"cluster_cert": self.cluster_cert, "cluster_key": self.cluster_key, "cluster_ca": self.cluster_ca}
        missing = [key for key, file in files.items() if file is None]
        if missing and len(missing) < len(files):
            given = next(key for key in files if key not in missing)
            raise self._refuse(given, f"only together with {' and '.join(missing)}; set all three, or none")

    def _shown(self, key: str) -> str:
        each = CLUSTER_SETTINGS_BY_KEY[key]
        return each.show(getattr(self, each.attribute))

    def _refuse(self, key: str, allowed: str) -> ConfigError:
        return ConfigError(f"{key}: {self._shown(key)!r} is not valid; allowed: {allowed}")


CLUSTER_SETTINGS: tuple[Setting, ...] = tuple(setting_of(field) for field in fields(ClusterConfig))
CLUSTER_SETTINGS_BY_KEY: dict[str, Setting] = {each.key: each for each in CLUSTER_SETTINGS}


def read_secret(path: Path) -> bytes:
    """The secret in a file, without white space around it. Raises ConfigError.

    As ssh does with keys: a file of our own that others may read is refused; who owns it otherwise is trusted.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # to open a pipe could wait for ever
            raise _refuse_secret(path, "a file, not a folder, pipe or device")
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            secret = file.read(MAX_SECRET_BYTES + 1).strip()
    except OSError as error:
        allowed = f"a file that can be read ({error.strerror}); correct the path or the owner"
        raise _refuse_secret(path, allowed) from None
    if status.st_uid == os.getuid() and status.st_mode & 0o077:
        mode = stat.S_IMODE(status.st_mode)
        raise _refuse_secret(path, f"mode 600, and it has {mode:03o}, so that others can use it: `chmod 600 {path}`")
    if not MIN_SECRET_BYTES <= len(secret) <= MAX_SECRET_BYTES:
        raise _refuse_secret(
            path,
            f"{MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} octets of text that nobody can guess; "
            f"`openssl rand -hex 32` writes one",
        )
    return secret


def _refuse_secret(path: Path, allowed: str) -> ConfigError:
    return ConfigError(f"cluster_secret_file: '{path}' is not valid; allowed: {allowed}")
