"""Deaths: what a dead letter tells of how it came to be one: x-death, x-first-death-* and x-last-death-*.

Everything is done on octets. What a header holds keeps its type, its octets and its place; an entry of x-death that is
not changed is copied. What is the same for all messages that die of one thing in one second is encoded once (`Death`).

    x-death             an array of tables, the newest death first; one entry for each pair of queue and reason:
                        count l, reason S, queue S, time T (of the first), exchange S, routing-keys A of S,
                        original-expiration S where the message had an expiration
    x-first-death-*     reason, queue, exchange of the first death: set when the message has no x-death
    x-last-death-*      the same of the last one

An x-death that a publisher has set is continued, as RabbitMQ 3.13 does: the entry with this queue and reason counts one
more, whatever integer its count was, and comes first; other entries stay; what is no array is replaced. (RabbitMQ 4
does not look at it and begins anew.)

Invariants:
1. A letter differs from its message in these headers, BCC, CC (where the queue has a key of its own for letters), the
   expiration and the address; everything else is octet for octet the same, in the same order.
2. x-death holds the newest entry whole, and of the others so many, the newest first, as fit into `max_history_bytes`.
3. Whatever a publisher has put there, a letter is made: nothing is raised.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from amqp_broker.protocol.content import ContentScanner
from amqp_broker.protocol.fields import array_values, decode_table, encode_value, table_fields, typed
from queues.message import NO_EXPIRATION, PROPERTIES_OFFSET, Message, header_frame, with_header

_KNOWN_DEATHS = 256
"""So many are kept encoded."""
_MAX_DEPTH = 512
"""Of tables in headers: above what any setting lets in, because the message is in the broker already."""
_HEADERS_FLAG = 0x2000
_EXPIRATION_FLAG = 0x0100
_BEFORE_HEADERS = 0xC000  # content-type and content-encoding, short strings both
_MAX_COUNT = (1 << 63) - 1
_INTEGERS: Final = b"bBsuIilL"


class Death:
    """What all messages have in common that die in one queue, of one reason, in one second, and were published to one
    exchange. Fields of tables are whole: name, type and value.

    queue_field, reason_field: of an entry. head: an entry's fields up to the routing keys. first, last: the fields
    beside x-death, by name. entry, history: of the message that `take` has named last, without CC and expiration: an
    entry of x-death, and x-death with nothing else; companions: what comes behind the other headers of such a message.
    """

    def __init__(self, queue: str, reason: str, exchange: bytes, second: int) -> None:
        self.queue = queue
        self.reason = reason
        self.exchange = exchange
        self.second = second
        names = {"reason": encode_value(reason), "queue": encode_value(queue), "exchange": _long_string(exchange)}
        self.queue_field = _field("queue", names["queue"])
        self.reason_field = _field("reason", names["reason"])
        self.head = b"".join(
            (
                _field("count", typed("l", 1)),
                self.reason_field,
                self.queue_field,
                _field("time", typed("T", second)),
                _field("exchange", names["exchange"]),
            )
        )
        self.first, self.last = (
            {name.encode(): _field(name, value) for name, value in fields.items()}
            for fields in (
                {f"x-{which}-death-{name}": value for name, value in names.items()} for which in ("first", "last")
            )
        )
        self.companions = b"".join((*self.first.values(), *self.last.values()))
        self.raw = b""
        self.expiration = NO_EXPIRATION
        self.entry = self.history = b""

    def take(self, raw: bytes, expiration: int) -> None:
        """The message that is dealt with was published to the address `raw`: `entry` and `history` are its."""
        if self.raw != raw or self.expiration != expiration:
            self.raw = raw
            self.expiration = expiration
            self.entry = self.make_entry(raw, b"", expiration)
            self.history = _field("x-death", _sized("A", self.entry))

    def make_entry(self, raw: bytes, copies: bytes, expiration: int) -> bytes:
        """An entry of x-death. raw: the address of its message; copies: the values in the header CC."""
        key = _long_string(raw[2 + raw[0] :])
        fields = self.head + _field("routing-keys", _sized("A", key + copies))
        if expiration != NO_EXPIRATION:
            fields += _field("original-expiration", encode_value(str(expiration)))
        return _sized("F", fields)

    def is_of(self, entry: bytes) -> bool:
        """Whether an entry of x-death counts such deaths."""
        # Most are told apart by looking for octets, which costs nothing.
        if self.queue_field not in entry or self.reason_field not in entry or entry[0] != 70:
            return False
        fields = dict(table_fields(entry, 5, len(entry)))
        return fields.get(b"queue") == self.queue_field and fields.get(b"reason") == self.reason_field


death_of = lru_cache(_KNOWN_DEATHS)(Death)


class Deaths:
    """Makes letters. max_history_bytes: what x-death may grow to. copies: the routing keys in CC and BCC of the message
    whose letter was made last, as far as they are to route it; has_history: whether it had an x-death."""

    def __init__(self, max_history_bytes: int) -> None:
        self.copies: list[str] = []
        self.has_history = False
        self._max_history_bytes = max_history_bytes
        self._scanner = ContentScanner(_MAX_DEPTH)
        # What the last letter was made of, and what of it is the same for the next one, if that is made of the same.
        self._section = self._raw = self._exchange = b""
        self._queue = self._reason = ""
        self._own_key: bytes | None = None
        self._second = 0
        self._body_size = -1
        self._address = self._properties = self._header = b""

    def letter(
        self, message: Message, queue: str, reason: str, exchange: bytes, own_key: bytes | None, now: int
    ) -> Message:
        """The letter that a message becomes in `queue`, to be published to `exchange`. own_key: the routing key that
        the queue gives its letters; without it the message keeps its keys. Both are short strings."""
        section = message.content[PROPERTIES_OFFSET : message.header_end - 1]
        raw, second = message.raw, now // 1000
        if (
            section != self._section
            or raw != self._raw
            or second != self._second
            or reason != self._reason
            or queue != self._queue
            or exchange != self._exchange
            or own_key != self._own_key
        ):
            self._second = second
            self._queue, self._reason = queue, reason
            self._exchange, self._own_key = exchange, own_key
            self._make(section, raw, message.expiration)
            self._body_size = -1
        if message.body_size != self._body_size:
            self._body_size = message.body_size
            self._header = header_frame(self._properties, message.body_size)
        return with_header(message, self._address, self._header, NO_EXPIRATION)

    def _make(self, section: bytes, raw: bytes, expiration: int) -> None:
        """The address and the properties of the letters of such messages: nearly all are like the one before."""
        scanner, own_key = self._scanner, self._own_key
        split = 1 + raw[0]
        death = death_of(self._queue, self._reason, raw[1:split], self._second)
        death.take(raw, expiration)
        self._section = b""
        if not scanner.scan(section, 0, len(section)):
            raise AssertionError(f"a message in queue '{self._queue}' has malformed properties")
        self.copies = []
        self.has_history = False
        first, last = scanner.headers_start, scanner.headers_end
        if not first or (not scanner.has_copies and section.find(b"-death", first, last) < 0):
            # Nearly every message: what it has stays as it is.
            headers = b"".join((death.history, section[first:last] if first else b"", death.companions))
        else:
            headers = self._headers(table_fields(section, first, last), death, own_key is not None)
        self._properties = _replace_headers(section, 0, len(section), scanner, headers)
        self._address = self._exchange + (raw[split:] if own_key is None else own_key)
        self._section, self._raw = section, raw

    def _headers(self, fields: list[tuple[bytes, bytes]], death: Death, drops_copies: bool) -> bytes:
        """The table of a letter."""
        found = dict(fields)
        if not drops_copies:
            self.copies = _copies(found)
        history = _array(found.get(b"x-death"), b"x-death")
        self.has_history = history is not None
        entry = death.entry
        if b"CC" in found:
            entry = death.make_entry(death.raw, _array(found[b"CC"], b"CC") or b"", death.expiration)
        new = {b"x-death": _field("x-death", _sized("A", self._history(history or b"", death, entry)))}
        new.update(death.first if history is None else {k: v for k, v in death.first.items() if k not in found})
        new.update(death.last)
        dropped = (b"BCC", b"CC") if drops_copies else (b"BCC",)
        written = dict.fromkeys(new, False)
        parts = [] if b"x-death" in found else [new[b"x-death"]]
        written[b"x-death"] = b"x-death" not in found
        for name, field in fields:
            if name in new:
                if not written[name]:
                    written[name] = True
                    parts.append(new[name])
            elif name not in dropped:
                parts.append(field)
        parts += [field for name, field in new.items() if not written[name]]
        return b"".join(parts)

    def _history(self, old: bytes, death: Death, entry: bytes) -> bytes:
        """The values of x-death with a death counted in those of `old`; `entry` is what it says for the first time."""
        counted = b""
        others = []
        for value in array_values(old, 0, len(old)):
            if not death.is_of(value):
                others.append(value)
            elif not counted:
                counted = _count_one_more(value)
        kept = [counted or entry]
        room = self._max_history_bytes - len(kept[0])
        for value in others:
            room -= len(value)
            if room < 0:
                break
            kept.append(value)
        return b"".join(kept)


def past_deaths(message: Message) -> list[tuple[object, object]]:
    """Queue and reason of the deaths that a message tells of, the newest first."""
    content, end = message.content, message.header_end - 1
    scanner = ContentScanner(_MAX_DEPTH)
    if content.find(b"\x07x-deathA", PROPERTIES_OFFSET, end) < 0 or not scanner.scan(content, PROPERTIES_OFFSET, end):
        return []
    found = dict(table_fields(content, scanner.headers_start, scanner.headers_end))
    history = _array(found.get(b"x-death"), b"x-death") or b""
    deaths = []
    for value in array_values(history, 0, len(history)):
        if value[0] == 70:
            table = decode_table(value[5:], _MAX_DEPTH, len(value))
            deaths.append((table.get("queue"), table.get("reason")))
    return deaths


def _replace_headers(content: bytes, start: int, end: int, scanner: ContentScanner, headers: bytes) -> bytes:
    """The property section content[start:end], which was scanned, with other headers and without expiration."""
    flags = int.from_bytes(content[start : start + 2])
    before = start + 2
    if scanner.headers_start:
        before, after = scanner.headers_start - 4, scanner.headers_end
    else:
        for _ in range((flags & _BEFORE_HEADERS).bit_count()):
            before += 1 + content[before]
        after = before
    rest = content[after:end]
    if flags & _EXPIRATION_FLAG:
        rest = content[after : scanner.expiration_start - 1] + content[scanner.expiration_end : end]
    flags = (flags | _HEADERS_FLAG) & ~_EXPIRATION_FLAG
    return b"".join((flags.to_bytes(2), content[start + 2 : before], len(headers).to_bytes(4), headers, rest))


def _count_one_more(entry: bytes) -> bytes:
    """An entry of x-death with its count raised, which is a long from then on."""
    fields = table_fields(entry, 5, len(entry))
    value = dict(fields).get(b"count", b"\x05countV")[6:]
    count = 0
    if value[:1] in _INTEGERS:
        is_signed = value[:1] not in b"Bui"
        count = int.from_bytes(value[1:], signed=is_signed)
    field = _field("count", typed("l", min(count + 1, _MAX_COUNT)))
    parts = [] if value != b"V" else [field]
    was_written = bool(parts)
    for name, old in fields:
        if name != b"count":
            parts.append(old)
        elif not was_written:
            was_written = True
            parts.append(field)
    return _sized("F", b"".join(parts))


def _copies(found: dict[bytes, bytes]) -> list[str]:
    """The routing keys in CC and BCC, which the publisher's channel has checked."""
    keys: list[str] = []
    for name in (b"CC", b"BCC"):
        values = decode_table(found[name], _MAX_DEPTH, len(found[name]))[name.decode()] if name in found else ()
        keys += [key for key in values if isinstance(key, str)] if isinstance(values, list) else ()
    return keys


def _array(field: bytes | None, name: bytes) -> bytes | None:
    """The octets of the values in a field that is an array; None where it is none."""
    kind = 1 + len(name)
    return None if field is None or field[kind] != 65 else field[kind + 5 :]


def _field(name: str, value: bytes) -> bytes:
    return short_string(name) + value


def short_string(text: str) -> bytes:
    """A name with its length, as an address has it."""
    octets = text.encode("utf-8", "surrogateescape")
    return len(octets).to_bytes(1) + octets


def _long_string(octets: bytes) -> bytes:
    return _sized("S", octets)


def _sized(kind: str, octets: bytes) -> bytes:
    return b"".join((kind.encode(), len(octets).to_bytes(4), octets))
