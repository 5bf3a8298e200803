"""Conversations from octets: a little machine that reads any octets as a program and says what a client would.

The same octets always make the same conversation, so a fuzzer that mutates octets mutates conversations, and most of
them get past the handshake and deep into the handlers. Names, keys and arguments come from small pools, so that what
one method makes the next one meets.

A program: an octet that chooses the beginning, then steps: an octet that chooses what is said, and octets for its
arguments. What is missing at the end reads as 0. A conversation is a list of chunks, as a transport hands them over.
"""

from __future__ import annotations

from typing import Final

from amqp_broker.protocol import constants as c
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.fields import Table, encode_table
from amqp_broker.protocol.frames import encode_content_header, encode_frame
from amqp_broker.protocol.properties import encode_properties
from tests.fuzz.harness import handshake

NAMES: Final = (
    "", "q1", "q2", "q3", "q4", "e1", "e2", "amq.direct", "amq.topic", "amq.headers", "amq.fanout", "tag",
    "amq.rabbitmq.reply-to", "amq.system", "amq.rabbitmq.trace", "\udcff\udc80", "n" * 255, "a\r\nb", "é", "amq.gen-1",
)  # fmt: skip
KEYS: Final = ("", "q1", "q2", "q3", "a.b", "#", "*.b", "#.a.#.a.#", "statistics", "\udcff", "k" * 255, "10", "%")
TYPES: Final = (
    "direct", "fanout", "topic", "headers", "x-consistent-hash", "x-delayed-message", "x-modulus-hash", "no"
)  # fmt: skip
LONG_STRINGS: Final = (b"", b"\0guest\0guest", b"\0guest\0wrong", b"\0\xff\0\xff", b"\xff" * 40, b"\x05LOGIN", b"q1")
SHORTS: Final = (0, 1, 2, 3, 10, 255, 2047, 65535)
LONGS: Final = (0, 1, 4095, 4096, 8192, 131072, 1 << 31, (1 << 32) - 1)
LONG_LONGS: Final = (0, 1, 2, 3, 4, 100, 1 << 63, (1 << 64) - 1)

