"""Hold: a connection none of whose frames are handled until something has happened elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from amqp_broker.connection.connection import CLOSED, OPEN
from amqp_broker.errors import AmqpException, ChannelException, ConnectionException
from amqp_broker.protocol.constants import ReplyCode

if TYPE_CHECKING:
    from amqp_broker.connection.connection import Connection
    from amqp_broker.node import Node

Answer = Callable[[], None]


class Hold:
    """Made by Node.hold for the method that is being handled. `what`: what is waited for, to be named when it does not
    come. deadline: until when, milliseconds (Node.begin_hold), 0: for as long as it takes. is_over: Node.end_hold."""

    def __init__(self, node: Node, connection: Connection, what: str) -> None:
        self.connection = connection
        self.what = what
        self.deadline = 0
        self.is_over = False
        self._node = node
        self._channel = connection.current
        self._serving = connection.serving

    def extend(self) -> None:
        """What is waited for goes on: the whole time begins anew."""
        if not self.is_over:
            self._node.begin_hold(self)

    def release(self, answer: Answer) -> None:
        """It has happened: answer, and go on with the connection's frames. `answer` may raise as a handler may, and may
        hold the connection again."""
        if not self._node.end_hold(self):
            return
        connection = self.connection
        self._node.readers.unpark(connection)
        if connection.state == OPEN:
            connection.current = self._channel
            connection.serving = self._serving
            self._call(answer)
        if connection.state != CLOSED:
            connection.receive_data(b"", self._node.clock.now)

    def _call(self, answer: Answer) -> None:
        """As Connection.receive calls a handler."""
        connection = self.connection
        channel = self._channel
        if channel is not None and (channel.is_closing or not channel.is_open):
            return
        try:
            answer()
        except AmqpException as error:
            if not error.class_id:
                error.class_id, error.method_id = self._serving >> 16, self._serving & 0xFFFF
            if isinstance(error, ChannelException):
                connection.control.on_channel_exception(connection, error)
            else:
                connection.control.on_connection_exception(connection, error)
        except Exception as error:  # noqa: BLE001  # a defect of ours ends one connection, with 541
            connection.control.on_defect(connection, error)

    def give_up(self, waited_ms: int) -> None:
        """It does not happen in time."""

        def refuse() -> None:
            raise ConnectionException(
                ReplyCode.INTERNAL_ERROR,
                f"{self.what}: no majority of the members has answered within {waited_ms} ms (command_timeout); "
                "whether it takes effect is not known",
            )

        self.release(refuse)
