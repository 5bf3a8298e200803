"""Arguments (x-...) of queues that are no type's own, each with a value that a form may begin with; None: forms do not
propose it.

They mean the same for every type of queue that has them: a type names those it has with `arguments`, and adds its own
(`QueueType.arguments`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from amqp_broker.protocol.json_values import JsonValue

ARGUMENTS: Final[Mapping[str, JsonValue]] = {
    "x-max-length": 1000,
    "x-max-length-bytes": 1_048_576,
    "x-overflow": "reject-publish",
    "x-message-ttl": 60_000,
    "x-expires": 1_800_000,
    "x-dead-letter-exchange": "",
    "x-dead-letter-routing-key": "",
    "x-max-priority": 10,
    "x-single-active-consumer": True,
    "x-delivery-limit": 20,
    "x-lease-expires": None,
    "x-consumer-timeout": None,
    "x-queue-leader-locator": "balanced",
}


def arguments(*names: str) -> dict[str, JsonValue]:
    """Those of ARGUMENTS that a type has."""
    return {name: ARGUMENTS[name] for name in names}
