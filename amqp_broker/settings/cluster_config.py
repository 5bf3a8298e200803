"""ClusterConfig: the settings of a node as one of several. `Config` has them too: it is a ClusterConfig.

It knows no sockets. It reads one file, the secret, and only when asked.

Invariants:
1. A ClusterConfig that exists is valid: the constructor checks bounds and the rules between fields, and raises
   ConfigError, which names the key, the value and the way out.
2. The secret itself is no setting: only the name of its file is, so it shows nowhere.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from amqp_broker.settings.kinds import (
    ADDRESSES,
    BOOLEAN,
    COUNT,
    DURATION,
    FILE,
    KIB,
    MEMBERS,
    MIB,
    NODE_NAME,
    NODE_NAME_RULE,
    RACK,
    SECOND,
    SIZE,
    TEXT,
    Address,
    MemberAddress,
)
from amqp_broker.settings.setting import ConfigError, Setting, setting, setting_of

if TYPE_CHECKING:
    from raft.settings import RaftSettings

CLUSTER = "Cluster"
REPLICATION = "Replication"
MIN_SECRET_BYTES = 32
MAX_SECRET_BYTES = 4096
MAX_MEMBERS = 255  # of one sort, in the configuration of a Raft group

#: What a frame between nodes holds besides an entry of a log, octets, generously.
FRAME_ROOM_BYTES = 4 * KIB
#: However little memory there is for the logs of all groups together, each may have so much if it is set to.
_LOG_LEAST_BYTES = 1 * MIB
#: Silence that long is at least so many pings that did not come.
_PINGS = 2
#: A leader is heard of so often at least before a follower looks for another one.
_HEARTBEATS = 2


def default_node_name() -> str:
    return f"amqp-broker@{os.uname().nodename}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """Everything that can be set about a node's part in a cluster. Numbers are octets, milliseconds or counts."""

    node_name: str = setting(
        TEXT,
        default_node_name,
        CLUSTER,
        "Name of this node: the other members know it by this, and it must never change.",
        default_text="amqp-broker@ and the host's name",
    )
    cluster_name: str = setting(
        TEXT,
        "amqp-broker",
        CLUSTER,
        "Name of the cluster, the same on every member; no other cluster is talked to. Clients are told the one that "
        "somebody has given it since (PUT /api/cluster-name).",
    )
    cluster_listen: tuple[Address, ...] = setting(
        ADDRESSES, (), CLUSTER, "Addresses for the other members. Port 0 takes a free one. Empty: none."
    )
    cluster: tuple[MemberAddress, ...] = setting(
        MEMBERS,
        (),
        CLUSTER,
        "Members, this node too, each with the address where this node reaches it. The first start makes a cluster of "
        "them; later it counts for the addresses only. Empty: those that the node knows, at first itself alone.",
    )
    cluster_join: bool = setting(
        BOOLEAN,
        False,
        CLUSTER,
        "At its first start the node waits to be added to the cluster of the others, instead of making one with them.",
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

    queue_groups: int = setting(
        COUNT,
        8,
        REPLICATION,
        "Groups over which quorum queues and streams are spread, each with a leader of its own; the same on every "
        "member, always.",
        minimum=1,
        maximum=1024,
    )
    quorum_size: int = setting(
        COUNT,
        0,
        REPLICATION,
        "On how many nodes each group of quorum queues and streams is; 0: on all. Who leads the metadata places groups "
        "that have no list of members yet, once there are more nodes; `amqp-broker queue grow`, `shrink` change it.",
        minimum=0,
        maximum=255,
    )
    rack: str = setting(
        RACK,
        "",
        REPLICATION,
        "The rack, room or zone that this node shares with those that would be lost with it. A group that is not on "
        "all nodes is on one of each rack, where there are enough. Empty: none.",
    )
    node_down_ms: int = setting(
        DURATION,
        5 * SECOND,
        REPLICATION,
        "A member without a link for so long loses its consumers: what they held goes to others.",
        minimum=100,
    )
    command_timeout_ms: int = setting(
        DURATION,
        30 * SECOND,
        REPLICATION,
        "How long a client's declaration, say, waits for a majority of the members before its connection is closed.",
        minimum=100,
    )
    raft_heartbeat_ms: int = setting(
        DURATION,
        200,
        REPLICATION,
        "How often a leader lets the others know that it is there: well above the round trip between nodes. It is what "
        "an idle node does.",
        minimum=5,
    )
    raft_election_timeout_ms: int = setting(
        DURATION,
        600,
        REPLICATION,
        "Without a word from the leader for so long, up to twice as long, a member asks to be elected. Longer than a "
        "healthy disk ever stalls.",
        minimum=20,
    )
    raft_log_size_bytes: int = setting(
        SIZE,
        32 * MIB,
        REPLICATION,
        "A group's state is stored anew when its log has grown by so much; all groups together keep to an eighth of "
        "memory_budget.",
        minimum=64 * KIB,
    )
    raft_log_cap_bytes: int = setting(
        SIZE,
        128 * MIB,
        REPLICATION,
        "A group's log is kept in RAM for members that are behind, up to this, and up to half of memory_budget for all "
        "groups together; who is further behind gets the whole state.",
        minimum=64 * KIB,
    )

    def __post_init__(self) -> None:
        for each in CLUSTER_SETTINGS:
            each.check(getattr(self, each.attribute))
        self._check_members()
        self._check_credentials()
        self._check_replication()
        if self.peer_timeout_ms < _PINGS * self.peer_ping_ms:
            raise self._refuse("peer_timeout", f"at least twice peer_ping, which is {self._shown('peer_ping')}")
        if self.peer_buffer_limit_bytes < self.cluster_frame_max_bytes:
            raise self._refuse(
                "peer_buffer_limit", f"at least cluster_frame_max, which is {self._shown('cluster_frame_max')}"
            )

    @property
    def others(self) -> dict[str, Address]:
        """The addresses of the other members by name, in the order of the names."""
        own = self._host_name()
        return {name: address for name, address in self.cluster if name != own}

    def raft_settings(self, memory_bytes: int | None = None) -> RaftSettings:
        """What raft/ is to know of it. memory_bytes: the budget of queues, if there is one; the logs of all groups
        together take no more of RAM than an eighth of that, and half of it where members are behind."""
        from raft.settings import RaftSettings  # late: who embeds a broker loads the settings, and nothing of raft/

        log_bytes, log_cap_bytes = self.raft_log_size_bytes, self.raft_log_cap_bytes
        if memory_bytes is not None:
            share = memory_bytes // (self.queue_groups + 1)
            log_bytes = min(log_bytes, max(_LOG_LEAST_BYTES, share // 8))
            log_cap_bytes = max(log_bytes, min(log_cap_bytes, max(_LOG_LEAST_BYTES, share // 2)))
        return RaftSettings(
            heartbeat_ms=self.raft_heartbeat_ms,
            election_timeout_min_ms=self.raft_election_timeout_ms,
            election_timeout_max_ms=2 * self.raft_election_timeout_ms,
            entry_bytes=self.max_entry_bytes,
            log_bytes=log_bytes,
            log_cap_bytes=log_cap_bytes,
        )

    @property
    def max_entry_bytes(self) -> int:
        """The largest entry of a log: what one frame between nodes can hold."""
        return self.cluster_frame_max_bytes - FRAME_ROOM_BYTES

    def _check_members(self) -> None:
        if NODE_NAME.fullmatch(self._host_name()) is None:
            raise self._refuse("node_name", NODE_NAME_RULE)
        if self.rack and NODE_NAME.fullmatch(self.rack) is None:
            raise self._refuse("rack", f"{NODE_NAME_RULE}, or nothing")
        names = [member.name for member in self.cluster]
        addresses = [member.address for member in self.cluster]
        if len(set(names)) != len(names) or len(set(addresses)) != len(addresses):
            raise self._refuse("cluster", "each name and each address once")
        if len(names) > MAX_MEMBERS:
            raise self._refuse("cluster", f"at most {MAX_MEMBERS} members")
        if any(address.port == 0 for address in addresses):
            raise self._refuse("cluster", "the ports that the members listen on, not 0")
        if names and self._host_name() not in names:
            raise self._refuse(
                "cluster", f"a list with this node, {self._host_name()}, in it; add it, or correct node_name"
            )
        if self.others and not self.cluster_listen:
            raise self._refuse("cluster", "only together with cluster_listen, where the other members come in; set it")
        if self.cluster_join and not self.others:
            raise self._refuse("cluster_join", "only together with cluster, the members to join and this node")

    def _host_name(self) -> str:
        """The node's name as a person may write it."""
        return self.node_name

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

    def _check_replication(self) -> None:
        if self.raft_election_timeout_ms < _HEARTBEATS * self.raft_heartbeat_ms:
            raise self._refuse(
                "raft_election_timeout", f"at least twice raft_heartbeat, which is {self._shown('raft_heartbeat')}"
            )
        if self.raft_log_cap_bytes < self.raft_log_size_bytes:
            raise self._refuse("raft_log_cap", f"at least raft_log_size, which is {self._shown('raft_log_size')}")

    def _shown(self, key: str) -> str:
        each = next(each for each in map(setting_of, fields(self)) if each.key == key)
        return each.show(getattr(self, each.attribute))

    def _refuse(self, key: str, allowed: str) -> ConfigError:
        return ConfigError(f"{key}: {self._shown(key)!r} is not valid; allowed: {allowed}")


CLUSTER_SETTINGS: tuple[Setting, ...] = tuple(setting_of(field) for field in fields(ClusterConfig))


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
