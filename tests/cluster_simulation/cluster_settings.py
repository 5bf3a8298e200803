"""The configuration of the nodes of a simulated cluster: valid, but smaller than the bounds allow anybody else."""

from __future__ import annotations

import random

from amqp_broker.settings.config import Config
from amqp_broker.settings.kinds import Address, MemberAddress

#: For a node that is there from the beginning, and for who joins with an empty folder.
Configs = tuple[Config, Config]


def cluster_configs(chance: random.Random, members: list[str], joiners: list[str]) -> dict[str, Configs]:
    """Two Configs for each node, by name: for a member from the beginning, and for who joins with an empty folder.
    Joiners have the latter only."""
    segment = chance.choice([4096, 16_384, 65_536])
    log_bytes = chance.choice([2_000, 8_000, 60_000])
    # Drawn apart: the seeds that tests name are about all else.
    direct = random.Random(chance.getstate()[1][1]).choice([1, 1, 300, 1 << 40])
    same: dict[str, object] = {
        "default_user": "",
        "audit_log": False,
        "page_size_bytes": chance.choice([300, 1500, 6000]),
        "page_segment_size_bytes": chance.choice([1000, 8000]),
        "journal_segment_size_bytes": segment,
        "journal_limit_bytes": segment * chance.randint(3, 6),
        "memory_budget_bytes": chance.choice([1_000_000, 10_000_000]),
        "queue_head_messages": chance.choice([1, 4, 64]),
        "queue_head_size_bytes": chance.choice([500, 4000]),
        "output_limit_bytes": chance.choice([600, 5000, 100_000]),
        "publish_backlog_bytes": chance.choice([10_000, 100_000, 1_000_000]),
        "disk_free_limit_bytes": 0,
        "heartbeat_ms": 0,
        "queue_groups": chance.choice([1, 2, 3]),
        "node_down_ms": chance.choice([300, 1000, 3000]),
        "command_timeout_ms": 10_000,
        "raft_heartbeat_ms": 50,
        "raft_election_timeout_ms": chance.choice([150, 300]),
        "stream_direct_bytes": direct,
        "raft_log_size_bytes": log_bytes,
        "raft_log_cap_bytes": log_bytes * chance.choice([1, 3]),
    }
    addresses = {name: Address("127.0.0.1", 7100 + number) for number, name in enumerate([*members, *joiners])}
    configs = {}
    for name in addresses:
        first, later = (
            _config(same, name, addresses, [*members, *([] if name in members else [name])], is_joiner)
            for is_joiner in (name in joiners, True)
        )
        configs[name] = first, later
    return configs


def small_raft_settings(chance: random.Random) -> dict[str, int]:
    """What Config has no setting for."""
    return {
        "append_bytes": chance.choice([300, 2000, 1_000_000]),
        "in_flight_bytes": chance.choice([1000, 20_000, 8_000_000]),
        "install_in_flight_bytes": chance.choice([1000, 2_000_000]),
    }


def _config(
    same: dict[str, object], name: str, addresses: dict[str, Address], known: list[str], is_joiner: bool
) -> Config:
    own = {
        "node_name": name,
        "cluster": tuple(sorted(MemberAddress(each, addresses[each]) for each in known)),
        "cluster_listen": (addresses[name],),
        "cluster_join": is_joiner,
    }
    config = Config()
    for field, value in {**same, **own}.items():
        if not hasattr(config, field):
            raise AttributeError(f"Config has no {field}")
        object.__setattr__(config, field, value)
    return config
