"""What makes most of a node's batch (commands.py), put into its octets as it comes: messages for one queue.

What BatchReader is to the reader: nothing is made for a message but its octets, and they are put with few calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from amqp_broker.octets.buffer import Buffer
from queues.page import put_message
from queues.quorum.commands import ENQUEUE

if TYPE_CHECKING:
    from amqp_broker.octets.buffer import Pointer
    from queues.message import Message

# As integers of this module, which a compiled one puts in C.
_ENQUEUE = ENQUEUE
#: Kind, length, number of queues, the queue's id, two empty short strings.
_HEAD_BYTES = 17
_LENGTH_AT = 1
#: Kind and length.
_BEFORE_FIELDS = 5


def put_publish_to_one(buffer: Buffer, queue_id: int, message: Message) -> None:
    """Append the octets of an Enqueue for this queue without marks, as `put_publish` does."""
    start = buffer.length
    if cython.compiled:
        buffer.reserve(_HEAD_BYTES)
        target: Pointer = buffer.data
        target += start
        target[0] = _ENQUEUE
        target[5] = 0
        target[6] = 1
        for place in range(8):
            target[14 - place] = (queue_id >> (8 * place)) & 255
        target[15] = target[16] = 0
        buffer.length += _HEAD_BYTES
    else:
        head = (bytes((_ENQUEUE, 0, 0, 0, 0, 0, 1)), queue_id.to_bytes(8), b"\0\0")
        buffer.put_joined(head)
    put_message(buffer, message)
    buffer.set_u32(start + _LENGTH_AT, buffer.length - start - _BEFORE_FIELDS)
