"""The words and tables of a load run on a terminal: one line per second, a summary at the end."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table

from amqp_broker.bench.result import Latency, Progress, Result
from amqp_broker.bench.scenario import Scenario


def describe(scenario: Scenario) -> str:
    """The scenario in one line."""
    where = ", ".join(target.location for target in scenario.targets)
    path = [
        _many(scenario.producers, "producer"),
        _exchange(scenario),
        _many(scenario.queues, f"{scenario.queue_type} queue")
        + (" (durable)" if scenario.is_durable else ""),
        _many(scenario.consumers, "consumer"),
    ]
    parts = [" -> ".join(path), f"{scenario.size} B{' persistent' if scenario.persistent else ''}"]
    parts.append(f"confirms, window {scenario.confirm_window}" if scenario.confirm_window else "no confirms")
    if scenario.consumers and scenario.auto_ack:
        parts.append("automatic acks")
    elif scenario.consumers:
        parts.append(f"acks of {scenario.ack_every}, prefetch {scenario.prefetch}")
    if scenario.rate:
        parts.append(f"{scenario.rate:g} messages/s")
    parts.append(_many(scenario.messages, "message") if scenario.messages else f"{scenario.seconds:g} s")
    return f"{where}: {'; '.join(parts)}"


def _exchange(scenario: Scenario) -> str:
    if scenario.exchange_type in ("default", "fanout"):
        return f"{scenario.exchange_type} exchange"
    return f"{scenario.exchange_type} exchange with {_many(len(scenario.routes()), 'binding')}"


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def progress_line(progress: Progress, scenario: Scenario) -> str:
    """What one second brought, in messages per second."""
    counts, interval = progress.counts, progress.interval
    parts = [f"{progress.seconds:6.1f} s"]
    if scenario.producers:
        parts.append(f"published {counts.published / interval:>11,.0f}/s")
    if scenario.confirm_window:
        parts.append(f"confirmed {counts.confirmed / interval:>11,.0f}/s")
    if scenario.consumers:
        parts.append(f"received {counts.received / interval:>11,.0f}/s")
    if progress.latency:
        parts.append(f"latency p50 {_ms(progress.latency.p50)}, p99 {_ms(progress.latency.p99)}")
    if counts.nacked:
        parts.append(f"nacked {counts.nacked:,}")
    if progress.blocked:
        parts.append(f"blocked by the broker: {_many(progress.blocked, 'connection')}")
    if progress.is_warm_up:
        parts.append("(warm-up)")
    return "  ".join(parts)


def summary_table(result: Result) -> Table:
    """Counts and rates."""
    title = f"{result.seconds:.2f} s measured"
    table = Table(box=SIMPLE_HEAD, show_edge=False, title=title, title_justify="left")
    table.add_column("")
    table.add_column("messages", justify="right")
    table.add_column("per second", justify="right")
    for name, count in result.counts.named().items():
        if count or name in ("published", "received"):
            table.add_row(name, f"{count:,}", f"{result.rate(count):,.0f}")
    return table


def summary_lines(result: Result) -> list[str]:
    """Latencies, the load generator's own cost, and what went wrong."""
    lines = []
    if result.latency:
        lines.append(f"latency          {_percentiles(result.latency)}")
    if result.confirm_latency:
        lines.append(f"confirm latency  {_percentiles(result.confirm_latency)}")
    lines.append(f"load generator   {result.cpu_us_per_message:.2f} us of CPU per message")
    if not result.is_complete:
        lines.append("incomplete: it ended before all messages had arrived")
    lines += [f"problem: {problem}" for problem in result.problems]
    return lines


def _percentiles(latency: Latency) -> str:
    names = (("p50", latency.p50), ("p99", latency.p99), ("p99.9", latency.p999), ("max", latency.max))
    return "  ".join(f"{name} {_ms(value)}" for name, value in names)


def _ms(value: float) -> str:
    return f"{value:.3f} ms" if value < 10 else f"{value:,.1f} ms"
