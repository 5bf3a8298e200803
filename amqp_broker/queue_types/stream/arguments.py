"""What a stream's arguments (x-...) and the policies on it mean: StreamSettings.

A policy wins over the argument, or a stream could never keep more than it was declared with. The texts of refusals are
RabbitMQ's, Erlang's terms among them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from amqp_broker.protocol.fields import KIND_NAMES, Table, decode_table, encode_table, table_fields
from amqp_broker.queue_types.contract.own_words import OwnWords
from amqp_broker.queue_types.contract.policy_keys import Definition
from queues.arguments import OF_CLASSIC_QUEUES, ArgumentError, QueueArguments, WrongArgument
from queues.quorum.arguments import LEADER_LOCATOR, LEADER_LOCATORS
from queues.stream.keys import HEADER, MESSAGE_ID, ROUTING_KEY, is_key
from queues.stream.settings import COMPRESSIONS, FILTER_BYTES, SEGMENT_BYTES, StreamSettings
from queues.stream.shares import MOST_PARTITIONS

#: RabbitMQ's limits.
MOST_SEGMENT_BYTES: Final = 3_000_000_000
MOST_FILTER_BYTES: Final = 255
#: In texts, where an argument is of another type.
RABBITMQ_NAME: Final = "rabbit_stream_queue"

_MAX_LENGTH: Final = "x-max-length-bytes"
_MAX_AGE: Final = "x-max-age"
_SEGMENT: Final = "x-stream-max-segment-size-bytes"
_FILTER: Final = "x-stream-filter-size-bytes"
_MEMBERS: Final = "x-initial-cluster-size"
PARTITIONS: Final = "x-stream-partitions"
COMPACT: Final = "x-stream-compact"
_KEY: Final = "x-stream-key"
_TOMBSTONES: Final = "x-stream-tombstone-age"
_COMPRESSION: Final = "x-stream-compression"
#: By which declarations are compared, besides what other types have too.
OWN_ARGUMENTS: Final = (
    _MAX_AGE, _SEGMENT, _FILTER, _MEMBERS, LEADER_LOCATOR, PARTITIONS, COMPACT, _KEY, _TOMBSTONES, _COMPRESSION,
)  # fmt: skip

#: Values that a form may begin with.
EXAMPLES: Final = {_MAX_AGE: "7D", PARTITIONS: 8}

#: Arguments that other types of queues have.
_OF_OTHER_TYPES: Final = (
    "x-expires", "x-message-ttl", "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-dead-letter-strategy",
    "x-max-length", "x-max-in-memory-length", "x-max-in-memory-bytes", "x-max-priority", "x-overflow",
    *OF_CLASSIC_QUEUES, "x-single-active-consumer", "x-delivery-limit",
    "x-quorum-initial-group-size", "x-message-deduplication", "x-deduplication-ttl", "x-consumer-timeout",
    "x-lease-expires", "x-stream-source", "x-delayed-retry-type", "x-delayed-retry-min", "x-delayed-retry-max",
)  # fmt: skip

_SECOND: Final = 1000
#: Of ages, milliseconds; a year and a month are always as long.
_UNITS: Final = {
    "Y": 365 * 86_400 * _SECOND,
    "M": 30 * 86_400 * _SECOND,
    "D": 86_400 * _SECOND,
    "h": 3600 * _SECOND,
    "m": 60 * _SECOND,
    "s": _SECOND,
}
_AGE: Final = re.compile(r"0*([1-9][0-9]{0,18})([YMDhms])", re.ASCII)
#: Nothing is older than time itself: what is longer is cut. Milliseconds.
_LONGEST_AGE: Final = 1 << 62


def age_of(text: str) -> int | None:
    """Of "7D", the milliseconds; None where it is no age: a number above 0 and one of Y M D h m s."""
    found = _AGE.fullmatch(text)
    return min(int(found[1]) * _UNITS[found[2]], _LONGEST_AGE) if found is not None else None


def parse_stream_arguments(
    arguments: Mapping[str, object], policy: Definition = None, operator_policy: Definition = None
) -> StreamSettings:
    """The settings in force. Raises ArgumentError, OwnWords, WrongArgument; unknown names are ignored. The definitions
    of the policies have been checked before."""
    said = _read(arguments)
    for definition in (policy, operator_policy):
        for key, (name, _) in _READERS.items():
            value = (definition or {}).get(key.removeprefix("x-"))
            if value is not None and name is not None:
                said[name] = _of_policy(key, value)
    if policy and operator_policy and "max-length-bytes" in policy and "max-length-bytes" in operator_policy:
        said["max_length_bytes"] = min(_number(policy), _number(operator_policy))
    return StreamSettings(**said)  # type: ignore[arg-type]


def as_queue_arguments(settings: StreamSettings) -> QueueArguments:
    """What of it all queues have."""
    return QueueArguments(max_length_bytes=settings.max_length_bytes)


def _read(arguments: Mapping[str, object]) -> dict[str, object]:
    """The fields of StreamSettings that the arguments set."""
    for key in arguments:
        if key in _OF_OTHER_TYPES:
            raise WrongArgument(key, RABBITMQ_NAME)
    said: dict[str, object] = {}
    for key, (name, check) in _READERS.items():
        if key in arguments:
            value = check(arguments, key)
            if name is not None:
                said[name] = value
    if not said.pop("is_compacted", False):
        for key in (_KEY, _TOMBSTONES):
            if key in arguments:
                raise ArgumentError(key, f"it has a meaning with {COMPACT} true only, which this stream does not have")
    elif "key" not in said:
        said["key"] = ROUTING_KEY
    return said


def _of_policy(key: str, value: object) -> object:
    if key in (_MAX_AGE, _TOMBSTONES):
        return age_of(str(value))
    return min(int(str(value)), MOST_SEGMENT_BYTES) if key == _SEGMENT else value


def _number(definition: Mapping[str, object]) -> int:
    return int(str(definition["max-length-bytes"]))


def kind_of(arguments: Mapping[str, object], key: str) -> str:
    """The type of a value, as RabbitMQ's texts call it."""
    table = arguments if isinstance(arguments, Table) else Table({key: arguments[key]})
    return KIND_NAMES.get(table.kind(key), "unknown")


