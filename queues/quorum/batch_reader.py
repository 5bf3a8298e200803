"""BatchReader: the commands of a node's batch (commands.py), taken off its octets one by one as they are executed.

    next -> message, queue_ids: of an Enqueue, which is not made | command: any other

It is for who executes a batch at once and needs nothing of it afterwards: the home of classic queues. As there is no
log, commands about streams have no place in such a batch, and the marks of an Enqueue are passed over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from queues.page import AddressBook
from queues.quorum.commands import ENQUEUE, LEADERS_FIRST, LEADERS_LAST, VERSION, get_batch_head
from queues.wire.reader import Reader

if TYPE_CHECKING:
    from queues.message import Message
    from queues.quorum.commands import Command

if not cython.compiled:
    from queues.quorum.commands import get_command
    from queues.wire.traffic import read_message

# As integers of this module, which a compiled one compares in C.
_ENQUEUE = ENQUEUE
_LEADERS_FIRST, _LEADERS_LAST = LEADERS_FIRST, LEADERS_LAST


class BatchReader:
    """origin, session, first: see Batch. message: of the command at hand, if it is an Enqueue, and None of any other,
    which `command` is then. queue_id: the first queue of the Enqueue; queue_ids: all of them, None where it is one.
    Raises Malformed where the batch is made, and where it goes on (`next`): what was taken before stands."""

    def __init__(self, data: bytes, addresses: AddressBook) -> None:
        self._reader = Reader(data, "batch")
        self._fields = Reader(data, "command")
        self._addresses = addresses
        head, version, self._left = get_batch_head(self._reader)
        if version != VERSION or not head.origin:
            raise self._reader.fail(f"a batch of version {version} of '{head.origin}' is for a group, and for no home")
        self.origin = head.origin
        self.session = head.session
        self.first = head.first
        self.message: Message | None = None
        self.command: Command | None = None
        self.queue_id = 0
        self.queue_ids: list[int] | None = None

    def next(self) -> bool:
        """Go on to the next command. Returns whether there is one."""
        reader = self._reader
        if not self._left:
            reader.finish()
            return False
        self._left -= 1
        fields = self._fields
        kind = fields.enter(reader)
        if kind == _ENQUEUE:
            self.command = None
            self._get_enqueue(fields)
            return True
        if _LEADERS_FIRST <= kind <= _LEADERS_LAST:
            raise reader.fail(f"command {kind} is a leader's, and not a node's")
        self.message = None
        self.command = get_command(fields, kind)
        fields.finish()
        return True

    def _get_enqueue(self, fields: Reader) -> None:
        count = fields.u16()
        if not count:
            raise fields.fail("a message for no queue")
        self.queue_id = fields.u64()
        self.queue_ids = None
        if count > 1:
            self.queue_ids = [self.queue_id, *[fields.u64() for _ in range(count - 1)]]
        if fields.short():  # a producer, and its number
            fields.u64()
        fields.short()
        self.message = read_message(fields, self._addresses)
