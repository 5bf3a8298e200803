"""Refusals: what a channel answers to content that it cannot take, and to a delivery tag that it does not know.

Exceptions in RabbitMQ's words, to be raised by the channel. Nothing in here knows the state of one.
"""

from __future__ import annotations

from amqp_broker.errors import ChannelException, ConnectionException
from amqp_broker.protocol.constants import ReplyCode

#: RabbitMQ's hard cap on a body: a larger one closes the connection.
_MAX_BODY_BYTES = 512 * 1024 * 1024

# What the content assembly may expect (Channel.expecting); the third is a body frame.
_METHOD = 0
_HEADER = 1


def malformed_properties() -> ConnectionException:
    """The property section does not fit its flags, or its frame."""
    return ConnectionException(ReplyCode.SYNTAX_ERROR, "content header: malformed properties", 60, 40)


def wrong_class(class_id: int) -> ConnectionException:
    """A content header of another class than basic."""
    text = f"expected content header for class 60, got one for class {class_id} instead"
    return ConnectionException(ReplyCode.UNEXPECTED_FRAME, text, 60, 40)


def malformed_publish() -> ConnectionException:
    """The names in a basic.publish do not end with their frame."""
    return ConnectionException(ReplyCode.SYNTAX_ERROR, "basic.publish: arguments do not fit their frame", 60, 40)


def unexpected_frame(expecting: int) -> ConnectionException:
    """A frame came that the content assembly does not expect now."""
    if expecting == _METHOD:
        return ConnectionException(ReplyCode.UNEXPECTED_FRAME, "expected method frame, got non method frame instead")
    if expecting == _HEADER:
        text = "expected content header for class 60, got non content header frame instead"
    else:
        text = "expected content body, got non content body frame instead"
    return ConnectionException(ReplyCode.UNEXPECTED_FRAME, text, 60, 40)


def too_large(
    size: int, header_size: int, max_message_bytes: int, max_header_bytes: int
) -> ChannelException | ConnectionException:
    """A message whose body (`size`) or header frame (`header_size`) is above its limit; all in octets."""
    if header_size > max_header_bytes:
        text = f"content header of {header_size} octets is larger than the limit of {max_header_bytes}"
        return ChannelException(ReplyCode.PRECONDITION_FAILED, f"{text} (max_header_size)", 60, 40)
    if size > _MAX_BODY_BYTES:
        text = f"message size {size} is larger than the protocol's limit of {_MAX_BODY_BYTES}"
        return ConnectionException(ReplyCode.FRAME_ERROR, text, 60, 40)
    text = f"message size {size} is larger than configured max size {max_message_bytes}"
    return ChannelException(ReplyCode.PRECONDITION_FAILED, text, 60, 40)


def unknown_tag(tag: int) -> ChannelException:
    """A delivery tag that is not outstanding."""
    return ChannelException(ReplyCode.PRECONDITION_FAILED, f"unknown delivery tag {tag}")
