"""What large things may happen in a broker while somebody else uses it: the cases of benchmarks/bystander.py.

A case is a generator with two stops: up to the first it prepares, from there to the second is what is measured, and
the rest tidies up. What is measured ends only when the broker has done it all: a case waits for an answer, or for the
counts to say so.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from amqp_broker.bench.link import CHANNEL, Link, LinkError
from amqp_broker.bench.target import Target
from amqp_broker.protocol import constants, methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_content, encode_method_frame
from amqp_broker.protocol.properties import encode_properties
from benchmarks.brokers import BrokerError

POLL_SECONDS = 0.01
PATIENCE_SECONDS = 300.0
BODY = 16
#: Publishes and requests are sent in runs of so many.
RUN = 1000
#: What is to fall due together is published so long before, milliseconds and microseconds for each message.
DELAY_MS, DELAY_EACH_US = 1000, 250
MIB = 1 << 20
#: What a consumer without a limit holds of a quorum queue at most.
QUORUM_PREFETCH = 2000
#: A second channel, whose consumers take what the first gives back.
AGAIN = 2


class Administration(Protocol):
    """What is not done over AMQP, by each broker's own means."""

    def put_policy(self, name: str, pattern: str, definition: Mapping[str, object]) -> None: ...
    def delete_policy(self, name: str) -> None: ...
    def import_definitions(self, path: Path) -> None: ...
    def delete_users(self, users: Sequence[str]) -> None: ...
    def list_queues(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a case is played: a broker, its administration, a folder for files."""

    target: Target
    administration: Administration
    folder: Path

    def load(self, name: str = "load") -> Load:
        """One more connection."""
        return Load(self.target, name, PATIENCE_SECONDS)


class Load(Link):
    """A connection that does much at little cost to itself."""

    def publish(self, route: str, count: int, body: int = BODY, exchange: str = "", **properties: object) -> None:
        """So many messages of `body` octets to a routing key, without waiting for anything."""
        method = methods.BasicPublish(exchange=exchange, routing_key=route)
        content = encode_content(CHANNEL, encode_properties(properties), b"x" * body, self.frame_max)
        self.repeat(encode_method_frame(CHANNEL, method) + content, count)

    def repeat(self, octets: bytes, count: int) -> None:
        """The same frames so many times."""
        runs, rest = divmod(count, RUN)
        block = octets * min(count, RUN)
        for _ in range(runs):
            self.send_octets(block)
        self.send_octets(octets * rest)

    def send_each(self, calls: Iterator[methods.Method]) -> None:
        """Methods that are not answered, in runs; then wait until all are done."""
        octets = bytearray()
        for call in calls:
            octets += encode_method_frame(CHANNEL, call)
            if len(octets) > 1 << 16:
                self.send_octets(bytes(octets))
                octets.clear()
        self.send_octets(bytes(octets))
        self.sync()

    def fill(self, queue: str, count: int, arguments: Mapping[str, object] | None = None) -> None:
        """A queue with so many transient messages."""
        self.declare_queue(queue, False, arguments or {})
        self.publish(queue, count)
        self.wait_for(queue, count)

    def wait_for(self, queue: str, count: int) -> None:
        """Until the queue has so many ready messages. Raises BrokerError when it does not come to that."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (found := self.count_messages(queue)) != count:
            if time.monotonic() > deadline:
                raise BrokerError(f"queue {queue!r} has {found} messages and ought to have {count}")
            time.sleep(POLL_SECONDS)

    def consume(self, queue: str, tag: str = "all", no_ack: bool = False) -> None:
        """A consumer without a limit."""
        self.call(methods.BasicConsume(queue=queue, consumer_tag=tag, no_ack=no_ack), methods.BasicConsumeOk)

    def hold_all(self, queue: str, count: int) -> None:
        """Consume a queue with so many small messages, and acknowledge none."""
        self.consume(queue)
        self.take_bodies(count)

    def take_bodies(self, count: int) -> None:
        """Read until so many body frames have come; everything else is passed over."""
        data = self._read
        while count:
            position = 0
            while count and len(data) - position >= 8:
                end = position + 8 + int.from_bytes(data[position + 3 : position + 7], "big")
                if end > len(data):
                    break
                count -= data[position] == constants.FRAME_BODY
                position = end
            data = data[position:]
            if count:
                more = self.sock.recv(1 << 16)
                if not more:
                    raise LinkError(f"{self.target.location} has closed the connection")
                data += more
        self._read = data

    def break_off(self) -> None:
        """The connection is lost: no word, no close."""
        if self.sock.fileno() < 0:
            return
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


Run = Callable[[Stage, int], Iterator[None]]


@dataclass(frozen=True, slots=True)
class Case:
    """title has {count}. few: enough to see it work. has_rival: RabbitMQ does it too."""

    title: str
    run: Run
    count: int
    few: int
    has_rival: bool = True


# -- nothing, and much that is published -----------------------------------------------------------------------------


def nothing(stage: Stage, count: int) -> Iterator[None]:
    """What the machine and the bystanders themselves cost. count: milliseconds."""
    yield
    time.sleep(count / 1000)
    yield


def greedy(stage: Stage, count: int) -> Iterator[None]:
    """A publisher without confirms, and nobody who consumes."""
    with stage.load() as load:
        load.declare_queue("big", False, {})
        yield
        load.publish("big", count, body=1)
        load.wait_for("big", count)
        yield
        load.delete_queue("big")


def greedy_consumed(stage: Stage, count: int) -> Iterator[None]:
    """The same with a consumer."""
    with stage.load() as load, stage.load("consumer") as consumer:
        load.declare_queue("big", False, {})
        load.sync()
        consumer.consume("big", no_ack=True)
        yield
        for _ in range(0, count, 10 * RUN):
            load.publish("big", min(count, 10 * RUN), body=1)
            consumer.take_bodies(min(count, 10 * RUN))
        yield
        load.delete_queue("big")


def huge(stage: Stage, count: int) -> Iterator[None]:
    """One message of so many MiB, published and fetched."""
    with stage.load() as load:
        load.declare_queue("big", False, {})
        load.call(methods.ConfirmSelect(), methods.ConfirmSelectOk)
        yield
        load.publish("big", 1, body=count * MIB)
        load.expect(methods.BasicAck)
        load.call(methods.BasicGet(queue="big", no_ack=True), methods.BasicGetOk)
        load.sync()
        yield
        load.delete_queue("big")


def fan_out(stage: Stage, count: int) -> Iterator[None]:
    """Ten messages to each of so many queues."""
    with stage.load() as load:
        load.declare_exchange("fan", "fanout", False)
        declare_many(load, count)
        load.send_each(methods.QueueBind(queue=name, exchange="fan", nowait=True) for name in names(count))
        yield
        load.publish("", 10, exchange="fan")
        load.wait_for(f"many-{count - 1}", 10)
        yield
        load.delete_exchange("fan")
        delete_many(load, count)


# -- dead letters, delayed messages ----------------------------------------------------------------------------------

LETTERS = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"}


def dead_by_ttl(stage: Stage, count: int) -> Iterator[None]:
    """They have long expired, behind one that has not: when it goes, so do they."""
    with stage.load() as load:
        load.declare_queue("letters", False, {})
        load.declare_queue("big", False, LETTERS)
        load.publish("big", 1)
        load.publish("big", count, expiration="1")
        load.wait_for("big", count + 1)
        yield
        load.call(methods.BasicGet(queue="big", no_ack=True), methods.BasicGetOk)
        load.wait_for("letters", count)
        yield
        delete_all(load, "big", "letters")


def dead_one_by_one(stage: Stage, count: int) -> Iterator[None]:
    """basic.reject of each."""
    with stage.load() as load, stage.load("other") as other:
        other.declare_queue("letters", False, {})
        other.fill("big", count, LETTERS)
        load.hold_all("big", count)
        yield
        load.send_each(methods.BasicReject(delivery_tag=tag, requeue=False) for tag in range(1, count + 1))
        other.wait_for("letters", count)
        yield
        delete_all(other, "big", "letters")


def dead_at_once(stage: Stage, count: int) -> Iterator[None]:
    """One basic.nack of all."""
    with stage.load() as load, stage.load("other") as other:
        other.declare_queue("letters", False, {})
        other.fill("big", count, LETTERS)
        load.hold_all("big", count)
        yield
        load.send(methods.BasicNack(delivery_tag=0, multiple=True, requeue=False))
        other.wait_for("letters", count)
        yield
        delete_all(other, "big", "letters")


def dead_by_length(stage: Stage, count: int) -> Iterator[None]:
    """Each publish to a full queue pushes one out."""
    with stage.load() as load:
        load.declare_queue("letters", False, {})
        load.fill("big", 1, {**LETTERS, "x-max-length": 1})
        yield
        load.publish("big", count)
        load.wait_for("letters", count)
        yield
        delete_all(load, "big", "letters")


def dead_by_policy(stage: Stage, count: int) -> Iterator[None]:
    """A long queue is told that it may be no longer than one, and gets one more."""
    with stage.load() as load:
        load.declare_queue("letters", False, {})
        load.fill("big", count, LETTERS)
        yield
        stage.administration.put_policy("short", "^big$", {"max-length": 1})
        load.publish("big", 1)
        load.wait_for("letters", count)
        yield
        stage.administration.delete_policy("short")
        delete_all(load, "big", "letters")


def delayed_of(mode: int, durable: bool) -> Run:
    """Messages of a delivery mode that an exchange holds back, until they fall due within a moment."""

    def delayed(stage: Stage, count: int) -> Iterator[None]:
        held = f"held-{mode}"
        with stage.load() as load:
            arguments = Table({"x-delayed-type": "fanout"})
            load.send(
                methods.ExchangeDeclare(
                    exchange=held, type="x-delayed-message", durable=durable, nowait=True, arguments=arguments
                )
            )
            load.declare_queue("big", durable, {})
            load.bind_queue("big", held, "", {})
            load.sync()
            due = time.monotonic() + (DELAY_MS + count * DELAY_EACH_US / 1000) / 1000
            for first in range(0, count, RUN):
                delay = max(1, int((due - time.monotonic()) * 1000))
                headers = {"x-delay": delay}
                load.publish("", min(RUN, count - first), exchange=held, headers=headers, delivery_mode=mode)
            load.sync()
            if load.count_messages("big"):
                raise BrokerError("the first delayed messages were due before the last was published")
            yield
            load.wait_for("big", count)
            yield
            load.delete_exchange(held)
            load.delete_queue("big")

    return delayed


# -- transactions ----------------------------------------------------------------------------------------------------


def commit_of(durable: bool) -> Run:
    """A transaction of so many publishes."""

    def commit(stage: Stage, count: int) -> Iterator[None]:
        with stage.load() as load:
            load.declare_queue("big", durable, {})
            load.call(methods.TxSelect(), methods.TxSelectOk)
            load.publish("big", count, delivery_mode=2 if durable else 1)
            load.sync()
            yield
            load.call(methods.TxCommit(), methods.TxCommitOk)
            yield
            load.delete_queue("big")

    return commit


def commit_acks(stage: Stage, count: int) -> Iterator[None]:
    """A transaction of so many acknowledgements, one by one."""
    yield from _in_transaction(stage, count, methods.TxCommit(), methods.TxCommitOk)


def rollback(stage: Stage, count: int) -> Iterator[None]:
    """The same, given up."""
    yield from _in_transaction(stage, count, methods.TxRollback(), methods.TxRollbackOk)


def _in_transaction(stage: Stage, count: int, end: methods.Method, answer: type[methods.Method]) -> Iterator[None]:
    with stage.load() as load, stage.load("other") as other:
        other.fill("big", count)
        load.call(methods.TxSelect(), methods.TxSelectOk)
        load.hold_all("big", count)
        load.send_each(methods.BasicAck(delivery_tag=tag) for tag in range(1, count + 1))
        yield
        load.call(end, answer)
        yield
        delete_all(other, "big")


# -- consumers that leave --------------------------------------------------------------------------------------------


def crowd(stage: Stage, count: int) -> Load:
    """A connection with so many consumers of one queue."""
    load = stage.load("crowd")
    load.declare_queue("big", False, {})
    load.send_each(
        methods.BasicConsume(queue="big", consumer_tag=f"c{number}", nowait=True) for number in range(count)
    )
    return load


def cancel_each(stage: Stage, count: int) -> Iterator[None]:
    """basic.cancel of each, the youngest first."""
    with crowd(stage, count) as load:
        yield
        load.send_each(
            methods.BasicCancel(consumer_tag=f"c{number}", nowait=True) for number in reversed(range(count))
        )
        yield
        load.delete_queue("big")


def cancel_by_channel(stage: Stage, count: int) -> Iterator[None]:
    """Their channel is closed."""
    with crowd(stage, count) as load:
        yield
        close_channel(load)
        yield
        load.call(methods.ChannelOpen(), methods.ChannelOpenOk)
        load.delete_queue("big")


def cancel_by_loss(stage: Stage, count: int) -> Iterator[None]:
    """Their connection is lost."""
    with stage.load() as other:
        load = crowd(stage, count)
        yield
        load.break_off()
        wait_until_unused(other, "big")
        yield
        other.delete_queue("big")


def cancel_by_deletion(stage: Stage, count: int) -> Iterator[None]:
    """Their queue is deleted."""
    with crowd(stage, count) as load, stage.load("other") as other:
        yield
        other.call(methods.QueueDelete(queue="big"), methods.QueueDeleteOk)
        load.sync()
        yield


def wait_until_unused(load: Load, queue: str) -> None:
    """Until a queue has no consumers. Raises BrokerError when they stay."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    asking = methods.QueueDeclare(queue=queue, passive=True)
    while load.call(asking, methods.QueueDeclareOk).consumer_count:
        if time.monotonic() > deadline:
            raise BrokerError(f"queue {queue!r} keeps the consumers of a connection that is gone")
        time.sleep(POLL_SECONDS)


# -- what is unacknowledged ------------------------------------------------------------------------------------------


def settle_of(ending: Callable[[Load], None], left: int) -> Run:
    """So many unacknowledged messages, and what ends that. left: of a hundred, how many are in the queue then."""

    def settle(stage: Stage, count: int) -> Iterator[None]:
        with stage.load("other") as other:
            load = stage.load()
            other.fill("big", count)
            load.hold_all("big", count)
            load.send(methods.BasicCancel(consumer_tag="all", nowait=True))
            load.sync()
            yield
            ending(load)
            other.wait_for("big", count * left // 100)
            yield
            load.break_off()
            delete_all(other, "big")

    return settle


def ack_all(load: Load) -> None:
    load.send(methods.BasicAck(delivery_tag=0, multiple=True))
    load.sync()


def requeue_all(load: Load) -> None:
    load.send(methods.BasicNack(delivery_tag=0, multiple=True, requeue=True))


def recover_all(load: Load) -> None:
    load.call(methods.BasicRecover(requeue=True), methods.BasicRecoverOk)


def close_channel(load: Load) -> None:
    load.call(methods.ChannelClose(reply_code=200, reply_text="done"), methods.ChannelCloseOk)


def close(load: Load) -> None:
    load.send(methods.ChannelClose(reply_code=200, reply_text="done"))


def break_off(load: Load) -> None:
    load.break_off()


def circulate_of(ending: Callable[[Load], None]) -> Run:
    """So many unacknowledged messages of a quorum queue come back to it, and its consumers take them at once."""

    def circulate(stage: Stage, count: int) -> Iterator[None]:
        with stage.load("other") as other:
            load = stage.load()
            other.declare_queue("big", True, {"x-queue-type": "quorum"})
            other.publish("big", count)
            other.wait_for("big", count)
            for number in range(-(-count // QUORUM_PREFETCH)):
                load.send(methods.BasicConsume(queue="big", consumer_tag=f"c{number}", nowait=True))
            load.take_bodies(count)
            load.send(methods.ChannelOpen(), AGAIN)
            load.expect(methods.ChannelOpenOk, AGAIN)
            for number in range(-(-count // QUORUM_PREFETCH)):
                load.send(methods.BasicConsume(queue="big", consumer_tag=f"c{number}", nowait=True), AGAIN)
            load.send(methods.QueueDeclare(queue="big", passive=True), AGAIN)
            load.expect(methods.QueueDeclareOk, AGAIN)
            yield
            ending(load)
            load.take_bodies(count)
            yield
            load.break_off()
            delete_all(other, "big")

    return circulate


def lose_channels(stage: Stage, count: int) -> Iterator[None]:
    """A connection is lost whose channels, up to 2,000, hold so many unacknowledged messages together."""
    channels = min(2000, count)
    with stage.load("other") as other:
        load = stage.load()
        other.fill("big", count)
        each = count // channels
        for channel in range(2, channels + 1):
            load.send(methods.ChannelOpen(), channel)
            load.expect(methods.ChannelOpenOk, channel)
        for channel in range(1, channels + 1):
            load.send(methods.BasicQos(prefetch_count=each), channel)
            load.send(methods.BasicConsume(queue="big", consumer_tag="one", nowait=True), channel)
        load.take_bodies(each * channels)
        yield
        load.break_off()
        other.wait_for("big", count)
        yield
        delete_all(other, "big")


# -- queues, exchanges, connections ----------------------------------------------------------------------------------


def names(count: int) -> Iterator[str]:
    return (f"many-{number}" for number in range(count))


def declare_many(load: Load, count: int, exclusive: bool = False) -> None:
    """So many transient queues."""
    load.send_each(methods.QueueDeclare(queue=name, exclusive=exclusive, nowait=True) for name in names(count))


def delete_many(load: Load, count: int) -> None:
    load.send_each(methods.QueueDelete(queue=name, nowait=True) for name in names(count))


def delete_all(load: Load, *queues: str) -> None:
    """Delete these queues and wait for it."""
    for queue in queues:
        load.delete_queue(queue)
    load.sync()


def purge(stage: Stage, count: int) -> Iterator[None]:
    """queue.purge"""
    with stage.load() as load:
        load.fill("big", count)
        yield
        load.call(methods.QueuePurge(queue="big"), methods.QueuePurgeOk)
        yield
        load.delete_queue("big")


def delete(stage: Stage, count: int) -> Iterator[None]:
    """queue.delete"""
    with stage.load() as load:
        load.fill("big", count)
        yield
        load.call(methods.QueueDelete(queue="big"), methods.QueueDeleteOk)
        yield


def import_queues(stage: Stage, count: int) -> Iterator[None]:
    """Definitions with so many durable queues."""
    path = stage.folder / "definitions.json"
    queues = [
        {"name": name, "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}} for name in names(count)
    ]
    path.write_text(json.dumps({"queues": queues}), encoding="ascii")
    with stage.load() as load:
        yield
        stage.administration.import_definitions(path)
        load.count_messages(f"many-{count - 1}")
        yield
        delete_many(load, count)


def import_users(stage: Stage, count: int) -> Iterator[None]:
    """Definitions with so many users, whose passwords are in clear: each is to be hashed."""
    path = stage.folder / "definitions.json"
    users = [{"name": name, "password": f"password of {name}", "tags": []} for name in names(count)]
    path.write_text(json.dumps({"users": users}), encoding="ascii")
    yield
    stage.administration.import_definitions(path)
    yield
    stage.administration.delete_users(list(names(count)))


def bind_many(stage: Stage, count: int) -> Iterator[None]:
    """So many bindings of a topic exchange."""
    with stage.load() as load:
        load.declare_exchange("topics", "topic", False)
        load.declare_queue("big", False, {})
        load.sync()
        yield
        load.send_each(
            methods.QueueBind(queue="big", exchange="topics", routing_key=f"a.{number}.*", nowait=True)
            for number in range(count)
        )
        yield
        load.delete_exchange("topics")
        load.delete_queue("big")


def lose_exclusive(stage: Stage, count: int) -> Iterator[None]:
    """A connection is lost that has so many exclusive queues."""
    with stage.load("other") as other:
        load = stage.load()
        declare_many(load, count, exclusive=True)
        last = f"many-{count - 1}"
        yield
        load.break_off()
        wait_until_gone(stage, last)
        yield
        other.sync()


def wait_until_gone(stage: Stage, queue: str) -> None:
    """Until a queue is no more. Raises BrokerError when it stays."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        with stage.load("looks") as looker:
            try:
                looker.count_messages(queue)
            except LinkError as error:
                if " 404 " in str(error):
                    return
                raise
        if time.monotonic() > deadline:
            raise BrokerError(f"queue {queue!r} is still there")
        time.sleep(POLL_SECONDS)


def policy_over_many(stage: Stage, count: int) -> Iterator[None]:
    """A policy for all of so many queues."""
    with stage.load() as load:
        declare_many(load, count)
        yield
        stage.administration.put_policy("many", "^many-", {"max-length": 1000})
        load.sync()
        yield
        stage.administration.delete_policy("many")
        delete_many(load, count)


def list_many(stage: Stage, count: int) -> Iterator[None]:
    """A list of so many queues."""
    with stage.load() as load:
        declare_many(load, count)
        yield
        stage.administration.list_queues()
        yield
        delete_many(load, count)


def ask_much(stage: Stage, count: int) -> Iterator[None]:
    """So many basic.get of an empty queue, all sent at once."""
    with stage.load() as load:
        load.declare_queue("big", False, {})
        load.sync()
        octets = encode_method_frame(CHANNEL, methods.BasicGet(queue="big", no_ack=True))
        yield
        for first in range(0, count, 10 * RUN):
            here = min(10 * RUN, count - first)
            load.repeat(octets, here)
            for _ in range(here):
                load.expect(methods.BasicGetEmpty)
        yield
        load.delete_queue("big")


def declare_much(stage: Stage, count: int) -> Iterator[None]:
    """So many transient queues, declared at once."""
    with stage.load() as load:
        yield
        declare_many(load, count)
        yield
        delete_many(load, count)


def connect_much(stage: Stage, count: int) -> Iterator[None]:
    """So many connections, each closed at once, a thousand at a time."""
    yield
    for first in range(0, count, RUN):
        connect_together(stage.target, min(RUN, count - first))
    yield


def connect_together(target: Target, count: int) -> None:
    """All shake hands at the same time, step by step, and close."""
    login = b"\0" + target.user.encode() + b"\0" + target.password.encode()
    tune = methods.ConnectionTuneOk(2047, constants.DEFAULT_FRAME_MAX, 0)
    steps = [
        constants.PROTOCOL_HEADER,
        encode_method_frame(0, methods.ConnectionStartOk(Table(), "PLAIN", login, "en_US")),
        encode_method_frame(0, tune) + encode_method_frame(0, methods.ConnectionOpen(virtual_host=target.vhost)),
        encode_method_frame(CHANNEL, methods.ChannelOpen()),
        encode_method_frame(0, methods.ConnectionClose(reply_code=200, reply_text="done")),
    ]
    sockets: list[socket.socket] = []
    try:
        for _ in range(count):
            sockets.append(socket.create_connection((target.host, target.port), PATIENCE_SECONDS))
        for step in steps:
            for each in sockets:
                each.sendall(step)
            for each in sockets:
                if not each.recv(1 << 16):
                    raise BrokerError(f"{target.location} closed a connection within its handshake")
    finally:
        for each in sockets:
            each.close()


CASES: dict[str, Case] = {
    "nothing": Case("nothing, {count} ms long", nothing, 2000, 200),
    "ttl": Case("{count} dead letters by TTL", dead_by_ttl, 100_000, 200),
    "reject-each": Case("{count} dead letters by reject, one by one", dead_one_by_one, 100_000, 200),
    "reject-all": Case("{count} dead letters by one reject", dead_at_once, 100_000, 200),
    "max-length": Case("{count} dead letters by max-length, one by one", dead_by_length, 100_000, 200),
    "max-length-policy": Case("{count} dead letters by a policy's max-length", dead_by_policy, 100_000, 200),
    "delayed": Case("{count} delayed messages fall due, in RAM", delayed_of(1, False), 100_000, 200, False),
    "delayed-durable": Case("{count} delayed messages fall due, persistent", delayed_of(2, True), 100_000, 200, False),
    "commit": Case("tx.commit of {count} publishes", commit_of(False), 100_000, 200),
    "commit-durable": Case("tx.commit of {count} persistent publishes", commit_of(True), 100_000, 200),
    "commit-acks": Case("tx.commit of {count} acks", commit_acks, 100_000, 200),
    "rollback": Case("tx.rollback of {count} acks", rollback, 100_000, 200),
    "cancel-each": Case("{count} consumers cancelled one by one", cancel_each, 10_000, 50),
    "cancel-channel": Case("{count} consumers cancelled by channel.close", cancel_by_channel, 10_000, 50),
    "cancel-loss": Case("{count} consumers lost with their connection", cancel_by_loss, 10_000, 50),
    "cancel-deletion": Case("{count} consumers lost with their queue", cancel_by_deletion, 10_000, 50),
    "ack-all": Case("one ack of {count}", settle_of(ack_all, 0), 1_000_000, 200),
    "requeue": Case("requeue of {count}", settle_of(requeue_all, 100), 100_000, 200),
    "requeue-quorum": Case("{count} requeued, taken again (quorum)", circulate_of(requeue_all), 100_000, 200),
    "close-quorum": Case("{count} of a closed channel taken again (quorum)", circulate_of(close), 100_000, 200),
    "recover": Case("basic.recover of {count}", settle_of(recover_all, 100), 100_000, 200),
    "channel-close": Case("channel.close with {count} unacknowledged", settle_of(close_channel, 100), 100_000, 200),
    "loss": Case("a connection lost with {count} unacknowledged", settle_of(break_off, 100), 100_000, 200),
    "loss-channels": Case("the same, over 2,000 channels", lose_channels, 100_000, 200),
    "purge": Case("purge of {count}", purge, 100_000, 200),
    "delete": Case("delete of a queue with {count}", delete, 100_000, 200),
    "import": Case("import of {count} queues", import_queues, 10_000, 50),
    "import-users": Case("import of {count} users with passwords in clear", import_users, 100, 3),
    "bind": Case("{count} bindings of a topic exchange", bind_many, 10_000, 50),
    "declare": Case("{count} queues declared", declare_much, 10_000, 50),
    "exclusive": Case("a connection lost with {count} exclusive queues", lose_exclusive, 10_000, 50),
    "policy": Case("a policy over {count} queues", policy_over_many, 10_000, 50),
    "list": Case("listing {count} queues", list_many, 20_000, 50),
    "get": Case("{count} basic.get at once", ask_much, 100_000, 200),
    "connect": Case("{count} connections, 1,000 at a time", connect_much, 20_000, 20),
    "greedy": Case("{count} tiny messages, no consumer", greedy, 500_000, 2000),
    "greedy-consumed": Case("{count} tiny messages, consumed", greedy_consumed, 500_000, 10_000),
    "fan-out": Case("10 messages to {count} queues", fan_out, 10_000, 50),
    "huge": Case("a message of {count} MiB", huge, 16, 1),
    "largest": Case("a message of {count} MiB", huge, 128, 2),
}
