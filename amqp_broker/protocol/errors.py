"""What can be wrong with octets from a peer, and with values that are to become octets.

Every decoder of this package raises a `MalformedInput` for whatever a peer may send, and nothing else; every
encoder raises an `EncodeError` for whatever the wire cannot carry, and nothing else.
"""

from __future__ import annotations

from typing import ClassVar, Final

from amqp_broker.protocol.constants import ReplyCode


class MalformedInput(ValueError):
    """Octets that break the protocol. `reply_code` is what a connection.close for them carries."""

    reply_code: ReplyCode = ReplyCode.SYNTAX_ERROR


class FieldError(MalformedInput):
    """A field table that does not follow AMQP 0-9-1 §4.2.5.5, or that exceeds a limit."""


class PropertyError(MalformedInput):
    """A content header, or its property section, that does not follow AMQP 0-9-1 §4.2.6.1."""


class FrameError(MalformedInput):
    """Octets that are no frame (AMQP 0-9-1 §4.2.3), or a frame larger than was negotiated."""

    reply_code = ReplyCode.FRAME_ERROR


class MethodDecodeError(MalformedInput):
    """Arguments that do not fit the method's declaration (AMQP 0-9-1 §4.2.4)."""

    def __init__(self, class_id: int, method_id: int, text: str) -> None:
        super().__init__(text)
        self.class_id: Final = class_id
        self.method_id: Final = method_id


class UnknownMethod(MalformedInput):
    """A class or a method that the protocol does not have: 503 for the class, 540 for the method."""

    def __init__(self, class_id: int, method_id: int, class_name: str | None) -> None:
        if class_name is None:
            text = f"unknown class {class_id} (method {method_id})"
            self.reply_code = ReplyCode.COMMAND_INVALID
        else:
            text = f"unknown method {method_id} of class {class_id} ({class_name})"
            self.reply_code = ReplyCode.NOT_IMPLEMENTED
        super().__init__(text)
        self.class_id: Final = class_id
        self.method_id: Final = method_id


class EncodeError(ValueError):
    """A value that the wire cannot carry: too long, out of range, or of a type that AMQP does not have."""

    reply_code: ClassVar[ReplyCode] = ReplyCode.INTERNAL_ERROR
