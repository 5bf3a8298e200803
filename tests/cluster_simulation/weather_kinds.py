"""Weather of one kind, for rules that the usual one seldom needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import amqp_broker  # noqa: F401 - decides whether modules run compiled
from tests.cluster_simulation.compaction_weather import CompactionWeather
from tests.cluster_simulation.guest_stream_weather import GuestStreamWeather
from tests.cluster_simulation.guest_weather import GuestWeather
from tests.cluster_simulation.lease_weather import LeaseWeather
from tests.cluster_simulation.rotten_weather import RottenWeather
from tests.cluster_simulation.stream_weather import StreamWeather
from tests.cluster_simulation.weather import Weather
from tests.cluster_simulation.worker_weather import MovingWeather, SpreadWeather, WorkerWeather


class DenseWeather(Weather):
    """Everything that can go wrong, soon after another: what fits into a short run."""

    pause = (2, 120)
    downtime = (1, 50, 300)


class ElectionWeather(Weather):
    """Elections all the time."""

    faults = ("crash_one", "crash_leader", "crash_leader", "partition", "heal", "heal", "transfer", "crash_all")
    pause = (5, 150)
    downtime = (1, 5, 20, 100)


class SessionWeather(Weather):
    """Nodes are taken for dead, and are not: their sessions end, and begin anew."""

    faults = ("freeze", "freeze", "partition", "partition_one_way", "heal", "heal", "reset_link", "jump")
    pause = (20, 300)

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        for node in self.nodes.values():
            object.__setattr__(node.config, "node_down_ms", 100)


class InstallWeather(Weather):
    """Members stay away for long, and come back to a leader that has trimmed its log."""

    faults = ("partition", "heal", "crash_one", "crash_all", "stall", "crash_leader")
    pause = (50, 400)
    downtime = (1, 5, 1000)

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        for node in self.nodes.values():
            for field in ("raft_log_size_bytes", "raft_log_cap_bytes"):
                object.__setattr__(node.config, field, 2_000)


class MembershipWeather(Weather):
    """Members come and go in a network that is cut again and again."""

    faults = ("change_members",) * 4 + ("crash_leader", "crash_one", "partition", "heal", "heal", "freeze", "stall")
    pause = (20, 200)


class LeaderWeather(Weather):
    """Leaders come and go faster than their followers can keep up."""

    faults = ("reset_link", "reset_link", "slow_down", "crash_leader", "crash_leader", "crash_all", "heal", "transfer")
    pause = (5, 100)
    downtime = (1, 5, 20)


class PowerWeather(Weather):
    """Disks stall, and the power goes."""

    faults = ("stall", "stall", "crash_all", "crash_one", "crash_in_write")
    pause = (20, 150)
    downtime = (1, 20, 200)


class ClockWeather(Weather):
    """Whoever comes back after a crash has another time, and mostly an earlier one."""

    faults = ("crash_one", "crash_one", "crash_leader", "crash_in_write")
    pause = (5, 150)
    downtime = (1, 20, 200)
    clock_chance = 1.0
    clock_steps = (-5000, -1000, -100, 100)


class AmnesiaWeather(Weather):
    """Folders are set back to copies, and emptied, while everything else goes on."""

    faults = ("copy_disk",) * 4 + ("forget",) * 4 + ("crash_leader", "partition", "heal", "heal", "stall", "reset_link")
    pause = (20, 150)
    downtime = (1, 20, 300)


class LinkWeather(Weather):
    """Nothing dies but links."""

    faults = ("reset_link", "reset_link", "partition_one_way", "partition", "heal", "heal", "slow_down")
    pause = (5, 150)


class PlacesWeather(StreamWeather, PowerWeather):
    """All chunks have places; retention takes their pages long before a checkpoint is above them. The power goes."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.stream_kinds = [
            replace(kind, max_bytes=1_000) if kind.max_bytes is not None else kind for kind in self.stream_kinds
        ]
        settings = {
            "stream_direct_bytes": 1,
            "page_segment_size_bytes": 1_000,
            "raft_log_size_bytes": 60_000,
            "raft_log_cap_bytes": 180_000,
        }
        for node in self.nodes.values():
            for field, value in settings.items():
                object.__setattr__(node.config, field, value)


_PLAIN: dict[str, type[Weather]] = {
    "any": Weather,
    "dense": DenseWeather,
    "election": ElectionWeather,
    "session": SessionWeather,
    "install": InstallWeather,
    "membership": MembershipWeather,
    "power": PowerWeather,
    "leader": LeaderWeather,
    "link": LinkWeather,
    "clock": ClockWeather,
    "amnesia": AmnesiaWeather,
}
#: Of groups on some of the nodes: alone, with streaming jobs, and with clients of streams and of queues over them.
_OF_GUESTS: dict[str, type[Weather]] = {
    "guests": GuestWeather,
    "leases-guests": type("GuestWeatherWithLeases", (LeaseWeather, GuestWeather), {}),
    "streams-guests": GuestStreamWeather,
    "workers": WorkerWeather,
    "workers-moving": MovingWeather,
    "workers-spread": SpreadWeather,
    "leases-spread": type("SpreadWeatherWithLeases", (LeaseWeather, SpreadWeather), {}),
    "streams-spread": type("SpreadWeatherWithStreams", (StreamWeather, SpreadWeather), {}),
}
#: The same with streaming jobs, which take messages on lease and publish in transactions.
_WITH_LEASES: dict[str, type[Weather]] = {
    f"leases-{name}": type(f"{kind.__name__}WithLeases", (LeaseWeather, kind), {}) for name, kind in _PLAIN.items()
}
#: The same with clients of streams.
_WITH_STREAMS: dict[str, type[Weather]] = {
    f"streams-{name}": type(f"{kind.__name__}WithStreams", (StreamWeather, kind), {}) for name, kind in _PLAIN.items()
}


_WITH_COMPACTION: dict[str, type[Weather]] = {
    f"compaction-{name}": type(f"{kind.__name__}WithCompaction", (CompactionWeather, kind), {})
    for name, kind in _PLAIN.items()
}


def _one_of(kinds: dict[str, type[Weather]]) -> Callable[..., Weather]:
    """Another one of these kinds for each seed in turn."""
    found = list(kinds.values())

    def make(seed: int, size: int = 3, trace: Callable[[str], None] | None = None) -> Weather:
        return found[seed % len(found)](seed, size, trace)

    return make


#: The same with streams of which pages rot.
_WITH_ROT: dict[str, type[Weather]] = {
    f"rot-{name}": type(f"{kind.__name__}WithRot", (RottenWeather, kind), {}) for name, kind in _PLAIN.items()
}


#: "leases", "streams", "compaction", "rot": each seed has one of the kinds with them.
KINDS: dict[str, Callable[..., Weather]] = {
    **_PLAIN,
    **_OF_GUESTS,
    "leases": _one_of(_WITH_LEASES),
    **_WITH_LEASES,
    "streams": _one_of(_WITH_STREAMS),
    **_WITH_STREAMS,
    "streams-places": PlacesWeather,
    "compaction": _one_of(_WITH_COMPACTION),
    **_WITH_COMPACTION,
    "rot": _one_of(_WITH_ROT),
    **_WITH_ROT,
}
