"""What the driver's part of the streaming source claims while Spark reads a batch, without a Spark."""

from __future__ import annotations

from pyspark.sql.streaming.datasource import ReadMaxRows

from amqp_broker.client import Connection
from amqp_broker.protocol.methods import QueueDeclare
from amqp_broker.pytest_plugin import BrokerForTest
from spark_connector.options import Options
from spark_connector.schema import row_type
from spark_connector.service import Service
from spark_connector.stream_reader import LeaseStreamReader, Range


class Driver:
    """A reader of queue "q", and what Spark would do with it. at: the end of the last batch."""

    def __init__(self, url: str, **options: str) -> None:
        asked = {"uri": url, "queue": "q", "group": "g", "numpartitions": "1", "polltimeout": "10ms", **options}
        self.options = Options.parse(asked)
        self.reader = LeaseStreamReader(self.options, row_type("map"))
        self.at = self.reader.initialOffset()

    def batch(self, most: int = 10) -> tuple[int, int] | None:
        """Plans the next batch: its range, None for none."""
        end = self.reader.latestOffset(self.at, ReadMaxRows(most))
        ranges = self.reader.partitions(self.at, end)
        self.at = end
        for each in ranges:
            assert isinstance(each, Range)
            return each.start, each.end
        return None


def publish(url: str, count: int) -> None:
    with Connection.open(url) as connection, connection.channel() as channel:
        channel.call(QueueDeclare(queue="q", durable=True))
        channel.confirm_select()
        for number in range(count):
            channel.publish("", "q", b"%d" % number, {"delivery_mode": 2})
        assert channel.wait_for_confirms() == []


def leased_to(url: str) -> int:
    """The end of what the group holds."""
    (group,) = Service(Options.parse({"uri": url})).ask("lease.stat", {"queue": "q", "group": "g"}).fields["groups"]
    return int(group["next"])


def test_behind_a_full_batch_the_next_one_is_claimed_and_filled_up(amqp_broker: BrokerForTest) -> None:
    publish(amqp_broker.url, 25)
    driver = Driver(amqp_broker.url)
    assert driver.batch() == (0, 10)
    assert driver.batch() == (10, 20)
    publish(amqp_broker.url, 3)  # the last five are claimed by now, or soon: these come into the same batch
    assert driver.batch() == (20, 28)
    assert leased_to(amqp_broker.url) == 28
    publish(amqp_broker.url, 1)
    assert leased_to(amqp_broker.url) == 28  # behind a batch that was not full nothing is claimed
    assert driver.batch() == (28, 29)
    assert driver.batch() is None


def test_what_was_claimed_ahead_is_offered_to_the_next_driver(amqp_broker: BrokerForTest) -> None:
    publish(amqp_broker.url, 30)
    first = Driver(amqp_broker.url)
    assert first.batch() == (0, 10)
    second = Driver(amqp_broker.url)  # answered after what the first one has asked for
    assert leased_to(amqp_broker.url) == 20
    second.at = first.at
    assert second.batch(4) == (10, 14)
    assert second.batch() == (14, 24)


def test_a_connection_that_breaks_takes_the_claim_ahead_along(amqp_broker: BrokerForTest) -> None:
    publish(amqp_broker.url, 30)
    driver = Driver(amqp_broker.url)
    assert driver.batch() == (0, 10)
    assert driver.reader._service is not None
    driver.reader._service.drop()
    assert driver.batch() == (10, 20)
    assert driver.batch() == (20, 30)
    assert driver.batch() is None


def test_no_more_is_claimed_ahead_than_a_query_is_going_to_read(amqp_broker: BrokerForTest) -> None:
    publish(amqp_broker.url, 15)
    driver = Driver(amqp_broker.url)
    driver.reader.prepareForTriggerAvailableNow()
    publish(amqp_broker.url, 20)
    assert driver.batch() == (0, 10)
    assert driver.batch() == (10, 15)
    assert driver.batch() is None
    assert leased_to(amqp_broker.url) == 15


def test_who_waits_for_fuller_batches_claims_nothing_ahead(amqp_broker: BrokerForTest) -> None:
    publish(amqp_broker.url, 25)
    driver = Driver(amqp_broker.url, minmessagesperbatch="5")
    assert driver.batch() == (0, 10)
    assert driver.batch() == (10, 20)
    assert leased_to(amqp_broker.url) == 20
