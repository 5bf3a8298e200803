"""QuorumSettings: what is in force for one quorum queue, and its octets in a command or an image.

    u64 + 1, or 0 for off, each: message TTL, expires, max length, max length octets, max priority, delivery limit,
    consumer timeout, deduplication TTL; u32 deduplication window; u8 overflow; u8 flags (1 single active consumer,
    2 dead letter exchange, 4 dead letter routing key, 8 dead letters at least once, 16 holds back, 32 retry,
    64 gives way); exchange and routing key as short strings where they are there; of retry u8 type, u64 least,
    u64 most + 1
"""

from __future__ import annotations

from dataclasses import dataclass

from amqp_broker.octets.buffer import Buffer
from queues.arguments import Overflow, QueueArguments
from queues.quorum.retry import Retry, RetryType
from queues.wire.reader import U64_MAX, Reader, octets_of

_SINGLE_ACTIVE = 1
_HAS_EXCHANGE = 2
_HAS_ROUTING_KEY = 4
_AT_LEAST_ONCE = 8
_HOLDS_BACK = 16
_HAS_RETRY = 32
_GIVES_WAY = 64
_MOST_MS = U64_MAX >> 1
_OVERFLOWS = (Overflow.DROP_HEAD, Overflow.REJECT_PUBLISH, Overflow.REJECT_PUBLISH_DLX)


@dataclass(frozen=True, slots=True)
class QuorumSettings:
    """arguments: those that every queue knows, delivery_limit with its default applied.

    consumer_timeout: how long one delivery may be held, milliseconds; None: for ever. deduplication_window: so many
    message ids are remembered, 0 for none; deduplication_ttl: for so long, milliseconds; None: as long as they fit.
    at_least_once: a dead letter that finds no queue, or full ones, is kept and tried again, and not dropped.
    holds_back: messages wait in it until they expire, and stand in the order in which they do: the queue of an exchange
    that delays. retry: which messages rest before they come again, and how long; None: none does. gives_way: a single
    active consumer stands by again, once it holds nothing, for one that has a higher priority. Queues of which the
    version before knows all have neither.
    """

    arguments: QueueArguments = QueueArguments()  # noqa: RUF009  # frozen
    consumer_timeout: int | None = None
    deduplication_window: int = 0
    deduplication_ttl: int | None = None
    at_least_once: bool = False
    holds_back: bool = False
    retry: Retry | None = None
    gives_way: bool = False

    @property
    def is_extended(self) -> bool:
        """Whether the version before does not know all of it: it has forms of its own."""
        return self.retry is not None or self.gives_way


def put_settings(buffer: Buffer, settings: QuorumSettings) -> None:
    """Append the settings. Numbers beyond 63 bits are cut to them: they mean "never" all the same."""
    arguments = settings.arguments
    for value in (
        arguments.message_ttl,
        arguments.expires,
        arguments.max_length,
        arguments.max_length_bytes,
        arguments.max_priority,
        arguments.delivery_limit,
        settings.consumer_timeout,
        settings.deduplication_ttl,
    ):
        buffer.put_u64(0 if value is None else min(value, U64_MAX >> 1) + 1)
    buffer.put_u32(settings.deduplication_window)
    buffer.put_u8(_OVERFLOWS.index(arguments.overflow))
    exchange, routing_key = arguments.dead_letter_exchange, arguments.dead_letter_routing_key
    buffer.put_u8(
        (_SINGLE_ACTIVE if arguments.single_active_consumer else 0)
        | (_HAS_EXCHANGE if exchange is not None else 0)
        | (_HAS_ROUTING_KEY if routing_key is not None else 0)
        | (_AT_LEAST_ONCE if settings.at_least_once else 0)
        | (_HOLDS_BACK if settings.holds_back else 0)
        | (_HAS_RETRY if settings.retry is not None else 0)
        | (_GIVES_WAY if settings.gives_way else 0)
    )
    for name in (exchange, routing_key):
        if name is not None:
            buffer.put_shortstr(octets_of(name))
    if settings.retry is not None:
        kind, least, most = settings.retry
        buffer.put_u8(kind)
        buffer.put_u64(min(least, _MOST_MS))
        buffer.put_u64(0 if most is None else min(most, _MOST_MS) + 1)


def get_settings(reader: Reader) -> QuorumSettings:
    """The settings at the reader's position. Raises Malformed."""
    numbers: list[int | None] = []
    for _ in range(8):
        value = reader.u64()
        if value > (U64_MAX >> 1) + 1:
            raise reader.fail(f"a setting of {value}")
        numbers.append(value - 1 if value else None)
    ttl, expires, max_length, max_length_bytes, max_priority, delivery_limit, timeout, deduplication_ttl = numbers
    if max_priority is not None and not 0 < max_priority <= 255:
        raise reader.fail(f"max priority {max_priority}: 1 to 255 are possible")
    window = reader.u32()
    overflow = reader.u8()
    if overflow >= len(_OVERFLOWS):
        raise reader.fail(f"overflow {overflow} is not known")
    flags = reader.flags(127)
    exchange = reader.name() if flags & _HAS_EXCHANGE else None
    routing_key = reader.name() if flags & _HAS_ROUTING_KEY else None
    retry = _get_retry(reader) if flags & _HAS_RETRY else None
    arguments = QueueArguments(
        ttl, expires, max_length, max_length_bytes, _OVERFLOWS[overflow], exchange, routing_key, max_priority,
        bool(flags & _SINGLE_ACTIVE), delivery_limit,
    )  # fmt: skip
    return QuorumSettings(
        arguments, timeout, window, deduplication_ttl, bool(flags & _AT_LEAST_ONCE), bool(flags & _HOLDS_BACK), retry,
        bool(flags & _GIVES_WAY),
    )  # fmt: skip


def _get_retry(reader: Reader) -> Retry:
    kind, least, most = reader.u8(), reader.u64(), reader.u64()
    if not 0 < kind <= RetryType.RETURNED or least > _MOST_MS or most > _MOST_MS + 1:
        raise reader.fail(f"retry of type {kind} from {least} to {most}")
    return Retry(RetryType(kind), least, most - 1 if most else None)
