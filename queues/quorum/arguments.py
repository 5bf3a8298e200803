"""What a quorum queue's arguments (x-...) and the policies on it mean: QuorumSettings.

Beside what every queue knows (queues/arguments.py): x-delivery-limit is 20 where nothing is said,
x-quorum-initial-group-size chooses the group where some are on some of the nodes, and there are
x-dead-letter-strategy, x-message-deduplication, x-deduplication-ttl, x-consumer-timeout and
x-delayed-retry-type, -min and -max.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from queues.arguments import (
    MAX_TIME_MS,
    OF_CLASSIC_QUEUES,
    OF_STREAMS,
    RETRY_ARGUMENTS,
    ArgumentError,
    QueueArguments,
    WrongArgument,
    read_fields,
    read_integer,
    read_string,
    with_policy,
)
from queues.quorum.retry import Retry, RetryType
from queues.quorum.settings import QuorumSettings

#: How often a message may come back where no limit is given (RabbitMQ's).
DELIVERY_LIMIT = 20
#: How many message ids are remembered for x-message-deduplication true.
DEDUPLICATION_WINDOW = 10_000
MOST_MESSAGE_IDS = 1_000_000

LEADER_LOCATOR = "x-queue-leader-locator"
#: Where the leader of a queue group may be wanted when it is declared.
LEADER_LOCATORS = ("client-local", "balanced", "random", "least-leaders")

RETRY_TYPE, RETRY_MIN, RETRY_MAX = RETRY_ARGUMENTS
RETRY_TYPES = {each.name.lower(): each for each in RetryType}

_STRATEGIES = ("at-most-once", "at-least-once")
_OF_OTHER_TYPES = (*OF_CLASSIC_QUEUES, *OF_STREAMS)


def _strategy(value: object) -> bool:
    text = read_string("x-dead-letter-strategy", value)
    if text not in _STRATEGIES:
        raise ArgumentError("x-dead-letter-strategy", f"'{text}' is not one of {', '.join(_STRATEGIES)}")
    return text == "at-least-once"


def _window(value: object) -> int:
    if isinstance(value, bool):
        return DEDUPLICATION_WINDOW if value else 0
    return read_integer("x-message-deduplication", value, 0, MOST_MESSAGE_IDS)


def parse_quorum_arguments(
    arguments: Mapping[str, object],
    policy: Mapping[str, object] | None = None,
    operator_policy: Mapping[str, object] | None = None,
) -> QuorumSettings:
    """The settings in force. Raises ArgumentError, WrongArgument; unknown names are ignored. The definitions of the
    policies have been checked before."""
    at_least_once = (policy or {}).get("dead-letter-strategy") == "at-least-once"
    by_policy = (policy or {}).get("consumer-timeout")
    timeouts = [by_policy] if isinstance(by_policy, int) else []
    window = 0
    window_ttl: int | None = None
    for key, value in arguments.items():
        if key in _OF_OTHER_TYPES:
            raise WrongArgument(key, "quorum")
        if key == "x-dead-letter-strategy":
            at_least_once = _strategy(value)
        elif key == "x-quorum-initial-group-size":
            read_integer(key, value, 1, None)
        elif key == LEADER_LOCATOR:
            read_string(key, value)
        elif key in ("x-max-in-memory-length", "x-max-in-memory-bytes"):
            read_integer(key, value, 0, None)
        elif key == "x-message-deduplication":
            window = _window(value)
        elif key == "x-deduplication-ttl":
            window_ttl = read_integer(key, value, 1, MAX_TIME_MS)
        elif key == "x-consumer-timeout":
            timeouts.append(read_integer(key, value, 1, MAX_TIME_MS))
    if window_ttl is not None and not window:
        raise ArgumentError("x-deduplication-ttl", "it needs x-message-deduplication")
    merged = _with_delivery_limit(arguments, policy or {}, operator_policy)
    return QuorumSettings(
        merged, min(timeouts, default=None), window, window_ttl, at_least_once,
        retry=_retry({**_of_policy(policy or {}), **arguments}), gives_way=merged.single_active_consumer,
    )  # fmt: skip


def _of_policy(policy: Mapping[str, object]) -> dict[str, object]:
    """What a policy says of messages that rest, as if arguments said it, which count before it."""
    return {key: policy[key[2:]] for key in RETRY_ARGUMENTS if key[2:] in policy}


def check_locator(arguments: Mapping[str, object]) -> None:
    """Whether a queue can be declared so. Raises ArgumentError. One that was declared when any text would do may have
    another."""
    text = read_string(LEADER_LOCATOR, arguments.get(LEADER_LOCATOR, LEADER_LOCATORS[0]))
    if text not in LEADER_LOCATORS:
        raise ArgumentError(LEADER_LOCATOR, f"'{text}' is not one of {', '.join(LEADER_LOCATORS)}")


def check_retry(arguments: Mapping[str, object]) -> None:
    """Whether a queue can be declared so. Raises ArgumentError. One that was declared when nobody knew these arguments
    may have others."""
    text = read_string(RETRY_TYPE, arguments.get(RETRY_TYPE, "disabled"))
    if text not in RETRY_TYPES:
        raise ArgumentError(RETRY_TYPE, f"'{text}' is not one of {', '.join(RETRY_TYPES)}")
    for key in (RETRY_MIN, RETRY_MAX):
        if key in arguments:
            read_integer(key, arguments[key], 1, MAX_TIME_MS)
    least, most = arguments.get(RETRY_MIN), arguments.get(RETRY_MAX)
    if least is None and text != "disabled":
        raise ArgumentError(RETRY_TYPE, f"it needs {RETRY_MIN}")
    if isinstance(least, int) and isinstance(most, int) and most < least:
        raise ArgumentError(RETRY_MAX, f"{most} is below {RETRY_MIN}, {least}")


def _retry(said: Mapping[str, object]) -> Retry | None:
    """Which messages rest, and how long; None: none does."""
    kind = RETRY_TYPES.get(str(said.get(RETRY_TYPE, "disabled")), RetryType.DISABLED)
    least, most = said.get(RETRY_MIN), said.get(RETRY_MAX)
    if kind is RetryType.DISABLED or not isinstance(least, int) or least < 1:
        return None
    return Retry(kind, min(least, MAX_TIME_MS), min(most, MAX_TIME_MS) if isinstance(most, int) else None)


def leads_locally(
    arguments: Mapping[str, object], policy: Mapping[str, object] | None = None, *, policy_wins: bool = False
) -> bool:
    """Whether the queue's leader should be the node where it is declared (client-local, RabbitMQ's default), and not
    the one with the fewest queues (balanced, and the older names random and least-leaders). policy_wins: over the
    argument, as with streams; else it is the other way round."""
    said = [arguments.get(LEADER_LOCATOR), (policy or {}).get("queue-leader-locator")]
    found = [each for each in (reversed(said) if policy_wins else said) if each is not None]
    return not found or found[0] == "client-local"


def group_size(
    arguments: Mapping[str, object], policy: Mapping[str, object] | None = None, *, policy_wins: bool = False
) -> int:
    """On how many nodes a queue or a stream is to be when it is declared; 0: nothing is said. policy_wins: see
    `leads_locally`."""
    policy = policy or {}
    said = [
        arguments.get("x-quorum-initial-group-size", arguments.get("x-initial-cluster-size")),
        policy.get("target-group-size", policy.get("initial-cluster-size")),
    ]
    for each in reversed(said) if policy_wins else said:
        if isinstance(each, int) and not isinstance(each, bool) and each > 0:
            return each
    return 0


def _with_delivery_limit(
    arguments: Mapping[str, object], policy: Mapping[str, object], operator_policy: Mapping[str, object] | None
) -> QueueArguments:
    """Arguments and policies together; the default limit where neither says anything, none where the argument is -1. As
    in RabbitMQ, what a policy says of overflow counts before the argument here, and not so in classic queues."""
    fields = read_fields(arguments)
    found = with_policy(fields, policy, operator_policy, delivery_limit=DELIVERY_LIMIT, policy_overflows=True)
    # The log does not know it: whoever leads sees to it that groups expire.
    return replace(found, lease_expires=None)
