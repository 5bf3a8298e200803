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
    begin with; None: forms do not propose the key. no_effect: why it is checked, kept and nothing more, so that
    RabbitMQ's definitions can be imported, and what does it here; "" where it is in force."""

    expects: Expects
    for_operators: bool = False
    example: JsonValue = None
    no_effect: str = ""


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


_NO_MIRRORS: Final = "there are no mirrored queues; declare quorum queues (x-queue-type)"
_NO_LINKS: Final = "there is no federation; nodes that share queues are one cluster (amqp-broker cluster)"
_PAGED: Final = "every classic queue pages out what the memory has no room for (memory_budget)"
_NOT_BY_POLICY: Final = "no policy says where a queue is to be; declare it with x-queue-master-locator"
_IN_MEMORY: Final = "what is in memory is bounded for all queues together (memory_budget)"

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
    "queue-mode": PolicyKey(one_of("default", "lazy"), no_effect=_PAGED),
    "queue-version": PolicyKey(one_of(1, 2), no_effect=_PAGED),
    "queue-leader-locator": PolicyKey(one_of(*LEADER_LOCATORS)),
    "queue-master-locator": PolicyKey(one_of("client-local", "min-masters", "random"), no_effect=_NOT_BY_POLICY),
    "max-in-memory-length": PolicyKey(at_least(0), for_operators=True, no_effect=_IN_MEMORY),
    "max-in-memory-bytes": PolicyKey(at_least(0), for_operators=True, no_effect=_IN_MEMORY),
    "target-group-size": PolicyKey(at_least(1), for_operators=True),
    "max-age": PolicyKey(_age, example="7D"),
    "stream-max-segment-size-bytes": PolicyKey(at_least(0)),
    "stream-filter-size-bytes": PolicyKey(between(16, 255)),
    "stream-tombstone-age": PolicyKey(_age),
    "stream-compression": PolicyKey(one_of("none", "zlib")),
    "initial-cluster-size": PolicyKey(at_least(1)),
    "ha-mode": PolicyKey(one_of("all", "exactly", "nodes"), no_effect=_NO_MIRRORS),
    "ha-params": PolicyKey(_anything, no_effect=_NO_MIRRORS),
    "ha-sync-mode": PolicyKey(one_of("automatic", "manual"), no_effect=_NO_MIRRORS),
    "ha-sync-batch-size": PolicyKey(at_least(1), no_effect=_NO_MIRRORS),
    "ha-promote-on-shutdown": PolicyKey(one_of("always", "when-synced"), no_effect=_NO_MIRRORS),
    "ha-promote-on-failure": PolicyKey(one_of("always", "when-synced"), no_effect=_NO_MIRRORS),
    "federation-upstream": PolicyKey(_anything, no_effect=_NO_LINKS),
    "federation-upstream-set": PolicyKey(_anything, no_effect=_NO_LINKS),
    "federation-upstream-pattern": PolicyKey(_anything, no_effect=_NO_LINKS),
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


def idle_key(name: str, no_effect: str) -> dict[str, PolicyKey]:
    """One that a type has so that policies with it apply to its queues, too, where it does nothing."""
    return {name: KEYS[name]._replace(no_effect=no_effect)}
