"""Publishes rows with confirms (`delivery=confirm`): to any broker, at least once.

A task is done when the broker has confirmed each of its messages. A task that is tried again publishes again. A broken
connection fails the task, and Spark tries it again: what was confirmed cannot be told from what was not.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from amqp_broker.client import Channel, ClientError, Connection
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.fields import Table
from spark_connector.encode import Encoder
from spark_connector.errors import OptionError, PublishFailed
from spark_connector.link import connect
from spark_connector.options import Options
from spark_connector.service import Retry, final_refusal


def publish(options: Options, encoder: Encoder, batches: Iterable[pa.RecordBatch]) -> int:
    """Publishes all rows; returns how many. Raises PublishFailed, BrokerUnavailable, Refused."""
    connection = _connect(options)
    try:
        with connection, connection.channel() as channel:
            channel.confirm_select()
            return _publish(options, encoder, batches, channel)
    except ClientError as error:
        refusal = final_refusal(error, options)
        if refusal is not None:
            raise refusal from error
        raise PublishFailed(f"publishing to {options.where} failed: {error}; the task may be tried again") from error


def _publish(options: Options, encoder: Encoder, batches: Iterable[pa.RecordBatch], channel: Channel) -> int:
    count = 0
    for batch in batches:
        for message in encoder.messages(batch):
            channel.publish(*message[:2], message.body, message.properties, mandatory=options.mandatory)
            count += 1
            if count % options.max_in_flight == 0:
                _wait(options, channel)
    _wait(options, channel)
    return count


def _wait(options: Options, channel: Channel) -> None:
    """Until all is confirmed. Raises PublishFailed for what came back or was refused."""
    refused = channel.wait_for_confirms(options.confirm_timeout)
    returned = channel.take_returned()
    if returned:
        first = returned[0]
        raise PublishFailed(
            f"no queue takes messages to exchange '{first.exchange}' with routing key '{first.routing_key}' "
            f"({first.reply_text}): declare or bind one, correct 'exchange' or 'routingKey', or set mandatory=false"
        )
    if refused:
        raise PublishFailed(
            f"the broker refused {len(refused)} messages (nack): a queue is full (x-overflow) or could not store them"
        )


def declare_queue(options: Options) -> None:
    """The durable queue of `declareQueue`. Raises OptionError, Refused, BrokerUnavailable."""
    if options.exchange or not options.routing_key:
        raise OptionError("option 'declareQueue' needs the default exchange and 'routingKey', the queue's name")
    with _connect(options) as connection, connection.channel() as channel:
        try:
            channel.call(m.QueueDeclare(queue=options.routing_key, durable=True, arguments=Table()))
        except ClientError as error:
            raise OptionError(f"option 'declareQueue': queue '{options.routing_key}': {error.reply_text}") from error


def _connect(options: Options) -> Connection:
    """To the first node that takes us, patiently."""
    retry = Retry(options, options.connect_timeout, "publishing")
    while True:
        failure: ClientError | None = None
        for url in options.urls:
            try:
                return connect(url, options, "sink")
            except ClientError as error:
                failure = error if failure is None or error.reply_code else failure
        assert failure is not None
        retry.pause(failure)
