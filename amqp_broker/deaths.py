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
from typing import Final, NamedTuple

from amqp_broker.protocol.content import ContentScanner
from amqp_broker.protocol.fields import array_values, decode_table, encode_value, table_fields, typed
from queues.message import NO_EXPIRATION, PROPERTIES_OFFSET, Message, remake_message

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
    address. Fields of tables are whole: name, type and value.

    queue_field, reason_field: of an entry. head: an entry's fields up to the routing keys. routing_key: a value. entry:
    a whole entry, of a message without CC and expiration. first, last: the fields beside x-death, by name. headers: the
    table of a message that had none and died of it.
    """

    def __init__(self, queue: str, reason: str, raw_address: bytes, second: int) -> None:
        end = 1 + raw_address[0]
        exchange, routing_key = raw_address[1:end], raw_address[end + 1 :]
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
        self.routing_key = _long_string(routing_key)
        self.entry = self.make_entry(b"", NO_EXPIRATION)
        self.first, self.last = (
            {name.encode(): _field(name, value) for name, value in fields.items()}
            for fields in (
                {f"x-{which}-death-{name}": value for name, value in names.items()} for which in ("first", "last")
            )
        )
        self.headers = b"".join((_field("x-death", _sized("A", self.entry)), *self.first.values(), *self.last.values()))

    def make_entry(self, copies: bytes, expiration: int) -> bytes:
        """An entry of x-death. copies: the values in the header CC."""
        fields = self.head + _field("routing-keys", _sized("A", self.routing_key + copies))
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


class Letter(NamedTuple):
    """A dead letter, and the keys that route it: that of its address, or the queue's, and copies."""

    message: Message
    routing_keys: list[str]


class Deaths:
    """Makes letters. max_history_bytes: what x-death may grow to."""

    def __init__(self, max_history_bytes: int) -> None:
        self._max_history_bytes = max_history_bytes
        self._scanner = ContentScanner(_MAX_DEPTH)

    def letter(
        self, message: Message, queue: str, reason: str, exchange: str, own_key: str | None, now: int
    ) -> Letter:
        """The letter that a message becomes in `queue`, to be published to `exchange`. own_key: the routing key that
        the queue gives its letters; without it the message keeps its keys."""
        death = death_of(queue, reason, message.raw, now // 1000)
        content, scanner = message.content, self._scanner
        start, end = PROPERTIES_OFFSET, message.header_end - 1
        if not scanner.scan(content, start, end):
            raise AssertionError(f"a message in queue '{queue}' has malformed properties")
        headers = death.headers
        copies: list[str] = []
        if scanner.headers_start:
            fields = table_fields(content, scanner.headers_start, scanner.headers_end)
            headers, copies = self._headers(fields, death, message.expiration, own_key is not None)
        elif message.expiration != NO_EXPIRATION:
            headers, _ = self._headers([], death, message.expiration, False)
        routing_key = message.address.routing_key if own_key is None else own_key
        letter = remake_message(
            message,
            _short_string(exchange) + _short_string(routing_key),
            _replace_headers(content, start, end, scanner, headers),
            NO_EXPIRATION,
        )
        return Letter(letter, [routing_key] if own_key is not None else [routing_key, *copies])

    def _headers(
        self, fields: list[tuple[bytes, bytes]], death: Death, expiration: int, drops_copies: bool
    ) -> tuple[bytes, list[str]]:
        """The table of a letter, and the keys in CC and BCC."""
        found = dict(fields)
        copies = _copies(found)
        history = _array(found.get(b"x-death"), b"x-death")
        entry = death.entry
        if b"CC" in found or expiration != NO_EXPIRATION:
            entry = death.make_entry(_array(found.get(b"CC"), b"CC") or b"", expiration)
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
        return b"".join(parts), copies

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
    return _short_string(name) + value


def _short_string(text: str) -> bytes:
    octets = text.encode("utf-8", "surrogateescape")
    return len(octets).to_bytes(1) + octets


def _long_string(octets: bytes) -> bytes:
    return _sized("S", octets)


def _sized(kind: str, octets: bytes) -> bytes:
    return b"".join((kind.encode(), len(octets).to_bytes(4), octets))