#: Arguments of queues, exchanges, consumers and bindings, and headers of messages: any of them may be sent with any.
_FIELDS: Final[tuple[dict[str, object], ...]] = (
    {},
    {"x-message-ttl": 5},
    {"x-message-ttl": 0},
    {"x-message-ttl": "5"},
    {"x-max-length": 1},
    {"x-max-length-bytes": 10},
    {"x-max-length": 1, "x-overflow": "reject-publish"},
    {"x-max-length": 1, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": ""},
    {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q1", "x-message-ttl": 3},
    {"x-dead-letter-exchange": "e1", "x-max-length": 1},
    {"x-dead-letter-routing-key": "q1"},
    {"x-expires": 4},
    {"x-max-priority": 5},
    {"x-max-priority": 256},
    {"x-single-active-consumer": True},
    {"x-delivery-limit": 1, "x-dead-letter-exchange": "amq.topic"},
    {"x-queue-type": "quorum"},
    {"x-queue-type": "classic", "x-queue-mode": "lazy", "x-queue-version": 2},
    {"x-priority": 5},
    {"x-priority": -(1 << 62)},
    {"x-match": "any", "h": 1},
    {"x-match": "all-with-x", "h": 1.0, "l": [1, {"deep": [None]}]},
    {"x-match": 7},
    {"alternate-exchange": "e2"},
    {"alternate-exchange": 5},
    {"x-delayed-type": "topic"},
    {"x-delayed-type": "x-delayed-message"},
    {"x-delay": 5, "h": 1},
    {"x-delay": -5},
    {"hash-header": "h"},
    {"hash-property": "message_id"},
    {"CC": ["q1", "q2"], "h": 1},
    {"BCC": ["q3"]},
    {"CC": "q1"},
    {"CC": [5]},
    {"x-death": [{"queue": "q1", "reason": "expired", "count": 3, "exchange": "", "routing-keys": ["q1"]}]},
    {"x-death": "no list"},
    {"x-death": [5, {}, {"count": "x", "queue": 7, "reason": None}]},
    {"x-first-death-queue": 5, "x-delivery-count": "x"},
    {"\udcff": b"\xff", "capabilities": 5},
    {"capabilities": {"authentication_failure_close": True, "consumer_cancel_notify": True}},
    {"LOGIN": "guest", "PASSWORD": "guest"},
)


def _nested(depth: int, kind: bytes) -> bytes:
    """A table of tables (F) or of arrays (A), so many deep."""
    raw = b""
    for level in range(depth):
        inner = kind + len(raw).to_bytes(4, "big") + raw
        raw = inner if kind == b"A" and level < depth - 1 else b"\x01t" + inner
    return raw


#: Raw tables: what dictionaries cannot say.
RAW_TABLES: Final = (
    *(encode_table(fields) for fields in _FIELDS),
    _nested(128, b"F"),
    _nested(129, b"F"),
    _nested(400, b"A"),
    b"\x01aQ",
    b"\x02a",
    b"\x01aS\xff\xff\xff\xff",
    b"\x01aF\x00\x00\x00\x09\x01b",
    b"\x01aD\xff\x7f\xff\xff\xff",
    b"\x01aT\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x01ad\x7f\xf8\x00\x00\x00\x00\x00\x00",
    b"\x07x-matchS\x00\x00\x00\x03any\x01hl\x80\x00\x00\x00\x00\x00\x00\x00",
    b"\x00V\x00V",
)
PROPERTIES: Final = (
    b"\x00\x00",
    encode_properties({"delivery_mode": 2}),
    encode_properties({"delivery_mode": 2, "priority": 200}),
    encode_properties({"expiration": "3"}),
    encode_properties({"expiration": "x"}),
    encode_properties({"reply_to": "amq.rabbitmq.reply-to", "correlation_id": "c"}),
    encode_properties({"reply_to": "q1"}),
    encode_properties({"user_id": "guest"}),
    encode_properties({"user_id": "other"}),
    encode_properties({"message_id": "1", "timestamp": (1 << 64) - 1, "app_id": "a", "content_type": "t"}),
    b"\x80\x00",
    b"\x00\x01\x00\x00",
    b"\xff\xfc",
    b"",
)
BODY_SIZES: Final = (0, 1, 3, 100, 16_383, 16_384, 40_000, 131_064)
DECLARED_SIZES: Final = (0, 1, 10, 1 << 20, (1 << 20) + 1, 1 << 29, (1 << 29) + 1, 1 << 63, (1 << 64) - 1)

_METHODS: Final = tuple(m.METHODS.values())
#: What is worth saying most often.
_USUAL: Final = (
    m.ChannelOpen, m.QueueDeclare, m.QueueBind, m.BasicConsume, m.BasicGet, m.BasicAck, m.BasicNack, m.BasicReject,
    m.ExchangeDeclare, m.ExchangeBind, m.ConfirmSelect, m.TxSelect, m.TxCommit, m.BasicQos, m.BasicRecover,
    m.BasicCancel, m.QueueDelete, m.QueuePurge, m.ChannelClose, m.ChannelCloseOk, m.ChannelFlow, m.TxRollback,
)  # fmt: skip


class Speaker:
    """Runs a program; `chunks` is what was said."""

    def __init__(self, octets: bytes) -> None:
        self._octets = octets
        self._at = 0
        self._is_tame = False
        self._said = bytearray()
        self.chunks: list[bytes] = []

    def run(self) -> list[bytes]:
        """The whole conversation."""
        beginning = self._octet() % 8
        if beginning == 0:
            self._said += self._octets[1:]
            self._at = len(self._octets)
        elif beginning == 1:
            self._said += c.PROTOCOL_HEADER
        else:
            self._said += handshake(4096 if beginning == 2 else 131072)
            self._said += _method_frame(1, m.ChannelOpen())
        self._is_tame = beginning > 4
        while self._at < len(self._octets):
            self._step()
        self._end_chunk()
        return self.chunks

    def _octet(self) -> int:
        at = self._at
        self._at = at + 1
        return self._octets[at] if at < len(self._octets) else 0

    def _end_chunk(self) -> None:
        if self._said:
            self.chunks.append(bytes(self._said))
            self._said.clear()

    def _step(self) -> None:
        choice = self._octet()
        if self._is_tame and 150 <= choice < 244:
            # A connection that is not closed at the first nonsense gets further: on with closed channels instead.
            self._end_chunk()
            channel = self._channel()
            if choice >= 200 and channel:
                self._said += _method_frame(channel, m.ChannelCloseOk()) + _method_frame(channel, m.ChannelOpen())
        elif choice < 110:
            self._say(self._channel(), _USUAL[choice % len(_USUAL)])
        elif choice < 150:
            self._publish(self._channel())
        elif choice < 180:
            self._say(0 if choice & 1 else self._channel(), _METHODS[self._octet() % len(_METHODS)])
        elif choice < 200:
            self._end_chunk()
        elif choice < 210:
            self._content(self._channel())
        elif choice < 220:
            count = self._octet() % 32
            self._said += self._octets[self._at : self._at + count]
            self._at += count
        elif choice < 228:
            payload = bytes(self._octet() for _ in range(self._octet() % 12))
            self._said += encode_frame(self._octet() % 10, self._channel(), payload)
        elif choice < 236 and self._said:
            self._said[self._octet() % len(self._said)] ^= 1 << (self._octet() % 8)
        elif choice < 244 and self._said:
            del self._said[-1 - self._octet() % len(self._said) :]
        elif choice < 248:
            self._cut_up()
        else:
            self._said += encode_frame(c.FRAME_HEARTBEAT, 0, b"")

    def _channel(self) -> int:
        choice = self._octet()
        if self._is_tame:
            return 1 + choice % 2
        return 1 if choice < 160 else (2 if choice < 230 else (0 if choice < 240 else choice * 257))

    def _cut_up(self) -> None:
        """What was said since the last chunk arrives in pieces of a few octets."""
        size = 1 + self._octet() % 16
        said = bytes(self._said[-600:])
        del self._said[-600:]
        self._end_chunk()
        self.chunks += [said[start : start + size] for start in range(0, len(said), size)]

    def _say(self, channel: int, method: type[m.Method]) -> None:
        arguments = (self._argument(f, d) for f, d in zip(method.fields, method.defaults, strict=True))
        self._said += _method_frame(channel, method(*arguments))

    def _argument(self, field: str, default: object) -> object:
        choice = self._octet()
        if isinstance(default, bool):
            return choice & 1 == 1
        if isinstance(default, int):
            if field == "delivery_tag":
                return LONG_LONGS[choice % len(LONG_LONGS)]
            pool = LONGS if field in ("frame_max", "prefetch_size", "message_count") else SHORTS
            value = pool[choice % len(pool)]
            return value & 255 if field.startswith("version") else value
        if isinstance(default, bytes):
            return LONG_STRINGS[choice % len(LONG_STRINGS)]
        if isinstance(default, Table):
            return Table({}, RAW_TABLES[choice % len(RAW_TABLES)])
        if field == "type":
            return TYPES[choice % len(TYPES)]
        if field in ("routing_key", "virtual_host", "mechanism"):
            if field == "virtual_host" or field == "mechanism":
                return ("/", "PLAIN", "AMQPLAIN", "EXTERNAL", "\udcff")[choice % 5]
            return KEYS[choice % len(KEYS)]
        return NAMES[choice % len(NAMES)]

    def _publish(self, channel: int) -> None:
        exchange = NAMES[self._octet() % len(NAMES)]
        key = KEYS[self._octet() % len(KEYS)]
        bits = self._octet()
        method = m.BasicPublish(0, exchange, key, bits & 1 == 1, bits & 30 == 30)
        self._said += _method_frame(channel, method)
        self._content(channel)

    def _content(self, channel: int) -> None:
        """A content header and its body frames: mostly as they should be."""
        how = self._octet()
        if how & 1:
            table = RAW_TABLES[self._octet() % len(RAW_TABLES)]
            properties = b"\x30\x00" + len(table).to_bytes(4, "big") + table + (b"\x02" if how & 2 else b"\x01")
        else:
            properties = PROPERTIES[self._octet() % len(PROPERTIES)]
        size = BODY_SIZES[self._octet() % len(BODY_SIZES)]
        declared = size if how < 240 else DECLARED_SIZES[self._octet() % len(DECLARED_SIZES)]
        header = encode_content_header(declared, properties, 60 if how < 250 else self._octet())
        self._said += encode_frame(c.FRAME_HEADER, channel, header)
        pieces = 1 + (self._octet() % 5 if how & 4 else 0)
        each = max(1, -(-size // pieces))
        for start in range(0, size, each):
            self._said += encode_frame(c.FRAME_BODY, channel, b"b" * min(each, size - start))


def _method_frame(channel: int, method: m.Method) -> bytes:
    return encode_frame(c.FRAME_METHOD, channel, m.encode_method(method))


def conversation(program: bytes) -> list[bytes]:
    """What the client of this program says, chunk by chunk."""
    return Speaker(program).run()
