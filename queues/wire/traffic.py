"""Traffic: the commands of which there may be one for every message, and their octets: Enqueue and Settle.

They are what the other commands are (commands.py), but no tuples: compiled, they are read without a call, and made
without a constructor. The packed message of an Enqueue is that of pages (queues/page.py); here it comes from other
nodes, so all of its parts are checked to fit together.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from amqp_broker.octets.buffer import Buffer
from queues.message import Message
from queues.page import AddressBook, get_message, put_message
from queues.wire.reader import Malformed, Reader

#: Octets of a packed message before its address.
_MESSAGE_FIXED = 36
_SEPARATE = 2
_PRIORITY = 4


class How(IntEnum):
    """How deliveries are settled."""

    ACK = 0
    REQUEUE = 1
    REJECT = 2
    RETURN = 3
    """The client has never had them: they go back as they came, and that does not count as a return."""
    FAIL = 4
    """As REQUEUE, after a failure (resting.py). It is said of queues that tell the two apart, and of no others."""


_HOWS = tuple(How)


class Enqueue:
    """One message for queues of this group. producer and producer_sequence, message_id: by these it is recognised when
    it is published again; empty for none."""

    def __init__(
        self,
        queue_ids: tuple[int, ...],
        message: Message,
        producer: bytes = b"",
        producer_sequence: int = 0,
        message_id: bytes = b"",
    ) -> None:
        self.queue_ids = queue_ids
        self.message = message
        self.producer = producer
        self.producer_sequence = producer_sequence
        self.message_id = message_id

    def __iter__(self) -> Iterator[object]:
        return iter((self.queue_ids, self.message, self.producer, self.producer_sequence, self.message_id))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Enqueue) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # nobody looks one up


class Settle:
    """ranges: (first, last) delivery ids, both included."""

    def __init__(self, consumer: int, how: How, ranges: tuple[tuple[int, int], ...]) -> None:
        self.consumer = consumer
        self.how = how
        self.ranges = ranges

    def __iter__(self) -> Iterator[object]:
        return iter((self.consumer, self.how, self.ranges))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Settle) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]


def put_enqueue(buffer: Buffer, command: Enqueue) -> None:
    """Append its fields."""
    buffer.put_u16(len(command.queue_ids))
    for queue_id in command.queue_ids:
        buffer.put_u64(queue_id)
    buffer.put_shortstr(command.producer)
    if command.producer:
        buffer.put_u64(command.producer_sequence)
    buffer.put_shortstr(command.message_id)
    put_message(buffer, command.message)


def put_settle(buffer: Buffer, command: Settle) -> None:
    """Append its fields."""
    buffer.put_u64(command.consumer)
    buffer.put_u8(command.how)
    buffer.put_u32(len(command.ranges))
    for first, last in command.ranges:
        buffer.put_u64(first)
        buffer.put_u64(last)


def read_message(reader: Reader, addresses: AddressBook) -> Message:
    """The packed message from the reader's position to its end, all of whose parts fit together. Raises Malformed."""
    start, end, blob = reader.position, reader.end, reader.data
    data = blob
    if end - start < _MESSAGE_FIXED:
        raise reader.fail("a packed message begins here and is cut")
    flags = data[start]
    if flags & ~7 or (not flags & _PRIORITY and data[start + 1]):
        raise reader.fail(f"a message with flags {flags:#x} and priority {data[start + 1]}")
    if data[start + 2] & 0x80 or data[start + 10] & 0x80:
        raise reader.fail("a message with an expiration or a timestamp of more than 63 bits")
    address = data[start + 34] << 8 | data[start + 35]
    at = start + _MESSAGE_FIXED
    if at + address > end:
        raise reader.fail(f"a message of {end - start} octets announces an address of {address}")
    if address < 2 or data[at] + 2 > address or data[at] + 2 + data[at + 1 + data[at]] != address:
        raise reader.fail("an address is two short strings")
    try:
        message = get_message(blob, start, end, addresses)  # looks whether its sizes fit together
    except ValueError as error:
        raise Malformed(str(error)) from error
    size = _MESSAGE_FIXED + address + len(message.content)
    if flags & _SEPARATE:
        size += _chunks_size(reader, message)
    if size != end - start:
        raise reader.fail(f"a message of {size} octets in a place of {end - start}")
    reader.position = end
    return message


def _chunks_size(reader: Reader, message: Message) -> int:
    """The octets of a packed separate body."""
    chunks = message.body or []
    octets = sum([len(chunk) for chunk in chunks])
    if octets != message.body_size:
        raise reader.fail(f"the chunks of a body are {octets} octets, not {message.body_size}")
    return 4 + 4 * len(chunks) + octets


def get_enqueue(reader: Reader, addresses: AddressBook) -> Enqueue:
    """The command whose fields are all that is left. Raises Malformed."""
    count = reader.u16()
    if not count:
        raise reader.fail("a message for no queue")
    if count == 1:
        queue_ids: tuple[int, ...] = (reader.u64(),)
    else:
        queue_ids = tuple([reader.u64() for _ in range(count)])
    producer = reader.short()
    sequence = reader.u64() if producer else 0
    message_id = reader.short()
    command = Enqueue.__new__(Enqueue)  # a constructor's arguments cost more than all the rest
    command.queue_ids = queue_ids
    command.message = read_message(reader, addresses)
    command.producer = producer
    command.producer_sequence = sequence
    command.message_id = message_id
    return command


def get_settle(reader: Reader) -> Settle:
    """The command at the reader's position. Raises Malformed."""
    consumer = reader.u64()
    how = reader.u8()
    if how >= len(_HOWS):
        raise reader.fail(f"way {how} of settling is not known")
    ranges = []
    for _ in range(reader.count(16)):
        first = reader.u64()
        last = reader.u64()
        if not 0 < first <= last:
            raise reader.fail(f"deliveries from {first} to {last}")
        ranges.append((first, last))
    command = Settle.__new__(Settle)
    command.consumer = consumer
    command.how = _HOWS[how]
    command.ranges = tuple(ranges)
    return command
