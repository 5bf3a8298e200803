"""ContentScanner: the few facts of a content header that routing and storing need, read without making objects.

It walks the property section (AMQP 0-9-1 §2.3.5.2) once, checks that every value and every nested table ends where it
should, and notes what it passes: delivery mode, priority, expiration, and where the headers, reply-to and user-id are.
The octets themselves go through the broker untouched.
"""

from __future__ import annotations

import cython

if not cython.compiled:
    from amqp_broker.octets.buffer import get_u16, get_u32

#: Fixed part of a content header's payload: class id, weight, body size.

_CONTENT_TYPE = 1 << 15
_CONTENT_ENCODING = 1 << 14
_HEADERS = 1 << 13
_DELIVERY_MODE = 1 << 12
_PRIORITY = 1 << 11
_CORRELATION_ID = 1 << 10
_REPLY_TO = 1 << 9
_EXPIRATION = 1 << 8
_MESSAGE_ID = 1 << 7
_TIMESTAMP = 1 << 6
_TYPE = 1 << 5
_USER_ID = 1 << 4
_APP_ID = 1 << 3
_CLUSTER_ID = 1 << 2

#: `expiration` when the property is absent, and when it is not a number of milliseconds.
_NO_EXPIRATION = -1
_BAD_EXPIRATION = -2
#: RabbitMQ's cap on all times: ten years.
_MAX_EXPIRATION_MS = 315_360_000_000


