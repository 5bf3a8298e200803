"""`python -m benchmarks.sizing`: measures what `amqp-broker size` counts with, and writes amqp_broker/cli/sizing.json.

The lock step of benchmarks/hop.py (its head says what is counted), for transient messages, durable ones with confirms
and acknowledgements, and quorum queues of three nodes; each with clients at the queue's home, producers elsewhere and
the consumer elsewhere; with bodies of two sizes, and one, eight and 64 messages a read. What one read costs is the
difference between the first and the last; what an octet costs, between the sizes. The points of eight messages, and of
a third size, are not fitted: the model has to find them.

    python -m benchmarks.sizing                            minutes, on a quiet machine
    python -m benchmarks.sizing --kind transient --dry     print, write nothing
"""

from __future__ import annotations

import json
import resource
import statistics
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import click

from amqp_broker.cli.sizing import MEASURED, Cost, Written
from amqp_broker.testing.embedded_cluster import RunningCluster, running_cluster
from benchmarks.brokers import temporary_folder
from benchmarks.hop import Load, NodeSide
from benchmarks.machine import commit, describe_machine, is_compiled

REPLICAS = 3
#: Messages a read, and with how many producers.
BATCHES = {1: 1000, 8: 400, 64: 100}
FITTED_BATCHES = (1, 64)
FITTED_SIZES = (128, 4096)
SIZES = (128, 1024, 4096)
MESSAGES = 40_000
RUNS = 3
KINDS = {"transient": ("transient", "classic"), "durable": ("confirmed", "classic"), "quorum": ("confirmed", "quorum")}
PLACES = {
    "transient": ("home", "producers", "consumer"),
    "durable": ("home", "producers", "consumer"),
    "quorum": ("home",),
}

Point = dict[str, str | int | float]


def written_octets(pid: int) -> int:
    """What the process has had written to disks."""
    lines = Path(f"/proc/{pid}/io").read_text(encoding="ascii").splitlines()
    return int(dict(line.split(": ") for line in lines)["write_bytes"])


def measure(cluster: RunningCluster, kind: str, place: str, size: int, batch: int) -> Point:
    """One point: the medians of some runs, a message, of all nodes together."""
    connections = BATCHES[batch]
    confirming, queue_type = KINDS[kind]
    steps = max(3, -(-MESSAGES // (connections * batch)))
    sides = [NodeSide(node) for node in cluster.nodes]
    pids = [side.pid for side in sides]
    with ExitStack() as stack:
        load = Load(sides, stack, place, confirming, connections, batch, size, queue_type)
        load.run(2)
        costs, written = [], []
        for _ in range(RUNS):
            before = sum(map(written_octets, pids))
            costs.append(sum(load.run(steps)))
            written.append((sum(map(written_octets, pids)) - before) / (steps * connections * batch))
    return {
        "kind": kind,
        "place": place,
        "size": size,
        "batch": batch,
        "connections": connections,
        "cost_us": round(statistics.median(costs), 3),
        "written_octets": round(statistics.median(written)),
    }


def fitted(points: list[Point]) -> Cost:
    """The cost that fits the points of the smallest and the largest batch with the smallest and the largest body."""
    known = {(point["size"], point["batch"]): float(point["cost_us"]) for point in points}
    (alone, together), (small, large) = FITTED_BATCHES, FITTED_SIZES
    share = 1 / alone - 1 / together
    read = max(0.0, statistics.mean((known[size, alone] - known[size, together]) / share for size in FITTED_SIZES))
    octet = max(0.0, (known[large, together] - known[small, together]) / (large - small))
    message = max(0.0, known[small, together] - read / together - octet * small)
    return Cost(round(message, 4), round(octet, 7), round(read, 4))


def fitted_octets(points: list[Point]) -> Written:
    """What disks take, by the points with the largest batch: alone, messages share a sync with little else."""
    known = {point["size"]: float(point["written_octets"]) for point in points if point["batch"] == FITTED_BATCHES[-1]}
    small, large = FITTED_SIZES
    octet = max(0.0, (known[large] - known[small]) / (large - small))
    return Written(round(max(0.0, known[small] - octet * small), 1), round(octet, 3))


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--kind", "kinds", type=click.Choice([*KINDS]), multiple=True, help="Of these only; implies --dry.")
@click.option("--dry", is_flag=True, help="Write nothing.")
def sizing(kinds: tuple[str, ...], dry: bool) -> None:
    """Measure what `amqp-broker size` counts with."""
    if not is_compiled():
        raise click.ClickException("the hot modules are not compiled: make setup, with a C compiler")
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    points: list[Point] = []
    for kind in kinds or KINDS:
        with temporary_folder() as folder, running_cluster(REPLICAS if kind == "quorum" else 2, folder) as cluster:
            for place in PLACES[kind]:
                for size in SIZES:
                    for batch in BATCHES:
                        points.append(measure(cluster, kind, place, size, batch))
                        click.echo(json.dumps(points[-1]))
    costs = {
        kind: {
            place: fitted([each for each in points if (each["kind"], each["place"]) == (kind, place)])
            for place in PLACES[kind]
        }
        for kind in kinds or KINDS
    }
    written = {
        kind: fitted_octets([each for each in points if (each["kind"], each["place"]) == (kind, "home")])
        for kind in kinds or KINDS
        if kind != "transient"
    }
    found = {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "commit": commit(),
        "machine": describe_machine(),
        "command": "python -m benchmarks.sizing",
        "replicas": REPLICAS,
        "costs": {kind: {place: asdict(cost) for place, cost in places.items()} for kind, places in costs.items()},
        "written": {kind: asdict(octets) for kind, octets in written.items()},
        "points": points,
    }
    if dry or kinds:
        click.echo(json.dumps({key: found[key] for key in ("costs", "written")}, indent=2))
    else:
        MEASURED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        click.echo(f"written: {MEASURED}")


if __name__ == "__main__":
    sizing()
