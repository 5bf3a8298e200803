"""Filters: a publisher says a value in the header `x-stream-filter-value`, a consumer which values it wants.

A record has the value's hash, and a chunk a Bloom filter of these: so whole chunks are passed over. What is left is
compared by the octets of the header: a consumer gets what it asked for, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from amqp_broker.messages.facts import MessageFacts
from amqp_broker.queue_types.stream.arguments import kind_of
from queues.arguments import ArgumentError
from queues.message import Message
from queues.stream.bloom import Bloom
from queues.stream.chunk import Chunk
from queues.stream.record import hash_of

VALUE: Final = "x-stream-filter-value"
FILTER: Final = "x-stream-filter"
UNFILTERED: Final = "x-stream-match-unfiltered"


def value_of(message: Message) -> bytes | None:
    """The filter value of a message; None where it has none. What is no string is none."""
    return _octets(MessageFacts(message).headers.get(VALUE))


class ReaderFilter:
    """What one consumer wants. values: any of these. takes_unfiltered: what has no value as well."""

    def __init__(self, values: frozenset[bytes], takes_unfiltered: bool) -> None:
        self.values = values
        self.takes_unfiltered = takes_unfiltered
        self._hashes = frozenset(map(hash_of, values))

    def may_want(self, chunk: Chunk) -> bool:
        """Whether there may be something for it in a chunk. One without a Bloom filter has no values."""
        if self.takes_unfiltered:
            return True
        return bool(chunk.bloom) and any(map(Bloom(chunk.bloom).may_have, self._hashes))

    def wants(self, filter_hash: int, message: Callable[[], Message]) -> bool:
        """Whether it wants the message with this hash of a value; `message` makes it, if it has to be looked at."""
        if not filter_hash:
            return self.takes_unfiltered
        return filter_hash in self._hashes and value_of(message()) in self.values


def parse_filter(arguments: Mapping[str, object]) -> ReaderFilter | None:
    """What x-stream-filter and x-stream-match-unfiltered mean; None: all messages. Raises ArgumentError."""
    takes_unfiltered = arguments.get(UNFILTERED, False)
    if not isinstance(takes_unfiltered, bool):
        raise ArgumentError(UNFILTERED, f"expected a boolean, got {kind_of(arguments, UNFILTERED)}")
    if FILTER not in arguments:
        return None
    said = arguments[FILTER]
    values = [_octets(each) for each in (said if isinstance(said, list) else [said])]
    found = frozenset(value for value in values if value is not None)
    if None in values or not found:
        raise ArgumentError(FILTER, f"expected a string or an array of strings, got {kind_of(arguments, FILTER)}")
    return ReaderFilter(found, takes_unfiltered)


def _octets(value: object) -> bytes | None:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    return value if isinstance(value, bytes) else None
