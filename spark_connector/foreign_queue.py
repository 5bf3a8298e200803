"""ForeignQueue: an ordinary consumer of any AMQP 0-9-1 broker that moves messages into a StagingLog.

Order: taken, synced, acked. What was synced but not yet acked when the process dies comes again: at least once.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import Final, TypeVar

from amqp_broker.client import Channel, ClientError, ClientTimeout, Connection
from amqp_broker.client.consumer import Consumer
from amqp_broker.client.messages import Delivery
from amqp_broker.protocol import methods as m
from spark_connector.errors import ConnectorError, Refused
from spark_connector.link import connect
from spark_connector.options import Options
from spark_connector.service import Retry
from spark_connector.staging_log import StagingLog

#: A file of the log has so many messages, or octets, at most.
FILE_MESSAGES, FILE_BYTES = 10_000, 8 << 20
_NOT_FOUND, _ACCESS_REFUSED = 404, 403
Result = TypeVar("Result")
_HEAD: Final = struct.Struct(">QQBH")
_U32: Final = struct.Struct(">L")


class ForeignQueue:
    """One queue. Connects when it is first asked for something."""

    def __init__(self, options: Options, queue: str, log: StagingLog) -> None:
        self._options = options
        self._queue = queue
        self._log = log
        self._connection: Connection | None = None
        self._channel: Channel | None = None
        self._consumer: Consumer | None = None
        self._patience = options.connect_timeout

    def ready(self) -> int:
        """How many messages wait. Raises Refused, BrokerUnavailable."""
        return int(self._patiently(self._count))

    def stage(self, most: int, octets: int, wait: float) -> int:
        """Moves up to so many messages (and octets, about) into the log, waiting `wait` seconds for the first; returns
        how many. Raises Refused, BrokerUnavailable."""
        before = self._log.next
        self._patiently(lambda: self._stage(most - (self._log.next - before), octets, wait))
        return self._log.next - before

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = self._channel = self._consumer = None

    def _patiently(self, action: Callable[[], Result]) -> Result:
        retry = Retry(self._options, self._patience, f"queue '{self._queue}'")
        while True:
            try:
                result = action()
                self._patience = self._options.broker_retry_timeout
                return result
            except ClientError as error:
                self.close()
                if error.reply_code in (_NOT_FOUND, _ACCESS_REFUSED) and "queue" in error.reply_text:
                    raise self._refusal(error) from error
                retry.pause(error)

    def _refusal(self, error: ClientError) -> ConnectorError:
        way = (
            "declare it, or correct option 'queue'"
            if error.reply_code == _NOT_FOUND
            else "grant the user read permission on it"
        )
        return Refused(f"queue '{self._queue}': {error.reply_text}; {way}", "not-found")

    def _open(self) -> Channel:
        if self._channel is None:
            failure: ClientError | None = None
            for url in self._options.urls:
                try:
                    self._connection = connect(url, self._options, "staged source")
                    break
                except ClientError as error:
                    failure = error if failure is None or error.reply_code else failure
            if self._connection is None:
                assert failure is not None
                raise failure
            self._channel = self._connection.channel()
        return self._channel

    def _count(self) -> int:
        reply = self._open().call(m.QueueDeclare(queue=self._queue, passive=True))
        return int(reply.message_count)

    def _stage(self, most: int, octets: int, wait: float) -> None:
        channel = self._open()
        if self._consumer is None:
            prefetch = min(65_535, self._options.max_messages)
            self._consumer = channel.consume(self._queue, prefetch_count=prefetch)
        waiting = self._consumer.deliveries
        first, size = self._log.next, 0
        deadline = time.monotonic() + wait
        pieces: list[bytes] = []
        while len(pieces) < most and size < octets:
            if not waiting:
                try:
                    channel.wait_until(lambda: bool(waiting), deadline, "messages")
                except ClientTimeout:
                    break
                deadline = time.monotonic() + min(wait, _PAUSE)
            delivery = waiting.popleft()
            pieces.append(_piece(first + len(pieces), delivery))
            size += len(pieces[-1])
            last = delivery
            if len(pieces) >= FILE_MESSAGES or size >= FILE_BYTES:
                octets -= size
                most -= len(pieces)
                self._keep(channel, pieces, last)
                first, size, pieces = self._log.next, 0, []
        if pieces:
            self._keep(channel, pieces, last)

    def _keep(self, channel: Channel, pieces: list[bytes], last: Delivery) -> None:
        self._log.append(b"".join((b"\x01", _U32.pack(len(pieces)), *pieces)), len(pieces))
        channel.ack(last, multiple=True)


#: A batch ends when the broker has sent nothing for so long.
_PAUSE: Final = 0.25


def _piece(offset: int, delivery: Delivery) -> bytes:
    """A message as blobs have it; the time is that of its staging."""
    exchange = delivery.exchange.encode("utf-8", "surrogateescape")
    key = delivery.routing_key.encode("utf-8", "surrogateescape")
    raw, body = delivery.raw_properties, delivery.body
    return b"".join((
        _HEAD.pack(offset, int(time.time() * 1000), delivery.redelivered, 0), bytes([len(exchange)]), exchange,
        bytes([len(key)]), key, _U32.pack(len(raw)), raw, _U32.pack(len(body)), body,
    ))  # fmt: skip
