"""The numbers of AMQP 0-9-1 and of RabbitMQ's extensions: frames, sizes, class and method ids, reply codes.

Sources: AMQP 0-9-1 §1.2 (constants), §4.2.3 (frames), and the published definition of RabbitMQ's extensions
for the methods that 0-9-1 does not have (exchange.bind, basic.nack, confirm.select, connection.blocked,
update-secret). A method's index is `class id << 16 | method id`: the first four octets of a method frame's
payload as one integer.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
PROTOCOL_HEADER_0_9: Final = b"AMQP\x01\x01\x00\x09"
"""What clients of the 0-9 draft send; the frames that follow are the same."""

FRAME_METHOD: Final = 1
FRAME_HEADER: Final = 2
FRAME_BODY: Final = 3
FRAME_HEARTBEAT: Final = 8
FRAME_TYPES: Final = (FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT)

FRAME_END: Final = 0xCE
FRAME_HEADER_SIZE: Final = 7
"""Octets before a frame's payload: type, channel, size."""
FRAME_OVERHEAD: Final = 8
"""Octets of a frame that are not payload: the header and the end octet."""
FRAME_MIN_SIZE: Final = 4096
"""The frame size that every peer accepts before anything is negotiated."""
DEFAULT_FRAME_MAX: Final = 131072
HEARTBEAT_FRAME: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"

MAX_SHORT_STRING: Final = 255
MAX_CHANNEL: Final = 65535
MOVED_BY: Final = "x-moved-by"
"""A header: who has moved the message last, from queue to queue. A broker takes one that has it for no duplicate of
itself."""
DELIVERY_MODE_PERSISTENT: Final = 2

CLASS_CONNECTION: Final = 10
CLASS_EXCHANGE: Final = 40
CLASS_QUEUE: Final = 50
CLASS_BASIC: Final = 60

CONNECTION_START: Final = 10 << 16 | 10
CONNECTION_START_OK: Final = 10 << 16 | 11
CONNECTION_SECURE: Final = 10 << 16 | 20
CONNECTION_SECURE_OK: Final = 10 << 16 | 21
CONNECTION_TUNE: Final = 10 << 16 | 30
CONNECTION_TUNE_OK: Final = 10 << 16 | 31
CONNECTION_OPEN: Final = 10 << 16 | 40
CONNECTION_OPEN_OK: Final = 10 << 16 | 41
CONNECTION_CLOSE: Final = 10 << 16 | 50
CONNECTION_CLOSE_OK: Final = 10 << 16 | 51
CONNECTION_BLOCKED: Final = 10 << 16 | 60
CONNECTION_UNBLOCKED: Final = 10 << 16 | 61
CONNECTION_UPDATE_SECRET: Final = 10 << 16 | 70
CONNECTION_UPDATE_SECRET_OK: Final = 10 << 16 | 71

CHANNEL_OPEN: Final = 20 << 16 | 10
CHANNEL_OPEN_OK: Final = 20 << 16 | 11
CHANNEL_FLOW: Final = 20 << 16 | 20
CHANNEL_FLOW_OK: Final = 20 << 16 | 21
CHANNEL_CLOSE: Final = 20 << 16 | 40
CHANNEL_CLOSE_OK: Final = 20 << 16 | 41

ACCESS_REQUEST: Final = 30 << 16 | 10
ACCESS_REQUEST_OK: Final = 30 << 16 | 11

EXCHANGE_DECLARE: Final = 40 << 16 | 10
EXCHANGE_DECLARE_OK: Final = 40 << 16 | 11
EXCHANGE_DELETE: Final = 40 << 16 | 20
EXCHANGE_DELETE_OK: Final = 40 << 16 | 21
EXCHANGE_BIND: Final = 40 << 16 | 30
EXCHANGE_BIND_OK: Final = 40 << 16 | 31
EXCHANGE_UNBIND: Final = 40 << 16 | 40
EXCHANGE_UNBIND_OK: Final = 40 << 16 | 51

QUEUE_DECLARE: Final = 50 << 16 | 10
QUEUE_DECLARE_OK: Final = 50 << 16 | 11
QUEUE_BIND: Final = 50 << 16 | 20
QUEUE_BIND_OK: Final = 50 << 16 | 21
QUEUE_PURGE: Final = 50 << 16 | 30
QUEUE_PURGE_OK: Final = 50 << 16 | 31
QUEUE_DELETE: Final = 50 << 16 | 40
QUEUE_DELETE_OK: Final = 50 << 16 | 41
QUEUE_UNBIND: Final = 50 << 16 | 50
QUEUE_UNBIND_OK: Final = 50 << 16 | 51

