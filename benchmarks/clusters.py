"""Clusters under test: three nodes of ours, three of RabbitMQ's, on loopback, each node as `brokers` starts one.

The load goes to the first node. Where a queue's leader is follows from each broker's defaults.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from amqp_broker.bench.target import parse_target
from amqp_broker.testing.embedded_cluster import running_cluster
from benchmarks.brokers import (
    Broker,
    BrokerError,
    check_rabbitmq,
    free_port,
    rabbitmq_broker,
    rabbitmq_environment,
    version_of,
)

CONTROL_SCRIPT = Path("/usr/lib/rabbitmq/bin/rabbitmqctl")
CONTROL_SECONDS = 120


@contextmanager
def own_cluster(folder: Path, nodes: int, plain: bool = False) -> Iterator[Broker]:
    """Our nodes with their data in `folder`. Yields the first, which knows the processes of the others."""
    with plain_children(plain), running_cluster(nodes, folder) as cluster:
        target = parse_target(cluster.nodes[0].url)
        name = "amqp-broker (plain)" if plain else "amqp-broker"
        first, *others = (node.broker.process.pid for node in cluster.nodes)
        yield Broker(name, version_of(target), target, first, 0.0, tuple(others))


@contextmanager
def plain_children(plain: bool) -> Iterator[None]:
    """Whether the nodes that are started run without compiled modules."""
    before = os.environ.pop("AMQP_BROKER_PLAIN", None)
    if plain:
        os.environ["AMQP_BROKER_PLAIN"] = "1"
    try:
        yield
    finally:
        os.environ.pop("AMQP_BROKER_PLAIN", None)
        if before is not None:
            os.environ["AMQP_BROKER_PLAIN"] = before


@contextmanager
def rabbitmq_cluster(folder: Path, nodes: int) -> Iterator[Broker]:
    """RabbitMQ's nodes with their data in `folder`, joined to the first. Yields the first, as own_cluster does."""
    check_rabbitmq()
    mapper = str(free_port())
    cookie = folder / "home" / ".erlang.cookie"
    with ExitStack() as stack:
        started: list[tuple[Broker, Mapping[str, str]]] = []
        for number in range(1, nodes + 1):
            own = folder / f"n{number}"
            environment = {**rabbitmq_environment(own), "ERL_EPMD_PORT": mapper, "HOME": str(cookie.parent)}
            if number == 1:
                cookie.parent.mkdir(parents=True)
                cookie.write_text("benchmark", encoding="ascii")
                cookie.chmod(0o400)
            started.append((stack.enter_context(rabbitmq_broker(own, environment)), environment))
        first = started[0][1]["RABBITMQ_NODENAME"]
        for _, joining in started[1:]:
            for command in (["stop_app"], ["reset"], ["join_cluster", first], ["start_app"]):
                control(joining, command)
        yield replace(started[0][0], others=tuple(broker.pid for broker, _ in started[1:]))


def control(environment: Mapping[str, str], command: list[str]) -> None:
    """Run rabbitmqctl for a node. Raises BrokerError."""
    call = [str(CONTROL_SCRIPT), "--node", environment["RABBITMQ_NODENAME"], *command]
    done = subprocess.run(call, env=environment, capture_output=True, text=True, timeout=CONTROL_SECONDS, check=False)
    if done.returncode:
        raise BrokerError(f"rabbitmqctl {' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
