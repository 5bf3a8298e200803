"""The command about quorum queues over streams, and its octets (commands.py has the others). What else is done with
such a queue the commands of every quorum queue say."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from amqp_broker.octets.buffer import Buffer
from queues.quorum.cursor_settings import CursorSettings, get_cursor_settings, put_cursor_settings
from queues.quorum.reader import Reader

OPEN_CURSOR = 32


class OpenCursor(NamedTuple):
    """The queue over a stream is there, with these settings; they replace those it had."""

    queue_id: int
    settings: CursorSettings


def _put_open(buffer: Buffer, command: OpenCursor) -> None:
    buffer.put_u64(command.queue_id)
    put_cursor_settings(buffer, command.settings)


WRITERS: dict[type, tuple[int, Callable[..., None]]] = {OpenCursor: (OPEN_CURSOR, _put_open)}
READERS: dict[int, Callable[[Reader], OpenCursor]] = {
    OPEN_CURSOR: lambda reader: OpenCursor(reader.u64(), get_cursor_settings(reader))
}