class ContentScanner:
    """Facts of the header that was scanned last.

    headers_start, headers_end: the headers table without its length, relative to the scanned octets; 0 when absent.
    expiration_start, expiration_end: likewise. has_copies: a header is named CC or BCC. has_capital_longs: one of
    type L is in them; left over from before where there are none. is_special: one of these four is there, or
    an expiration that is no number.
    """

    def __init__(self, max_depth: int) -> None:
        self.max_depth = max_depth
        self.is_persistent = False
        self.priority = -1
        self.expiration = _NO_EXPIRATION
        self.headers_start = 0
        self.headers_end = 0
        self.has_reply_to = False
        self.has_user_id = False
        self.expiration_start = 0
        self.expiration_end = 0
        self.has_copies = False
        self.has_capital_longs = False
        self.is_special = False
        self._scanned: bytes | None = None
        self._scanned_position = 0

    def scan(self, data: bytes, position: int, end: int) -> bool:
        """Scan the property section data[position:end]. Returns whether it is well formed."""
        if cython.compiled:
            return self._scan(data, position, end)
        else:
            # Publishers say the same again and again: what was found last is still there.
            section = data[position:end]
            if section != self._scanned or position != self._scanned_position:
                self._scanned = section if self._scan(data, position, end) else None
                self._scanned_position = position
            return self._scanned is not None

    def headers_of(self, content: bytes) -> bytes:
        """The octets of the headers in what was scanned last; empty where there are none."""
        return content[self.headers_start : self.headers_end]

    def _scan(self, data: bytes, position: int, end: int) -> bool:
        self.is_persistent = False
        self.priority = -1
        self.expiration = _NO_EXPIRATION
        self.headers_start = 0
        self.headers_end = 0
        self.has_reply_to = False
        self.has_user_id = False
        self.has_copies = False
        self.is_special = False
        if position + 2 > end:
            return False
        flags = get_u16(data, position)
        position += 2
        if flags == 0:
            return position == end
        if flags & 3:
            return False
        if flags & _CONTENT_TYPE:
            position = self._skip_short(data, position, end)
        if flags & _CONTENT_ENCODING and position >= 0:
            position = self._skip_short(data, position, end)
        if flags & _HEADERS and position >= 0:
            position = self._scan_headers(data, position, end)
        if flags & _DELIVERY_MODE and position >= 0:
            if position >= end:
                return False
            self.is_persistent = data[position] == 2
            position += 1
        if flags & _PRIORITY and position >= 0:
            if position >= end:
                return False
            self.priority = data[position]
            position += 1
        if flags & 0x7FC and position >= 0:
            position = self._scan_rest(data, position, end, flags)
        return position == end

    def _scan_rest(self, data: bytes, position: int, end: int, flags: int) -> int:
        """The properties behind priority; -1 when they are malformed."""
        if flags & _CORRELATION_ID:
            position = self._skip_short(data, position, end)
        if flags & _REPLY_TO and position >= 0:
            position = self._skip_short(data, position, end)
            self.has_reply_to = True
            self.is_special = True
        if flags & _EXPIRATION and position >= 0:
            self.expiration_start = position + 1
            position = self._skip_short(data, position, end)
            self.expiration_end = position
            self.expiration = self._number(data, self.expiration_start, position)
            if self.expiration == _BAD_EXPIRATION:
                if position > self.expiration_start and data[self.expiration_start] == 43:  # a plus sign
                    self.expiration = self._number(data, self.expiration_start + 1, position)
                self.is_special = True
        if flags & _MESSAGE_ID and position >= 0:
            position = self._skip_short(data, position, end)
        if flags & _TIMESTAMP and position >= 0:
            position = position + 8 if position + 8 <= end else -1
        if flags & _TYPE and position >= 0:
            position = self._skip_short(data, position, end)
        if flags & _USER_ID and position >= 0:
            position = self._skip_short(data, position, end)
            self.has_user_id = True
            self.is_special = True
        if flags & _APP_ID and position >= 0:
            position = self._skip_short(data, position, end)
        if flags & _CLUSTER_ID and position >= 0:
            position = self._skip_short(data, position, end)
        return position

    def _number(self, data: bytes, position: int, end: int) -> int:
        """The decimal digits data[position:end] as a number; _BAD_EXPIRATION when they are none or too many."""
        if position >= end or end - position > 12:
            return _BAD_EXPIRATION
        value = 0
        while position < end:
            digit = data[position]
            if digit < 48 or digit > 57:
                return _BAD_EXPIRATION
            value = value * 10 + digit - 48
            position += 1
        return value if value <= _MAX_EXPIRATION_MS else _BAD_EXPIRATION

    def _skip_short(self, data: bytes, position: int, end: int) -> int:
        """The position behind a short string, or -1."""
        if position >= end:
            return -1
        position += 1 + data[position]
        return position if position <= end else -1

    def _scan_headers(self, data: bytes, position: int, end: int) -> int:
        """The position behind the headers table, or -1; notes whether CC or BCC is in it."""
        if position + 4 > end:
            return -1
        size = get_u32(data, position)
        position += 4
        if size > end - position:
            return -1
        self.headers_start = position
        self.headers_end = position + size
        self.has_capital_longs = False
        return self._walk(data, position, position + size, True, 1)

    def _walk(self, data: bytes, position: int, end: int, has_keys: bool, depth: int) -> int:
        """Walk a table's pairs or an array's values; the position behind them (= end), or -1."""
        if depth > self.max_depth:
            return -1
        while position < end:
            if has_keys:
                length = data[position]
                if depth == 1 and (length == 2 or length == 3) and position + length < end:
                    self._look_for_copies(data, position + 1, length)
                position += 1 + length
                if position >= end:
                    return -1
            kind = data[position]
            position += 1
            if kind == 83 or kind == 120 or kind == 70 or kind == 65:  # S, x, F, A
                if position + 4 > end:
                    return -1
                size = get_u32(data, position)
                position += 4
                if size > end - position:
                    return -1
                if (kind == 70 or kind == 65) and (
                    self._walk(data, position, position + size, kind == 70, depth + 1) < 0
                ):
                    return -1
                position += size
            else:
                position += self._width(kind)
                if position > end:
                    return -1
        return position

    def _look_for_copies(self, data: bytes, position: int, length: int) -> None:
        last = position + length - 1
        if data[last] == 67 and data[last - 1] == 67 and (length == 2 or data[position] == 66):
            self.has_copies = True
            self.is_special = True

    def _width(self, kind: int) -> int:
        """Octets of a value of fixed width; an impossible width for an unknown type, so that the walk fails."""
        if kind == 116 or kind == 98 or kind == 66:  # t b B
            return 1
        if kind == 73 or kind == 105 or kind == 102:  # I i f
            return 4
        if kind == 108 or kind == 100 or kind == 84:  # l d T
            return 8
        if kind == 86:  # V
            return 0
        if kind == 115 or kind == 117:  # s u
            return 2
        if kind == 68:  # D
            return 5
        if kind == 76:  # L
            self.has_capital_longs = True
            self.is_special = True
            return 8
        return 1 << 40
