"""`amqp-broker size`: how much machine a load takes, from what was measured on one."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, replace

import click

from amqp_broker.cli.sizing import Load, Size, measured, size_of

_MIB = 1024 * 1024
_GIGA = 1e9


@click.command(context_settings={"show_default": True})
@click.option("--producers", type=click.IntRange(1), default=100, help="Connections that publish.")
@click.option("--consumers", type=click.IntRange(1), default=100, help="Connections that consume.")
@click.option(
    "--rate", type=click.FloatRange(0, min_open=True), default=100.0, help="Messages a second of each producer."
)
@click.option("--bytes", "size", type=click.IntRange(0), default=1024, help="Octets of a body.")
@click.option("--durable", is_flag=True, help="Persistent messages, confirms and acknowledgements.")
@click.option(
    "--replicas", type=click.IntRange(1), default=1, help="More than 1: quorum queues on so many nodes; durable."
)
@click.option(
    "--wait",
    type=click.FloatRange(0),
    default=5.0,
    help="Milliseconds that a message may wait in its socket: what comes meanwhile is read with it. 0: each alone.",
)
@click.option(
    "--hops",
    type=click.FloatRange(0, 1),
    help="Share of messages that pass through another process. [default: all but one of N, for N processes]",
)
@click.option(
    "--busy", type=click.FloatRange(0, 1, min_open=True), default=0.7, help="Share of its time that a process may work."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def size(
    producers: int,
    consumers: int,
    rate: float,
    size: int,
    durable: bool,
    replicas: int,
    wait: float,
    hops: float | None,
    busy: float,
    as_json: bool,
) -> None:
    """Say how many processes, nodes, networks and disks a load takes.

    It is arithmetic over costs that were measured on one machine, which is named; no such load was run. Each message is
    published once and consumed once.
    """
    load, found = settled(
        Load(
            producers=producers,
            rate=rate,
            size=size,
            is_durable=durable or replicas > 1,
            replicas=replicas,
            batch=max(1.0, rate * wait / 1000),
            hops=hops or 0.0,
            busy=busy,
            consumers=consumers,
        ),
        hops,
    )
    if as_json:
        click.echo(
            json.dumps({"load": asdict(load), "size": asdict(found), "measured_on": measured().machine}, indent=2)
        )
        return
    for line in lines(load, found):
        click.echo(line)


def settled(load: Load, hops: float | None) -> tuple[Load, Size]:
    """The load with its share of hops, and what it takes. Clients that are spread over N processes at random find their
    queue at another one N - 1 times of N, and hops make for more processes: so it is counted until it stays."""
    found = size_of(load)
    if hops is not None or load.is_replicated:
        return load, found
    while True:
        load = replace(load, hops=1 - 1 / found.processes)
        again = size_of(load)
        if again.processes <= found.processes:
            return load, again
        found = again


def lines(load: Load, found: Size) -> Iterator[str]:
    """For people."""
    what = f"{load.messages:,.0f} messages/s of {load.size:,} octets, {_what(load)}"
    yield f"{what}: {found.cost_us:.2f} us of processor time a message"
    yield ""
    if load.is_replicated:
        yield f"  nodes       {found.nodes:,} of one process, {load.busy:.0%} busy; {load.replicas} have a queue"
    else:
        yield f"  processes   {found.processes:,}, {load.busy:.0%} busy, a core each: workers of a node, or nodes"
        if found.processes > 1:
            yield f"  hops        {load.hops:.0%} of messages pass through a process that is not their queue's"
    yield f"  queues      {found.processes:,} at least: one queue is served by one process"
    ways = f"{found.in_bits / _GIGA:,.2f} Gbit/s in, {found.out_bits / _GIGA:,.2f} out"
    yield f"  network     {ways}, without the headers of TCP"
    if found.between_bits:
        yield f"  between     {found.between_bits / _GIGA:,.2f} Gbit/s between processes or nodes"
    if found.disk_octets:
        yield f"  disk        {found.disk_octets / _MIB:,.0f} MiB/s of all disks together"
    memory, waiting = (math.ceil(octets / _MIB) for octets in (found.memory_octets, found.waiting_octets))
    yield f"  memory      {memory:,} MiB, and {waiting:,} MiB for each second of messages that wait in it"
    yield ""
    yield f"Reckoned from costs on {measured().machine}; this load was not run."


def _what(load: Load) -> str:
    if load.is_replicated:
        return f"quorum queues with {load.replicas} replicas"
    return "durable, confirmed and acknowledged" if load.is_durable else "transient"
