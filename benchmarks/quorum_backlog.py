"""`python -m benchmarks.quorum_backlog`: a backlog in a quorum queue of three nodes, and what it costs each of them.

    publish with one member away -> it comes back while traffic goes on -> a member is killed and started
    -> all but one message are acknowledged; and apart from that: very many queues in which nothing happens

Memory is what a node's process has resident, the most of it in each part; its limit is the memory budget, the log in
RAM that is kept for a member that is behind (raft_log_cap), and what a node has before all that. Disk is what the
files take. `--scale 0.1` makes every amount a tenth, for a quick look; figures that are told as limits are those of
the whole.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from amqp_broker.bench.link import Link
from amqp_broker.bench.load import run_load
from amqp_broker.bench.scenario import Scenario
from amqp_broker.bench.target import Target, parse_target
from amqp_broker.client import Connection
from amqp_broker.system_client import SystemClient
from amqp_broker.testing.embedded_cluster import ClusterNode, RunningCluster, running_cluster
from benchmarks.backlog import folder_bytes
from benchmarks.brokers import Broker, BrokerError, temporary_folder
from benchmarks.findings import Finding, run_experiments
from benchmarks.footprint import COLUMNS
from benchmarks.machine import commit, header, page_of, table
from benchmarks.run import run_checked
from benchmarks.watch import MemoryWatch

MESSAGES = 1_000_000
QUEUES = 10_000
KIB, MIB = 1 << 10, 1 << 20
BUDGET_MIB = 256
LOG_CAP_MIB = 128
#: The limit of a journal, and a segment that is being written.
JOURNAL_MIB = 256 + 64
QUEUE, BESIDE = "kept", "beside"
#: Messages per second of the traffic that goes on meanwhile.
TRAFFIC = 1000
CATCH_UP_SECONDS = 300.0
IDLE_SECONDS = 30.0
SETTLE_SECONDS = 20.0
POLL_SECONDS = 0.2

QUORUM = Scenario(queue=QUEUE, queue_type="quorum", size=KIB, durable=True, persistent=True, seconds=0)


class Members:
    """Three nodes, and what is measured of them."""

    def __init__(self, cluster: RunningCluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.base = {node.name: broker_of(node).memory_bytes() for node in cluster.nodes}

    def target(self, name: str) -> Target:
        return parse_target(self.cluster.node(name).url)

    @contextmanager
    def watched(self, what: str, findings: list[Finding]) -> Iterator[None]:
        """The most memory of each member that runs now, added to the findings."""
        running = [node for node in self.cluster.nodes if node.is_running]
        watches = {node.name: MemoryWatch(broker_of(node)) for node in running}
        for watch in watches.values():
            watch.__enter__()
        yield
        for name, watch in watches.items():
            watch.__exit__(None, None, None)
            findings.append(self.memory(f"most memory of {name}, {what}", name, watch.highest))

    def memory(self, what: str, name: str, octets: int) -> Finding:
        limit = BUDGET_MIB + LOG_CAP_MIB + max(self.base.values()) / MIB
        return Finding(what, "MiB", octets / MIB, round(limit))

    def disk(self, name: str) -> int:
        return folder_bytes(self.folder / name)

    def groups(self, name: str) -> dict[int, dict[str, Any]]:
        """What a node says of its groups."""
        with SystemClient(self.cluster.node(name).url) as client:
            return {group["group"]: group for group in client.request("cluster.status")["groups"]}


def broker_of(node: ClusterNode) -> Broker:
    """For what is known of a process."""
    return Broker("amqp-broker", "", parse_target(node.url), node.broker.process.pid, 0.0)


def started(node: ClusterNode) -> float:
    """Start a node. Returns how long it took until it accepted clients, seconds."""
    begin = time.monotonic()
    node.start(120.0)
    return time.monotonic() - begin


def measure_backlog(scale: float) -> Iterator[Finding]:
    """One queue with everything, on three nodes."""
    messages = max(20_000, int(MESSAGES * scale))
    live = messages * KIB
    with temporary_folder() as folder, running_cluster(3, folder, memory_budget=f"{BUDGET_MIB}MiB") as cluster:
        members = Members(cluster, folder)
        with Link(members.target("n1"), "declares") as link:
            for name in (QUEUE, BESIDE):
                link.declare_queue(name, True, {"x-queue-type": "quorum"})
            link.sync()
        away = "n3"
        present = [node.name for node in cluster.nodes if node.name != away]
        cluster.node(away).stop()
        findings: list[Finding] = []
        targets = tuple(members.target(name) for name in present)
        with members.watched("while it is filled", findings):
            fill = replace(QUORUM, targets=targets, producers=2, consumers=0, confirm_window=1000, messages=messages)
            filled = run_checked(fill)
        yield Finding(f"publish of {messages:,} messages of 1 KiB, confirmed, {away} away", "msg/s",
                      filled.rate(filled.counts.published))  # fmt: skip
        yield from findings
        for name in present:
            yield Finding(f"disk of {name}, as a share of what is live", "%", 100 * members.disk(name) / live, 200)
        yield from measure_return(members, away, live, messages)
        yield from measure_restart(members, messages)
        yield from measure_pinned(members, messages)


def measure_return(members: Members, away: str, live: int, messages: int) -> Iterator[Finding]:
    """The member that was away comes back while traffic goes on."""
    node = members.cluster.node(away)
    asked = next(each.name for each in members.cluster.nodes if each.is_running)
    findings: list[Finding] = []
    with traffic(members, asked, findings):
        seconds = started(node)
        yield Finding(f"start of {away}, which has nothing of it", "s", seconds, 5)
        with members.watched(f"while {away} catches up", findings):
            yield Finding(f"until {away} has everything", "s", caught_up(members, asked, away) + seconds)
    yield from findings
    with Link(members.target(away), "counts") as link:
        found = link.count_messages(QUEUE)
    if found != messages:
        raise BrokerError(f"{away} has {found} of {messages} messages")
    yield Finding(f"disk of {away}, as a share of what is live", "%", 100 * members.disk(away) / live, 200)


@contextmanager
def traffic(members: Members, name: str, findings: list[Finding]) -> Iterator[None]:
    """Messages through another queue meanwhile; how long they took."""
    ends = threading.Event()
    results: list[Any] = []
    beside = replace(
        QUORUM, targets=(members.target(name),), queue=BESIDE, confirm_window=100, ack_every=10, rate=TRAFFIC,
        seconds=CATCH_UP_SECONDS, warm_up=0,
    )  # fmt: skip

    def carry() -> None:
        while not ends.is_set():
            results.append(run_load(replace(beside, seconds=2)))

    carrier = threading.Thread(target=carry)
    carrier.start()
    yield
    ends.set()
    carrier.join()
    problems = [problem for result in results for problem in result.problems]
    if problems:
        raise BrokerError("; ".join(problems))
    slowest = max(result.confirm_latency.p99 for result in results if result.confirm_latency is not None)
    received = sum(result.counts.received for result in results) / sum(result.seconds for result in results)
    what = f"meanwhile, of {TRAFFIC:,} messages a second through another queue"
    findings.append(Finding(f"{what}: received", "msg/s", received, TRAFFIC * 0.95, is_most=False))
    findings.append(Finding(f"{what}: confirm, 99th percentile of the worst 2 s", "ms", slowest))


def caught_up(members: Members, asked: str, name: str) -> float:
    """Until a member has applied what another one knew to be committed when it was asked. Seconds."""
    begin = time.monotonic()
    wanted = {group_id: group["commit_index"] for group_id, group in members.groups(asked).items()}
    while True:
        applied = {group_id: group["applied_index"] for group_id, group in members.groups(name).items()}
        if all(applied[group_id] >= index for group_id, index in wanted.items()):
            return time.monotonic() - begin
        if time.monotonic() > begin + CATCH_UP_SECONDS:
            raise BrokerError(f"{name} has applied {applied} of {wanted} after {CATCH_UP_SECONDS} s")
        time.sleep(POLL_SECONDS)


def measure_restart(members: Members, messages: int) -> Iterator[Finding]:
    """A member is ended and killed with the backlog, and started again."""
    for name, is_killed in (("n2", False), ("n1", True)):
        node = members.cluster.node(name)
        if is_killed:
            node.kill()
        else:
            node.stop()
        how = "kill -9" if is_killed else "SIGTERM"
        yield Finding(f"start of {name} with {messages:,} messages, after {how}", "s", started(node), 5)
        other = next(each.name for each in members.cluster.nodes if each.name != name)
        caught_up(members, other, name)
        with Link(members.target(name), "counts") as link:
            found = link.count_messages(QUEUE)
        if found != messages:
            raise BrokerError(f"{name} has {found} of {messages} messages after its start")


def measure_pinned(members: Members, messages: int) -> Iterator[Finding]:
    """All but one message are acknowledged, and others come and go."""
    findings: list[Finding] = []
    with Connection.open(members.cluster.node("n2").url) as connection, connection.channel() as channel:
        held = channel.get(QUEUE)
        if held is None:
            raise BrokerError("the first message is not there")
        target = (members.target("n1"),)
        drain = replace(QUORUM, targets=target, producers=0, ack_every=100, messages=messages - 1)
        with members.watched("while it is drained", findings):
            drained = run_checked(drain)
        yield Finding("drain of all but one, acknowledged", "msg/s", drained.rate(drained.counts.received))
        yield from findings
        more = replace(QUORUM, targets=target, queue=BESIDE, confirm_window=1000, ack_every=100)
        run_checked(replace(more, messages=max(20_000, messages // 5)))
        time.sleep(SETTLE_SECONDS)
        for node in members.cluster.nodes:
            pages, journal = (folder_bytes(members.folder / node.name / each) / MIB for each in ("queues", "journal"))
            yield Finding(f"pages of {node.name} with one message unacknowledged", "MiB", pages, 16)
            yield Finding(f"journal of {node.name} then", "MiB", journal, JOURNAL_MIB)
        channel.ack(held)


def measure_idle(scale: float) -> Iterator[Finding]:
    """Very many empty queues cost nothing while nothing happens."""
    count = max(100, int(QUEUES * scale))
    with temporary_folder() as folder, running_cluster(3, folder) as cluster:
        before = {node.name: broker_of(node).memory_bytes() for node in cluster.nodes}
        begin = time.monotonic()
        with Link(parse_target(cluster.urls[0]), "declares", timeout=300) as link:
            for number in range(count):
                link.declare_queue(f"idle-{number}", True, {"x-queue-type": "quorum"})
            link.sync()
        declared = count / (time.monotonic() - begin)
        yield Finding(f"declaring {count:,} quorum queues, one after the other", "queue/s", declared)
        time.sleep(SETTLE_SECONDS)
        brokers = {node.name: broker_of(node) for node in cluster.nodes}
        used = {name: broker.cpu_seconds() for name, broker in brokers.items()}
        time.sleep(IDLE_SECONDS)
        for name, broker in brokers.items():
            share = 100 * (broker.cpu_seconds() - used[name]) / IDLE_SECONDS
            yield Finding(f"{count:,} idle quorum queues: processor of {name}", "% of a core", share, 1)
        for name, broker in brokers.items():
            grown = (broker.memory_bytes() - before[name]) / count / KIB
            yield Finding(f"memory of an empty quorum queue on {name}", "KiB", grown, 8)


EXPERIMENTS = {"backlog": measure_backlog, "idle": measure_idle}


@click.command(context_settings={"show_default": True, "help_option_names": ["-h", "--help"]})
@click.option("--only", "names", multiple=True, type=click.Choice(list(EXPERIMENTS)), help="Only these. [all]")
@click.option("--scale", default=1.0, type=click.FloatRange(0.001, 10), help="Multiplies every amount.")
@click.option("--output", type=click.Path(path_type=Path), help="The page to write. [results/quorum-backlog.md]")
def quorum_backlog(names: tuple[str, ...], scale: float, output: Path | None) -> None:
    """Measure what a backlog in a quorum queue costs three nodes, and write the table."""
    load = os.getloadavg()[0]
    rows = run_experiments(EXPERIMENTS, names, scale)
    facts = {
        "scale": f"{scale:g}",
        "load of the machine when it began": f"{load:.1f}",
        "memory budget of each node": f"{BUDGET_MIB} MiB",
    }
    page = [*header("A backlog in a quorum queue of three nodes", facts), *table(COLUMNS, rows)]
    path = output or page_of("quorum-backlog", not names and scale == 1)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(page) + "\n", encoding="utf-8")
    click.echo(f"written to {path} at {commit()}", err=True)


if __name__ == "__main__":
    quorum_backlog()