BASIC_QOS: Final = 60 << 16 | 10
BASIC_QOS_OK: Final = 60 << 16 | 11
BASIC_CONSUME: Final = 60 << 16 | 20
BASIC_CONSUME_OK: Final = 60 << 16 | 21
BASIC_CANCEL: Final = 60 << 16 | 30
BASIC_CANCEL_OK: Final = 60 << 16 | 31
BASIC_PUBLISH: Final = 60 << 16 | 40
BASIC_RETURN: Final = 60 << 16 | 50
BASIC_DELIVER: Final = 60 << 16 | 60
BASIC_GET: Final = 60 << 16 | 70
BASIC_GET_OK: Final = 60 << 16 | 71
BASIC_GET_EMPTY: Final = 60 << 16 | 72
BASIC_ACK: Final = 60 << 16 | 80
BASIC_REJECT: Final = 60 << 16 | 90
BASIC_RECOVER_ASYNC: Final = 60 << 16 | 100
BASIC_RECOVER: Final = 60 << 16 | 110
BASIC_RECOVER_OK: Final = 60 << 16 | 111
BASIC_NACK: Final = 60 << 16 | 120

CONFIRM_SELECT: Final = 85 << 16 | 10
CONFIRM_SELECT_OK: Final = 85 << 16 | 11

TX_SELECT: Final = 90 << 16 | 10
TX_SELECT_OK: Final = 90 << 16 | 11
TX_COMMIT: Final = 90 << 16 | 20
TX_COMMIT_OK: Final = 90 << 16 | 21
TX_ROLLBACK: Final = 90 << 16 | 30
TX_ROLLBACK_OK: Final = 90 << 16 | 31


class ReplyCode(IntEnum):
    """The reply codes of AMQP 0-9-1 §1.2. A hard one closes the connection, a soft one the channel alone."""

    REPLY_SUCCESS = 200
    CONTENT_TOO_LARGE = 311
    NO_ROUTE = 312
    NO_CONSUMERS = 313
    CONNECTION_FORCED = 320
    INVALID_PATH = 402
    ACCESS_REFUSED = 403
    NOT_FOUND = 404
    RESOURCE_LOCKED = 405
    PRECONDITION_FAILED = 406
    FRAME_ERROR = 501
    SYNTAX_ERROR = 502
    COMMAND_INVALID = 503
    CHANNEL_ERROR = 504
    UNEXPECTED_FRAME = 505
    RESOURCE_ERROR = 506
    NOT_ALLOWED = 530
    NOT_IMPLEMENTED = 540
    INTERNAL_ERROR = 541

    @property
    def is_soft(self) -> bool:
        return self in SOFT_ERRORS

    @property
    def is_hard(self) -> bool:
        return self in HARD_ERRORS


SOFT_ERRORS: Final = (
    ReplyCode.CONTENT_TOO_LARGE,
    ReplyCode.NO_ROUTE,
    ReplyCode.NO_CONSUMERS,
    ReplyCode.ACCESS_REFUSED,
    ReplyCode.NOT_FOUND,
    ReplyCode.RESOURCE_LOCKED,
    ReplyCode.PRECONDITION_FAILED,
)
HARD_ERRORS: Final = tuple(code for code in ReplyCode if code >= 300 and code not in SOFT_ERRORS)


def reply_text(code: int, explanation: str) -> str:
    """The text of a close: `NAME - explanation`, cut to 255 octets without splitting a character."""
    names = ReplyCode.__members__.values()
    name = ReplyCode(code).name if code in names else f"CODE {code}"
    octets = f"{name} - {explanation}".encode("utf-8", "surrogateescape")
    if len(octets) <= MAX_SHORT_STRING:
        return octets.decode("utf-8", "surrogateescape")
    end = MAX_SHORT_STRING - 3
    while octets[end] & 0xC0 == 0x80 and end > MAX_SHORT_STRING - 7:
        end -= 1
    return octets[:end].decode("utf-8", "surrogateescape") + "..."
