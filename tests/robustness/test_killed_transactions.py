"""A long tx.commit that kill -9 cuts between two slices: a batch, as docs/storage.md says, not all or nothing."""

from __future__ import annotations

from pathlib import Path

from amqp_broker.client.connection import Connection
from amqp_broker.protocol import methods as m
from tests.robustness.broker import IS_PLAIN, PATIENCE_S, Broker

#: Of both, so many slices that the kill falls within the commit.
TAKEN = 2_000 if IS_PLAIN else 5_000
PUBLISHED = 20_000 if IS_PLAIN else 100_000
#: So many of them the broker has published, for others to see, when it is killed.
SEEN = 500
PERSISTENT = {"delivery_mode": 2}


def _fill(connection: Connection) -> None:
    with connection.channel() as channel:
        for queue in ("work", "results"):
            channel.call(m.QueueDeclare(queue=queue, durable=True))
        channel.confirm_select()
        for number in range(TAKEN):
            channel.publish("", "work", b"%d" % number, PERSISTENT)
        channel.wait_for_confirms(PATIENCE_S)


def test_what_a_cut_commit_was_to_settle_is_there_and_its_publishes_are_the_first_of_them(tmp_path: Path) -> None:
    """So whoever has seen no commit-ok, and repeats the work, repeats all of it, and loses none."""
    with Broker(tmp_path) as broker:
        with broker.connect() as connection:
            _fill(connection)
        worker, witness = broker.connect(), broker.connect()
        channel = worker.channel()
        channel.call(m.TxSelect())
        work = channel.consume("work")
        last = None
        for _ in range(TAKEN):
            last = work.next(PATIENCE_S)
            assert last is not None
        for number in range(PUBLISHED):
            channel.publish("", "results", b"%d" % number, PERSISTENT)
        channel.ack(last, multiple=True)
        results = witness.channel().consume("results")
        channel.send(m.TxCommit())
        for number in range(SEEN):
            seen = results.next(PATIENCE_S)
            assert seen is not None
            assert seen.body == b"%d" % number
        broker.kill()
    with Broker(tmp_path) as broker, broker.connect() as connection, connection.channel() as channel:
        left = channel.call(m.QueueDeclare(queue="results", passive=True)).message_count
        assert left < PUBLISHED, "the kill came within the commit"
        results = channel.consume("results")
        for number in range(left):
            there = results.next(PATIENCE_S)
            assert there is not None
            assert there.body == b"%d" % number
        work = channel.consume("work")
        for number in range(TAKEN):
            again = work.next(PATIENCE_S)
            assert again is not None
            assert again.body == b"%d" % number
