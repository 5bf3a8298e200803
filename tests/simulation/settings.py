"""The world of a simulation: a broker so small that paging and retirement happen all the time, and its queues.

Everything random is drawn from the Random that is passed in, so that a seed gives the same world again.
"""

from __future__ import annotations

import base64
import hashlib
import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from amqp_broker.settings.config import Config

USER = "guest"
PASSWORD = "guest"
#: RabbitMQ's salted SHA-256, because a run logs in often and scrypt is slow on purpose.
PASSWORD_HASH = "rabbit-sha256$" + base64.b64encode(
    b"salt" + hashlib.sha256(b"salt" + PASSWORD.encode()).digest()
).decode("ascii")

#: The fanout exchange, the dead letter exchange, the delaying exchange, and the queues behind the last two.
FAN = "fan"
DEAD = "dead"
LATER = "later"
LETTERS = "letters"
DELAYED = "delayed"


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """How a queue is declared in this world, and what the model has to know of it."""

    name: str
    is_durable: bool
    arguments: Mapping[str, object] = field(default_factory=dict)
    in_fan: bool = False
    is_fixed: bool = False  # never deleted, purged, or published to by hand

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
    def rejects(self) -> bool:
        return str(self.arguments.get("x-overflow", "drop-head")).startswith("reject")

    @property
    def drops_head(self) -> bool:
        return self.max_length is not None and not self.rejects

    @property
    def delivery_limit(self) -> int | None:
        return _integer(self.arguments.get("x-delivery-limit"))

    @property
    def has_dead_letters(self) -> bool:
        return "x-dead-letter-exchange" in self.arguments


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) else None


def queue_specs(chance: random.Random) -> dict[str, QueueSpec]:
    """The queues of one run."""
    dead = {"x-dead-letter-exchange": DEAD}
    specs = [
        QueueSpec("plain", True, in_fan=True),
        QueueSpec("second", True, in_fan=True),
        QueueSpec("ram", False, in_fan=True),
        QueueSpec("levels", True, {"x-max-priority": 3}, in_fan=True),
        QueueSpec("short", True, {"x-max-length": chance.randint(1, 8), **(dead if chance.random() < 0.5 else {})}),
        QueueSpec("full", True, {"x-max-length": chance.randint(1, 8), "x-overflow": "reject-publish"}, in_fan=True),
        QueueSpec(
            "full-dead", True, {"x-max-length": chance.randint(1, 8), "x-overflow": "reject-publish-dlx", **dead}
        ),
        QueueSpec("brief", True, {"x-message-ttl": chance.choice([0, 20, 200, 2000]), **dead}, in_fan=True),
        QueueSpec("refused", True, dead),
        QueueSpec(
            "limited", True, {"x-delivery-limit": chance.randint(0, 3), **(dead if chance.random() < 0.5 else {})}
        ),
        QueueSpec("ram-levels", False, {"x-max-priority": 2, **dead}),
        QueueSpec(LETTERS, True, is_fixed=True),
        QueueSpec(DELAYED, True, is_fixed=True),
    ]
    return {spec.name: spec for spec in specs}


def simulated_config(chance: random.Random) -> Config:
    """A valid Config, made smaller than its bounds allow anybody else."""
    segment = chance.choice([2048, 4096, 16384])
    budget = chance.choice([6_000, 20_000, 100_000, 1_000_000])
    small: dict[str, object] = {
        "default_user": "",
        "audit_log": False,
        "page_size_bytes": chance.choice([300, 1500, 6000]),
        "page_segment_size_bytes": chance.choice([1000, 8000]),
        "journal_segment_size_bytes": segment,
        "journal_limit_bytes": segment * chance.randint(2, 4),
        "memory_budget_bytes": budget,
        "queue_head_messages": chance.choice([1, 2, 8, 64]),
        "queue_head_size_bytes": chance.choice([500, 4000]),
        "queue_large_head_size_bytes": segment * 8,
        "output_limit_bytes": chance.choice([600, 5000, 100_000]),
        "publish_backlog_bytes": chance.choice([2000, 20_000, 1_000_000]),
        "disk_free_limit_bytes": 0,
        "heartbeat_ms": 0,
        "command_timeout_ms": 1 << 50,  # clocks jump, and disks are full for long
    }
    config = Config()
    for name, value in small.items():
        object.__setattr__(config, name, value)
    return config
