"""The command about quorum queues over streams, and its octets (commands.py has the others). What else is done with
such a queue the commands of every quorum queue say."""

from __future__ import annotations

from typing import NamedTuple

from queues.quorum.cursor_settings import CursorSettings, get_cursor_settings, put_cursor_settings
from queues.wire.codec import U64, Field, codec_of

OPEN_CURSOR = 32


class OpenCursor(NamedTuple):
    """The queue over a stream is there, with these settings; they replace those it had."""

    queue_id: int
    settings: CursorSettings


_SETTINGS = Field(put_cursor_settings, get_cursor_settings)

CODECS = {OPEN_CURSOR: codec_of(OpenCursor, U64, _SETTINGS)}
