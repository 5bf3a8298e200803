"""What policies can set on queues: each key with what its value should be.

The keys have RabbitMQ's names, and mean the same for every type of queue that has them: a type names those it has with
`keys`, and adds those that are its own (`QueueType.policy_keys`). Texts list keys in the order of KEYS.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from amqp_broker.protocol.json_values import JsonValue
from queues.quorum.arguments import LEADER_LOCATORS

#: What a value should be, None where it is that.
Expects = Callable[[object], str | None]
#: A definition of a policy, None where none applies.
Definition = Mapping[str, object] | None

_LARGEST: Final = 2**63 - 1
_MAX_AGE: Final = re.compile(r"0*[1-9][0-9]{0,18}[YMDhms]", re.ASCII)


class PolicyKey(NamedTuple):
    """One key of a definition. for_operators: an operator policy may set it, too. example: a value that a form may
    begin with; None: forms do not propose the key."""

    expects: Expects
    for_operators: bool = False
    example: JsonValue = None


def at_least(least: int) -> Expects:
    """An integer from there on."""

    def check(value: object) -> str | None:
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= _LARGEST:
            return None
        return f"an integer from {least} to {_LARGEST}"

    return check


def between(least: int, most: int) -> Expects:
    """An integer from one to the other."""

    def check(value: object) -> str | None:
        is_one = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
        return None if is_one else f"an integer from {least} to {most}"

    return check


def one_of(*values: object) -> Expects:
    """One of these."""

    def check(value: object) -> str | None:
        if not isinstance(value, bool) and value in values:
            return None
        return "one of " + ", ".join(str(allowed) for allowed in values)

    return check


def _text(value: object) -> str | None:
    return None if isinstance(value, str) else "a string"


def _age(value: object) -> str | None:
    return None if isinstance(value, str) and _MAX_AGE.fullmatch(value) else "a number and a unit out of Y M D h m s"


def _anything(_: object) -> str | None:
    return None


KEYS: Final[Mapping[str, PolicyKey]] = {
    "message-ttl": PolicyKey(at_least(0), for_operators=True, example=60_000),
    "expires": PolicyKey(at_least(1), for_operators=True, example=1_800_000),
    "max-length": PolicyKey(at_least(0), for_operators=True, example=1000),
    "max-length-bytes": PolicyKey(at_least(0), for_operators=True, example=1_048_576),
    "overflow": PolicyKey(
        one_of("drop-head", "reject-publish", "reject-publish-dlx"), for_operators=True, example="reject-publish"
    ),
    "dead-letter-exchange": PolicyKey(_text, example=""),
    "dead-letter-routing-key": PolicyKey(_text, example=""),
    "dead-letter-strategy": PolicyKey(one_of("at-most-once", "at-least-once")),
    "delivery-limit": PolicyKey(at_least(-1), for_operators=True, example=20),
    "delayed-retry-type": PolicyKey(one_of("disabled", "all", "failed", "returned")),
    "delayed-retry-min": PolicyKey(at_least(1)),
    "delayed-retry-max": PolicyKey(at_least(1)),
    "lease-expires": PolicyKey(at_least(1), for_operators=True),
    "alternate-exchange": PolicyKey(_text),
    "consumer-timeout": PolicyKey(at_least(1)),
    "queue-mode": PolicyKey(one_of("default", "lazy")),
    "queue-version": PolicyKey(one_of(1, 2)),
    "queue-leader-locator": PolicyKey(one_of(*LEADER_LOCATORS)),
    "queue-master-locator": PolicyKey(one_of("client-local", "min-masters", "random")),
    "max-in-memory-length": PolicyKey(at_least(0), for_operators=True),
    "max-in-memory-bytes": PolicyKey(at_least(0), for_operators=True),
    "target-group-size": PolicyKey(at_least(1), for_operators=True),
    "max-age": PolicyKey(_age, example="7D"),
    "stream-max-segment-size-bytes": PolicyKey(at_least(0)),
    "stream-filter-size-bytes": PolicyKey(between(16, 255)),
    "stream-tombstone-age": PolicyKey(_age),
    "stream-compression": PolicyKey(one_of("none", "zlib")),
    "initial-cluster-size": PolicyKey(at_least(0)),
    # Mirrors and federation of RabbitMQ: accepted, so that its definitions can be imported, without effect.
    "ha-mode": PolicyKey(one_of("all", "exactly", "nodes")),
    "ha-params": PolicyKey(_anything),
    "ha-sync-mode": PolicyKey(one_of("automatic", "manual")),
    "ha-sync-batch-size": PolicyKey(at_least(1)),
    "ha-promote-on-shutdown": PolicyKey(one_of("always", "when-synced")),
    "ha-promote-on-failure": PolicyKey(one_of("always", "when-synced")),
    "federation-upstream": PolicyKey(_anything),
    "federation-upstream-set": PolicyKey(_anything),
    "federation-upstream-pattern": PolicyKey(_anything),
}

#: They are about exchanges and nodes: a policy that sets one applies to queues of every type.
OF_NO_QUEUE: Final = (
    "alternate-exchange",
    "federation-upstream",
    "federation-upstream-set",
    "federation-upstream-pattern",
)


def keys(*names: str) -> dict[str, PolicyKey]:
    """Those of KEYS that a type has."""
    return {name: KEYS[name] for name in names}
