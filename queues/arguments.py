"""QueueArguments: what a queue's arguments (x-...) and the policy on it mean, checked and merged.

It knows the names, types and ranges; it does not know AMQP's errors: a bad argument raises ArgumentError with
RabbitMQ's words, and the caller turns it into a channel exception.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

#: RabbitMQ's cap on all times: ten years, in milliseconds.
MAX_TIME_MS = 315_360_000_000
#: No time is above it, so that the sum of a time and a capped duration fits into 63 bits. Milliseconds.
TIME_MAX = (1 << 62) - 1

#: Of messages that rest before they come again, which quorum queues have; the keys of policies are the same without x-.
RETRY_ARGUMENTS = ("x-delayed-retry-type", "x-delayed-retry-min", "x-delayed-retry-max")


class ArgumentError(ValueError):
    """An argument with a wrong type or value. `key` names it, `reason` says what is wrong with it."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"invalid arg '{key}': {reason}")
        self.key = key
        self.reason = reason
        self.is_name = False


class WrongArgument(ValueError):
    """An argument that belongs to another type of queue."""

    def __init__(self, key: str, queue_type: str) -> None:
        super().__init__(f"invalid arg '{key}' for a queue of type {queue_type}")
        self.key = key
        self.queue_type = queue_type


class Overflow(Enum):
    """What happens when a queue is full."""

    DROP_HEAD = "drop-head"
    REJECT_PUBLISH = "reject-publish"
    REJECT_PUBLISH_DLX = "reject-publish-dlx"


@dataclass(frozen=True, slots=True)
class QueueArguments:
    """The settings of one queue. Times in milliseconds; None means that the setting is off."""

    message_ttl: int | None = None
    expires: int | None = None
    max_length: int | None = None
    max_length_bytes: int | None = None
    overflow: Overflow = Overflow.DROP_HEAD
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None
    max_priority: int | None = None
    single_active_consumer: bool = False
    delivery_limit: int | None = None
    lease_expires: int | None = None


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def read_integer(key: str, value: object, low: int, high: int | None) -> int:
    """An integer from low to high. Raises ArgumentError."""
    if not _is_integer(value):
        raise ArgumentError(key, f"expected an integer, got {_kind(value)}")
    number: int = int(value)  # type: ignore[call-overload]
    if number < low:
        raise ArgumentError(key, f"{number} is below {low}")
    if high is not None and number > high:
        raise ArgumentError(key, f"{number} is above {high}")
    return number


def _name(key: str, value: object) -> str:
    """A string that names something; RabbitMQ words a wrong type of it differently."""
    try:
        return read_string(key, value)
    except ArgumentError as error:
        error.is_name = True
        raise


