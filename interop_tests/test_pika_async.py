"""pika's callback style, on its select and asyncio connections: the same conversation on both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pika  # type: ignore[import-untyped]
import pytest
from pika.adapters.asyncio_connection import AsyncioConnection  # type: ignore[import-untyped]

Named = Callable[[str], str]
COUNT = 200


class _Conversation:
    """Opens, declares, confirms, publishes, consumes, acknowledges, closes: one callback after the other."""

    def __init__(self, queue: str, finished: Callable[[], None]) -> None:
        self._queue = queue
        self._finished = finished
        self._channel: Any = None
        self.confirmed = 0
        self.received: list[bytes] = []
        self.returned: list[bytes] = []
        self.closed_with: tuple[int, str] | None = None

    def on_open(self, connection: Any) -> None:
        connection.channel(on_open_callback=self._on_channel)

    def on_open_error(self, _connection: Any, error: BaseException) -> None:
        self._finished()
        raise AssertionError(f"the connection did not open: {error!r}")

    def on_closed(self, _connection: Any, reason: Any) -> None:
        self.closed_with = (reason.reply_code, reason.reply_text)
        self._finished()

    def _on_channel(self, channel: Any) -> None:
        self._channel = channel
        channel.add_on_return_callback(lambda _c, _m, _p, body: self.returned.append(body))
        channel.confirm_delivery(ack_nack_callback=self._on_confirm)
        channel.queue_declare(self._queue, auto_delete=True, callback=self._on_declared)

    def _on_declared(self, _frame: Any) -> None:
        self._channel.basic_qos(prefetch_count=10, callback=self._on_qos)

    def _on_qos(self, _frame: Any) -> None:
        self._channel.basic_consume(self._queue, self._on_message, callback=self._on_consuming)

    def _on_consuming(self, _frame: Any) -> None:
        self._channel.basic_publish("", "no-such-queue", b"lost", mandatory=True)
        for index in range(COUNT):
            self._channel.basic_publish("", self._queue, b"%d" % index)

    def _on_confirm(self, frame: Any) -> None:
        self.confirmed = max(self.confirmed, frame.method.delivery_tag)
        self._close_when_done()

    def _on_message(self, channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        self.received.append(body)
        channel.basic_ack(method.delivery_tag)
        self._close_when_done()

    def _close_when_done(self) -> None:
        if self.confirmed == COUNT + 1 and len(self.received) == COUNT and self._channel.is_open:
            self._channel.connection.close()

    def check(self) -> None:
        assert self.returned == [b"lost"]
        assert self.received == [b"%d" % index for index in range(COUNT)]
        assert self.confirmed == COUNT + 1
        assert self.closed_with == (200, "Normal shutdown")


def test_the_select_connection(url: str, named: Named) -> None:
    """pika's own loop."""
    conversation = _Conversation(named("queue"), lambda: connection.ioloop.stop())
    connection = pika.SelectConnection(
        pika.URLParameters(url),
        on_open_callback=conversation.on_open,
        on_open_error_callback=conversation.on_open_error,
        on_close_callback=conversation.on_closed,
    )
    connection.ioloop.call_later(60, connection.ioloop.stop)
    connection.ioloop.start()
    conversation.check()


async def test_the_asyncio_connection(url: str, named: Named) -> None:
    """asyncio's loop."""
    done = asyncio.Event()
    conversation = _Conversation(named("queue"), done.set)
    AsyncioConnection(
        pika.URLParameters(url),
        on_open_callback=conversation.on_open,
        on_open_error_callback=conversation.on_open_error,
        on_close_callback=conversation.on_closed,
    )
    async with asyncio.timeout(60):
        await done.wait()
    conversation.check()


def test_a_forced_close_is_reported(url: str) -> None:
    """A hard error arrives as the reason of the close, on the callback."""
    reasons: list[tuple[int, str]] = []

    def on_channel(channel: Any) -> None:
        channel.basic_recover(requeue=False)

    def on_closed(connection: Any, reason: Any) -> None:
        reasons.append((reason.reply_code, reason.reply_text))
        connection.ioloop.stop()

    connection = pika.SelectConnection(
        pika.URLParameters(url),
        on_open_callback=lambda opened: opened.channel(on_open_callback=on_channel),
        on_close_callback=on_closed,
    )
    connection.ioloop.call_later(60, connection.ioloop.stop)
    connection.ioloop.start()
    assert reasons == [(540, "NOT_IMPLEMENTED - requeue=false")]


@pytest.mark.parametrize("mechanism", ["guest", "nobody"])
def test_a_refused_login_is_reported(url: str, mechanism: str) -> None:
    """The error callback gets 403, whoever it was."""
    parameters = pika.URLParameters(url)
    parameters.credentials = pika.PlainCredentials(mechanism, "wrong")
    errors: list[str] = []

    def on_error(connection: Any, error: BaseException) -> None:
        errors.append(repr(error))
        connection.ioloop.stop()

    connection = pika.SelectConnection(parameters, on_open_error_callback=on_error)
    connection.ioloop.call_later(60, connection.ioloop.stop)
    connection.ioloop.start()
    assert len(errors) == 1
    assert "403" in errors[0]
