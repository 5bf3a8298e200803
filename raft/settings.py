"""RaftSettings: what can be chosen about replication. Times are milliseconds, sizes octets."""

from __future__ import annotations

from dataclasses import dataclass

#: A time that does not come.
NEVER = 1 << 62

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class RaftSettings:
    """Each field says how to choose it."""

    heartbeat_ms: int = 100
    """How often a leader lets its followers know that it is there. Well above the round trip between nodes."""

    notice_ms: int = 5
    """Members that do not wait for what was committed hear of it with the next entries, or after this time; and those
    that are not needed for a majority get the entries themselves so (decision 0047). It bounds how far what they can
    tell of the group is behind, and spares them and the leader a turn for each entry. 0: all get all at once."""

    own_disk_wait_ms: int = 10
    """Where the disks of other voters are enough, a leader leaves its own for the next sync of something else, so that
    it does not stand still meanwhile. What is not committed after this time is synced here too: about the longest sync
    of a healthy disk, and a round trip."""

    election_timeout_min_ms: int = 600
    """A follower that has heard from its leader within this time helps no other member to an election. Several
    heartbeats, and more than the longest stall of a healthy disk that should not cost the leadership."""

    election_timeout_max_ms: int = 1200
    """A follower asks for an election after a random time between the two without a word from a leader, and a
    leader without answers of a majority for this time steps down. The outage after the loss of a leader is about
    this, plus a round trip and two syncs."""

    append_bytes: int = 1 * MIB
    """One frame carries no more entries than this (a single larger entry goes alone)."""

    in_flight_bytes: int = 8 * MIB
    """So much may be on its way to a follower, per group, before it acknowledges: bandwidth times the round trip,
    the follower's sync included."""

    entry_bytes: int = 160 * MIB
    """The largest entry that is accepted."""

    log_bytes: int = 32 * MIB
    """A checkpoint is taken when so much was appended since the last one. It bounds the RAM of a healthy group's log
    and how much is applied again at a restart."""

    log_cap_bytes: int = 128 * MIB
    """The log in RAM is kept for followers that are behind, up to this; who is further behind gets an install."""

    install_in_flight_bytes: int = 2 * MIB
    """So much of an install may be on its way; the rest of the traffic goes between."""

    def __post_init__(self) -> None:
        if not 0 < 2 * self.heartbeat_ms <= self.election_timeout_min_ms < self.election_timeout_max_ms:
            raise ValueError(
                f"heartbeat_ms {self.heartbeat_ms}, election_timeout_min_ms {self.election_timeout_min_ms}, "
                f"election_timeout_max_ms {self.election_timeout_max_ms}: each must be positive, the second at least "
                f"twice the first, the third above the second"
            )
        if self.notice_ms < 0:
            raise ValueError(f"notice_ms is {self.notice_ms}: it must not be negative")
        if self.own_disk_wait_ms < 0:
            raise ValueError(f"own_disk_wait_ms is {self.own_disk_wait_ms}: it must not be negative")
        for name in ("append_bytes", "in_flight_bytes", "entry_bytes", "log_bytes", "install_in_flight_bytes"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be positive")
        if self.log_cap_bytes < self.log_bytes:
            raise ValueError(f"log_cap_bytes {self.log_cap_bytes} is below log_bytes {self.log_bytes}: raise it")
