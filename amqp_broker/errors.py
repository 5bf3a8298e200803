"""What goes wrong, in the specification's terms: channel exceptions and connection exceptions (AMQP 0-9-1 §1.2, §4.10).

They are raised where a client's violation is found and caught in one place, the connection, which sends the close.
The texts are those that clients of RabbitMQ know.
"""

from __future__ import annotations

from amqp_broker.protocol.constants import ReplyCode


class AmqpException(Exception):
    """`reply_code` and the explanation that follows the code's name in the reply text.

    class_id and method_id tell the failed method; the handler's caller says (`blame`) when they are 0.
    """

    def __init__(self, reply_code: ReplyCode, explanation: str, class_id: int = 0, method_id: int = 0) -> None:
        super().__init__(explanation)
        self.reply_code = reply_code
        self.explanation = explanation
        self.class_id = class_id
        self.method_id = method_id

    def blame(self, class_id: int, method_id: int) -> None:
        """This method has failed, unless it is known which."""
        if not self.class_id:
            self.class_id, self.method_id = class_id, method_id


class ChannelException(AmqpException):
    """A soft error: closes the channel."""


class ConnectionException(AmqpException):
    """A hard error: closes the connection."""


def not_found(kind: str, name: str, vhost: str) -> ChannelException:
    """`kind` is "queue" or "exchange"."""
    return ChannelException(ReplyCode.NOT_FOUND, f"no {kind} '{name}' in vhost '{vhost}'")


def refused(action: str, kind: str, name: str, vhost: str, user: str) -> ChannelException:
    """The user lacks a permission ("configure", "write" or "read") on a queue or exchange."""
    if kind == "exchange" and not name:
        name = "amq.default"
    what = f"{kind} '{name}' in vhost '{vhost}'"
    return ChannelException(ReplyCode.ACCESS_REFUSED, f"{action} access to {what} refused for user '{user}'")


def locked(name: str, vhost: str) -> ChannelException:
    """The queue is exclusive to another connection."""
    return ChannelException(
        ReplyCode.RESOURCE_LOCKED,
        f"cannot obtain exclusive access to locked queue '{name}' in vhost '{vhost}'. It could be originally declared "
        "on another connection or the exclusive property value does not match that of the original declaration.",
    )


def vhost_deleted(name: str) -> ConnectionException:
    """The virtual host of an open connection is gone."""
    return ConnectionException(ReplyCode.CONNECTION_FORCED, f"vhost '{name}' is deleted")


def precondition_failed(text: str) -> ChannelException:
    return ChannelException(ReplyCode.PRECONDITION_FAILED, text)


def inequivalent(argument: str, kind: str, name: str, vhost: str, received: str, current: str) -> ChannelException:
    """A declaration that differs from what is there. `received` and `current` are quoted or described by the caller."""
    return precondition_failed(
        f"inequivalent arg '{argument}' for {kind} '{name}' in vhost '{vhost}': "
        f"received {received} but current is {current}"
    )
