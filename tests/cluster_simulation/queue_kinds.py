"""The queues of a simulated cluster, and a broker so small that its limits are met all the time.

Everything random is drawn from the Random that is passed in, so that a seed gives the same world again.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

#: The fanout exchange, the dead letter exchange, the delaying exchange, and the queues behind the last two.
FAN = "fan"
DEAD = "dead"
LATER = "later"
LETTERS = "letters"
DELAYED = "delayed"
#: What the broker keeps delayed messages in: no client sees it.
HELD_BACK = "held back"
#: What comes to these may come twice.
AT_LEAST_ONCE = (LETTERS,)
#: The queue whose one message is a lock.
LOCK = "lock"
#: The queues that are deleted, purged and declared anew.
SCRATCH = "scratch"
HOME_SCRATCH = "home-scratch"
#: What comes back rests.
RETRY = {"x-delayed-retry-type": "all", "x-delayed-retry-min": 20, "x-delayed-retry-max": 100}


@dataclass(frozen=True, slots=True)
class QueueKind:
    """How a queue is declared, and what a model has to know of it.

    in_fan: bound to the fanout exchange from the beginning. is_scratch: it may be deleted and purged. is_leased: lease
    groups take from it; is_sink: transactions publish to it.
    """

    name: str
    is_quorum: bool = True
    is_durable: bool = True
    arguments: Mapping[str, object] = field(default_factory=dict)
    in_fan: bool = False
    is_scratch: bool = False
    is_leased: bool = False
    is_sink: bool = False

    @property
    def table(self) -> dict[str, object]:
        """The arguments of queue.declare."""
        return {"x-queue-type": "quorum", **self.arguments} if self.is_quorum else dict(self.arguments)

    @property
    def ttl(self) -> int | None:
        return _integer(self.arguments.get("x-message-ttl"))

    @property
    def max_priority(self) -> int | None:
        return _integer(self.arguments.get("x-max-priority"))

    @property
    def max_length(self) -> int | None:
        return _integer(self.arguments.get("x-max-length"))

    @property
    def delivery_limit(self) -> int | None:
        """RabbitMQ's default for quorum queues is 20; -1 is none."""
        limit = _integer(self.arguments.get("x-delivery-limit", 20 if self.is_quorum else None))
        return None if limit is None or limit < 0 else limit

    @property
    def rest_ms(self) -> int:
        """What comes back rests so long at least."""
        return _integer(self.arguments.get("x-delayed-retry-min")) or 0

    @property
    def has_dead_letters(self) -> bool:
        return "x-dead-letter-exchange" in self.arguments

    @property
    def is_single_active(self) -> bool:
        return self.arguments.get("x-single-active-consumer") is True

    @property
    def takes_publishes(self) -> bool:
        """Whether any client publishes to it by name."""
        return self.name not in (LETTERS, LOCK, DELAYED) and not self.is_leased and not self.is_sink


#: As if it were a queue.
HOLDING = QueueKind(HELD_BACK, arguments={"x-delivery-limit": -1})


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def queue_kinds(chance: random.Random) -> dict[str, QueueKind]:
    """The queues of one run."""
    dead = {"x-dead-letter-exchange": DEAD}
    endless = {"x-delivery-limit": -1}
    kinds = [
        QueueKind("plain", arguments=endless, in_fan=True),
        QueueKind("second", arguments=endless, in_fan=True),
        QueueKind("limited", arguments={"x-delivery-limit": chance.randint(0, 3), **dead}),
        QueueKind("single", arguments={"x-single-active-consumer": True, **endless}),
        QueueKind("levels", arguments={"x-max-priority": 3, **endless}),
        QueueKind("brief", arguments={"x-message-ttl": chance.choice([50, 300, 2000]), **dead, **endless}),
        QueueKind("full", arguments={"x-max-length": chance.randint(1, 8), "x-overflow": "reject-publish", **endless}),
        QueueKind(LOCK, arguments=endless),
        QueueKind(SCRATCH, is_scratch=True, arguments=endless),
        QueueKind(LETTERS, arguments=endless),
        QueueKind(DELAYED, arguments=endless),
        QueueKind("home", is_quorum=False, in_fan=True),
        QueueKind("home-dead", is_quorum=False, arguments=dead),
        QueueKind("home-ram", is_quorum=False, is_durable=False),
        QueueKind(HOME_SCRATCH, is_quorum=False, is_scratch=True),
    ]
    return {kind.name: kind for kind in kinds}
