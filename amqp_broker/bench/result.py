"""Result and Progress: what a load run measured, as plain values. They know no socket and no loop."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from amqp_broker.bench.histogram import Histogram

NS_PER_MS = 1e6
RATES = ("published", "confirmed", "received")


@dataclass(frozen=True, slots=True)
class Latency:
    """Percentiles in milliseconds, of `count` messages."""

    count: int
    p50: float
    p99: float
    p999: float
    max: float


def latency_of(histogram: Histogram) -> Latency | None:
    """The percentiles of a histogram of nanoseconds; None when it is empty."""
    if not histogram.total:
        return None
    p50, p99, p999 = (round(histogram.percentile(share) / NS_PER_MS, 4) for share in (0.5, 0.99, 0.999))
    return Latency(histogram.total, p50, p99, p999, round(histogram.highest / NS_PER_MS, 4))


@dataclass(frozen=True, slots=True)
class Counts:
    """Messages so far. `confirmed` does not include `nacked`; `returned` are those that no queue took."""

    published: int = 0
    confirmed: int = 0
    nacked: int = 0
    returned: int = 0
    received: int = 0
    redelivered: int = 0

    def named(self) -> dict[str, int]:
        """Name to count, in the order above."""
        return asdict(self)

    def __sub__(self, earlier: Counts) -> Counts:
        pairs = zip(self.named().values(), earlier.named().values(), strict=True)
        return Counts(*(now - then for now, then in pairs))


@dataclass(frozen=True, slots=True)
class Progress:
    """One interval of a run, `seconds` after its start: its length, what it brought, how many connections the
    broker has blocked.
    """

    seconds: float
    interval: float
    is_warm_up: bool
    counts: Counts
    latency: Latency | None
    blocked: int


@dataclass(frozen=True, slots=True)
class Result:
    """A run: its length in seconds, what was counted in it, and what the load generator itself cost.

    `latency` is from just before the send of a batch to the read that brought the message; `confirm_latency`
    to the read that brought the confirm. `cpu_seconds` is of this process, all threads, while measuring.
    """

    seconds: float
    counts: Counts
    latency: Latency | None
    confirm_latency: Latency | None
    cpu_seconds: float
    is_complete: bool  # every message of a fixed amount arrived; true where the time decides
    problems: tuple[str, ...]  # connections that ended before they were told to

    def rate(self, count: int) -> float:
        """Messages per second."""
        return count / self.seconds if self.seconds else 0.0

    @property
    def cpu_us_per_message(self) -> float:
        """The load generator's CPU, microseconds per message sent or received, whichever are more."""
        return 1e6 * self.cpu_seconds / max(1, self.counts.published, self.counts.received)

    def as_json(self) -> dict[str, object]:
        """The result for machines."""
        counts = self.counts.named()
        return {
            "seconds": round(self.seconds, 4),
            **{f"{name}_per_s": round(self.rate(counts[name])) for name in RATES},
            **counts,
            "latency_ms": asdict(self.latency) if self.latency else None,
            "confirm_latency_ms": asdict(self.confirm_latency) if self.confirm_latency else None,
            "client_cpu_us_per_message": round(self.cpu_us_per_message, 3),
            "complete": self.is_complete,
            "problems": list(self.problems),
        }
