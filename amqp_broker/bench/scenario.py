"""Scenario: what a load run does, as one value. It knows the topology and the messages, not how they are
sent.

Who talks to which queue: with more producers than queues, producer p publishes to queue p mod queues; with
fewer, it takes turns among the queues q with q mod producers = p. Consumers likewise. So every queue is fed
and every queue is drained.

Binding j belongs to queue j mod queues; a message is routed by exactly one binding (fanout: by all), and a
producer takes turns among the bindings of its queues, so that `bindings` measures the exchange and not one
cached route.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from amqp_broker.bench.target import Target

EXCHANGE_TYPES = ("default", "direct", "fanout", "topic", "headers")
QUEUE_TYPES = ("classic", "quorum", "stream")
HEADER = "bench"  # the header that the bindings of a headers exchange ask for


class ScenarioError(ValueError):
    """A scenario that cannot be: one line that names the option, its value and what is allowed."""


@dataclass(frozen=True, slots=True)
class Route:
    """How one message finds its queue: its routing key and headers, and the binding that they match."""

    queue: str
    routing_key: str
    binding_key: str
    headers: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Everything that can be chosen. Sizes in octets, times in seconds, rates in messages per second of all
    producers.
    """

    targets: tuple[Target, ...] = (Target(),)
    producers: int = 1
    consumers: int = 1
    queues: int = 1
    queue: str = "bench"
    queue_type: str = "classic"
    queue_arguments: Mapping[str, object] = field(default_factory=dict)
    durable: bool = False
    exchange_type: str = "default"
    exchange: str = "bench-exchange"
    bindings: int = 1
    size: int = 128
    persistent: bool = False
    batch: int = 64
    confirm_window: int = 0
    rate: float = 0.0
    auto_ack: bool = False
    ack_every: int = 1
    prefetch: int = 1000
    messages: int = 0
    seconds: float = 10.0
    warm_up: float = 1.0
    keep: bool = False

    def __post_init__(self) -> None:
        if self.exchange_type not in EXCHANGE_TYPES:
            raise ScenarioError(f"exchange type {self.exchange_type!r}; allowed: {', '.join(EXCHANGE_TYPES)}")
        if self.queue_type not in QUEUE_TYPES:
            raise ScenarioError(f"queue type {self.queue_type!r}; allowed: {', '.join(QUEUE_TYPES)}")
        if not self.targets:
            raise ScenarioError("no URL; give at least one")
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                raise ScenarioError(
                    f"{name.replace('_', ' ')} {getattr(self, name)}; allowed: {least} or more"
                )
        if self.producers == 0 and self.consumers == 0:
            raise ScenarioError("0 producers and 0 consumers; allowed: at least one of either")
        if self.prefetch > 65535:
            raise ScenarioError(f"prefetch {self.prefetch}; allowed: 0 (no limit) to 65535")
        if self.messages and self.messages < self.producers:
            raise ScenarioError(
                f"messages {self.messages} for {self.producers} producers; allowed: one for each or more"
            )

    @property
    def queue_names(self) -> list[str]:
        """The queues in order; all names are equally long."""
        if self.queues == 1:
            return [self.queue]
        width = len(str(self.queues - 1))
        return [f"{self.queue}-{number:0{width}}" for number in range(self.queues)]

    @property
    def is_durable(self) -> bool:
        """Quorum queues and streams know no other way."""
        return self.durable or self.queue_type != "classic"

    @property
    def declare_arguments(self) -> dict[str, object]:
        """The arguments of queue.declare. Classic is not said: it is the default, and brokers may not know
        the word.
        """
        kind = {} if self.queue_type == "classic" else {"x-queue-type": self.queue_type}
        return {**kind, **self.queue_arguments}

    @property
    def consume_arguments(self) -> dict[str, object]:
        """The arguments of basic.consume: what is in a stream already is read if nobody publishes."""
        return {"x-stream-offset": "first"} if self.queue_type == "stream" and not self.producers else {}

    @property
    def copies(self) -> int:
        """How many queues get each message."""
        return self.queues if self.exchange_type == "fanout" else 1

    @property
    def deliveries(self) -> int:
        """How many messages the consumers are to receive in all; 0 when the time decides."""
        return self.messages * (self.copies if self.producers else 1)

    @property
    def publish_batch(self) -> int:
        """How many messages leave with one send: one when they are large, half a window at the most."""
        if self.size > 16384:
            return 1
        return max(1, min(self.batch, self.confirm_window // 2)) if self.confirm_window else self.batch

    def routes(self) -> list[Route]:
        """Every binding, in order; for the default exchange its implicit ones."""
        names = self.queue_names
        count = (
            self.queues if self.exchange_type in ("default", "fanout") else max(self.bindings, self.queues)
        )
        width = len(str(count - 1))
        return [self._route(names[number % self.queues], f"{number:0{width}}") for number in range(count)]

    def _route(self, queue: str, number: str) -> Route:
        if self.exchange_type == "default":
            return Route(queue, queue, queue, {})
        if self.exchange_type == "topic":
            return Route(queue, f"bench.some.{number}", f"bench.*.{number}", {})
        if self.exchange_type == "headers":
            return Route(queue, "bench", "", {HEADER: number})
        return Route(queue, f"bench.{number}", f"bench.{number}", {})

    def routes_of(self, producer: int) -> list[Route]:
        """The routes among which this producer takes turns; one for a fanout, which looks at none."""
        if self.exchange_type == "fanout":
            return self.routes()[:1]
        mine = set(self.queues_of(producer, self.producers))
        return [route for route in self.routes() if route.queue in mine]

    def queues_of(self, member: int, members: int) -> list[str]:
        """The queues of one of `members` producers (or consumers)."""
        names = self.queue_names
        return [names[member % self.queues]] if members >= self.queues else names[member::members]

    def quota_of(self, producer: int) -> int:
        """How many messages this producer publishes; 0 when the time decides."""
        share, rest = divmod(self.messages, self.producers)
        return share + (producer < rest)

    def target_of(self, member: int) -> Target:
        """Connections are spread over the URLs in turn."""
        return self.targets[member % len(self.targets)]


_LEAST: dict[str, float] = {
    "producers": 0,
    "consumers": 0,
    "queues": 1,
    "bindings": 1,
    "size": 0,
    "batch": 1,
    "confirm_window": 0,
    "rate": 0,
    "ack_every": 1,
    "prefetch": 0,
    "messages": 0,
    "seconds": 0,
    "warm_up": 0,
}