def read_string(key: str, value: object) -> str:
    """A string. Raises ArgumentError."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if not isinstance(value, str):
        raise ArgumentError(key, f"expected a string, got {_kind(value)}")
    return value


def read_boolean(key: str, value: object) -> bool:
    """True or false. Raises ArgumentError."""
    if not isinstance(value, bool):
        raise ArgumentError(key, f"expected a boolean, got {_kind(value)}")
    return value


def _kind(value: object) -> str:
    return "nothing" if value is None else type(value).__name__


def _overflow(key: str, value: object) -> Overflow:
    text = read_string(key, value)
    try:
        return Overflow(text)
    except ValueError:
        allowed = ", ".join(each.value for each in Overflow)
        raise ArgumentError(key, f"'{text}' is not one of {allowed}") from None


#: Argument name -> (field of QueueArguments, check).
_READERS: dict[str, tuple[str, Callable[[str, object], object]]] = {
    "x-message-ttl": ("message_ttl", lambda k, v: read_integer(k, v, 0, MAX_TIME_MS)),
    "x-expires": ("expires", lambda k, v: read_integer(k, v, 1, MAX_TIME_MS)),
    "x-max-length": ("max_length", lambda k, v: read_integer(k, v, 0, None)),
    "x-max-length-bytes": ("max_length_bytes", lambda k, v: read_integer(k, v, 0, None)),
    "x-overflow": ("overflow", _overflow),
    "x-dead-letter-exchange": ("dead_letter_exchange", _name),
    "x-dead-letter-routing-key": ("dead_letter_routing_key", read_string),
    "x-max-priority": ("max_priority", lambda k, v: read_integer(k, v, 0, 255)),
    "x-single-active-consumer": ("single_active_consumer", read_boolean),
    "x-delivery-limit": ("delivery_limit", lambda k, v: read_integer(k, v, -1, None)),
    "x-lease-expires": ("lease_expires", lambda k, v: read_integer(k, v, 1, MAX_TIME_MS)),
}
#: Arguments that are read for every type of queue that keeps its messages until they are acknowledged.
OF_ALL_QUEUES = tuple(_READERS)


def read_fields(arguments: Mapping[str, object]) -> dict[str, object]:
    """The fields of QueueArguments that are given. Raises ArgumentError; names that are not of queues of every type are
    passed over."""
    fields: dict[str, object] = {}
    for key, value in arguments.items():
        reader = _READERS.get(key)
        if reader is not None:
            fields[reader[0]] = reader[1](key, value)
    if "dead_letter_routing_key" in fields and "dead_letter_exchange" not in fields:
        raise ArgumentError("x-dead-letter-routing-key", "routing_key_but_no_dlx_defined")
    if fields.get("max_priority") == 0:
        del fields["max_priority"]
    return fields



def _accept(key: str, value: object) -> None:
    """Arguments that are checked and have no effect here."""
    if key == "x-queue-mode" and read_string(key, value) not in ("default", "lazy"):
        raise ArgumentError(key, f"'{value!s}' is not one of default, lazy")
    if key == "x-queue-version":
        read_integer(key, value, 1, 2)
    if key == "x-queue-master-locator":
        read_string(key, value)


#: Arguments that only streams know.
OF_STREAMS = (
    "x-max-age",
    "x-stream-max-segment-size-bytes",
    "x-stream-compact",
    "x-stream-compression",
    "x-stream-filter-size-bytes",
    "x-stream-key",
    "x-stream-tombstone-age",
    "x-initial-cluster-size",
    "x-stream-partitions",
)
#: Arguments that only classic queues know.
OF_CLASSIC_QUEUES = ("x-queue-mode", "x-queue-version", "x-queue-master-locator")
_OF_OTHER_TYPES = (*OF_STREAMS, "x-quorum-initial-group-size", "x-dead-letter-strategy", "x-stream-source")


def read_classic_fields(arguments: Mapping[str, object]) -> dict[str, object]:
    """The fields of QueueArguments that a classic queue's arguments give. Raises ArgumentError, WrongArgument; unknown
    names are ignored."""
    for key, value in arguments.items():
        if key in _OF_OTHER_TYPES:
            raise WrongArgument(key, "classic")
        if key in OF_CLASSIC_QUEUES:
            _accept(key, value)
    return read_fields(arguments)


def parse_arguments(arguments: Mapping[str, object]) -> QueueArguments:
    """A classic queue's arguments where no policy applies. Raises ArgumentError, WrongArgument; unknown names are
    ignored."""
    return with_policy(read_classic_fields(arguments), {})


#: Policy key -> field. For the first group the lower of the queue's own and the policy's value wins.
_POLICY_MINIMUM = {
    "message-ttl": "message_ttl",
    "expires": "expires",
    "max-length": "max_length",
    "max-length-bytes": "max_length_bytes",
    "delivery-limit": "delivery_limit",
    "lease-expires": "lease_expires",
}
_POLICY_DEFAULT = {
    "dead-letter-exchange": "dead_letter_exchange",
    "dead-letter-routing-key": "dead_letter_routing_key",
}


def merged_definition(
    policy: Mapping[str, object] | None, operator_policy: Mapping[str, object] | None
) -> dict[str, object]:
    """What a policy and an operator policy come to, where no argument says anything: of a limit the lower one (-1 is
    none), of target-group-size the higher one, of everything else what the operator says."""
    merged = dict(policy or {})
    for key, value in (operator_policy or {}).items():
        known = merged.get(key)
        if isinstance(known, int) and isinstance(value, int):
            takes_higher = key == "target-group-size" or min(known, value) < 0
            merged[key] = max(known, value) if takes_higher else min(known, value)
        else:
            merged[key] = value
    return merged


def with_policy(
    fields: Mapping[str, object],
    policy: Mapping[str, object],
    operator_policy: Mapping[str, object] | None = None,
    *,
    delivery_limit: int | None = None,
    policy_overflows: bool = False,
) -> QueueArguments:
    """The settings in force of a queue whose arguments give these fields (read_fields): an argument that says what is
    the default is not one that is missing. The definitions have been checked before.

    A limit is the lowest of argument and policies; of other settings the argument counts, then the operator policy,
    then the policy. policy_overflows: of overflow the policies count before the argument. delivery_limit: where nobody
    says any.
    """
    settings = dict(fields)
    operator_policy = operator_policy or {}
    for key, field in _POLICY_MINIMUM.items():
        said = [fields.get(field), policy.get(key), operator_policy.get(key)]
        numbers = [value for value in said if isinstance(value, int)]
        limits = [value for value in numbers if value >= 0]  # -1: none, which is another thing than not to say any
        settings[field] = min(limits) if limits else None
        if field == "delivery_limit" and not numbers:
            settings[field] = delivery_limit
    for key, field in _POLICY_DEFAULT.items():
        if field not in fields and key in policy:
            settings[field] = str(policy[key])
    by_policy = operator_policy.get("overflow", policy.get("overflow"))
    if by_policy is not None and (policy_overflows or "overflow" not in fields):
        settings["overflow"] = Overflow(by_policy)
    return QueueArguments(**settings)  # type: ignore[arg-type]