def _integer(arguments: Mapping[str, object], key: str) -> int:
    value = arguments[key]
    if not isinstance(value, int) or isinstance(value, bool) or kind_of(arguments, key) == "timestamp":
        raise ArgumentError(key, f'"expected integer, got {kind_of(arguments, key)}"')
    if value < 0:
        raise ArgumentError(key, f"{{value_negative,{value}}}")
    return int(value)


def _text(arguments: Mapping[str, object], key: str) -> str:
    value = arguments[key]
    if isinstance(value, str):
        return str(value)
    if kind_of(arguments, key) == "longstr":  # octets that are no UTF-8
        return ""
    raise ArgumentError(key, f"{{unacceptable_type,{kind_of(arguments, key)}}}")


def _age(arguments: Mapping[str, object], key: str) -> int:
    age = age_of(_text(arguments, key))
    if age is None:
        raise ArgumentError(key, "invalid_max_age")
    return age


def _segment(arguments: Mapping[str, object], key: str) -> int:
    size = _integer(arguments, key)
    if size > MOST_SEGMENT_BYTES:
        raise OwnWords(key, f"Exceeded max value for {key}")
    return size


def _filter(arguments: Mapping[str, object], key: str) -> int:
    try:
        size = _integer(arguments, key)
    except ArgumentError as error:
        what = "value" if "negative" in error.reason else "type"
        raise OwnWords(key, f"Invalid {what} for {key}") from None
    if not FILTER_BYTES <= size <= MOST_FILTER_BYTES:
        raise OwnWords(key, f"Invalid value for {key}")
    return size


def _members(arguments: Mapping[str, object], key: str) -> int:
    """Every node has a copy; the number is checked."""
    count = _integer(arguments, key)
    if not count:
        raise ArgumentError(key, "{value_zero,0}")
    return count


def _locator(arguments: Mapping[str, object], key: str) -> str:
    text = _text(arguments, key)
    if text not in LEADER_LOCATORS:
        raise ArgumentError(key, "invalid_queue_locator_arg")
    return text


def _compact(arguments: Mapping[str, object], key: str) -> bool:
    value = arguments[key]
    if not isinstance(value, bool):
        raise ArgumentError(key, f"expected true or false, got {kind_of(arguments, key)}")
    return value


def _key(arguments: Mapping[str, object], key: str) -> str:
    text = _text(arguments, key)
    if not is_key(text):
        raise ArgumentError(key, f"'{text}' is none of {ROUTING_KEY}, {MESSAGE_ID} and {HEADER}NAME, the name of a "
                            "header of 1 to 200 octets")  # fmt: skip
    return text


def _tombstones(arguments: Mapping[str, object], key: str) -> int:
    text = _text(arguments, key)
    age = 0 if text == "0s" else age_of(text)
    if age is None:
        raise ArgumentError(key, f"'{text}' is no time such as 12h or 7D: a number and one of Y M D h m s")
    return age


def _compression(arguments: Mapping[str, object], key: str) -> str:
    text = _text(arguments, key)
    if text not in COMPRESSIONS:
        raise ArgumentError(key, f"'{text}' is none of {' and '.join(COMPRESSIONS)}")
    return text


def _partitions(arguments: Mapping[str, object], key: str) -> int:
    count = _integer(arguments, key)
    if not 0 < count <= MOST_PARTITIONS:
        raise ArgumentError(key, f"{count} partitions, and there are 1 to {MOST_PARTITIONS}")
    return count


def partitions_of(arguments: Mapping[str, object]) -> int:
    """How many partitions a stream has that was declared so; 0 for one that is none of several."""
    return _partitions(arguments, PARTITIONS) if PARTITIONS in arguments else 0


def with_partitions(arguments: Table, count: int) -> Table:
    """The same, but for how many partitions there are; 0: nothing is said of that."""
    kept = [field for key, field in table_fields(arguments.raw, 0, len(arguments.raw)) if key != PARTITIONS.encode()]
    if count:
        kept.append(encode_table({PARTITIONS: count}))
    return decode_table(b"".join(kept))


_Check = Callable[[Mapping[str, object], str], object]
#: By argument: the field of StreamSettings, and what reads it. In the order in which they are looked at.
_READERS: Final[Mapping[str, tuple[str | None, _Check]]] = {
    _MAX_LENGTH: ("max_length_bytes", _integer),
    _MAX_AGE: ("max_age", _age),
    _SEGMENT: ("segment_bytes", _segment),
    _FILTER: ("filter_bytes", _filter),
    COMPACT: ("is_compacted", _compact),
    _KEY: ("key", _key),
    _TOMBSTONES: ("tombstone_age", _tombstones),
    _COMPRESSION: ("compression", _compression),
    _MEMBERS: (None, _members),
    LEADER_LOCATOR: (None, _locator),
    PARTITIONS: (None, _partitions),
}
assert SEGMENT_BYTES <= MOST_SEGMENT_BYTES
