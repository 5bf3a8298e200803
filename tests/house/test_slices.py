"""Nothing that costs by the number of messages runs to its end in one turn (queues/background.py).

Each row of EVENTS brings about something that concerns N messages, on a node that does one slice a turn. What a turn
does is counted, not timed: messages that queues take in and give up. It must not grow with N. To add a row, write what
prepares N of something and what happens to them then, and, if counts of queues do not show the work, what does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from amqp_broker.metadata import commands
from amqp_broker.protocol import methods
from amqp_broker.protocol.frames import encode_method_frame
from amqp_broker.protocol.properties import encode_properties
from queues.quorum.consumer import MOST_IN_FLIGHT
from queues.quorum.queue import AT_ONCE
from tests.node.node_driver import Client, NodeDriver, consume, declare, frame_octets, publish_octets

FEW, MANY = 1_000, 8_000
#: So many messages are published, or rejected, in one turn to prepare an event: below what one slice does.
_AT_A_TIME = 250
_TTL_MS = 60_000
_DEAD = {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": "dead"}
_QUORUM = {"x_queue_type": "quorum"}
#: So much at most does a quorum queue in a turn, which gives up AT_ONCE with an entry of its log: each message counts
#: for leaving the ready ones, for being a dead letter, and for being one no more.
_QUORUM_AT_ONCE = 5 * AT_ONCE
#: So much may a consumer of a quorum queue hold.
_QUORUM_HOLDS = MOST_IN_FLIGHT


class OneSlice:
    """A pace of one slice a turn."""

    def start(self) -> None:
        """The turn's first slice begins."""

    def goes_on(self) -> bool:
        return False


@dataclass(frozen=True)
class Event:
    """prepare(driver, client, n): before the event, in as many turns as it takes. happen(driver, client): the event.
    is_over(driver, n): whether all that it causes is done. work(driver): numbers that change with each message that
    something is done to."""

    prepare: Callable[[NodeDriver, Client, int], None]
    happen: Callable[[NodeDriver, Client], None]
    is_over: Callable[[NodeDriver, int], bool]
    work: Callable[[NodeDriver], dict[str, tuple[int, ...]]]


def counts(driver: NodeDriver) -> dict[str, tuple[int, ...]]:
    """What each queue has taken in and given up; of quorum queues, what they hold."""
    found: dict[str, tuple[int, ...]] = {}
    for queue in driver.node.broker.vhosts["/"].queues.all_made():
        if not queue.writes.is_local:
            figures = queue.statistics()
            found[queue.name] = (figures.ready, figures.unacked, figures.dead_letters)
        else:
            found[queue.name] = (queue.published, queue.settled_count)
    return found


def publish(client: Client, queue: str, count: int, body: bytes = b"", **properties: object) -> None:
    section = encode_properties({"delivery_mode": 2, **properties})
    octets = encode_method_frame(1, methods.BasicPublish(0, "", queue, False, False))
    octets += frame_octets(2, 1, b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + section)
    client.send_octets((octets + (frame_octets(3, 1, body) if body else b"")) * count)


def fill(name: str, **properties: object) -> Callable[[NodeDriver, Client, int], None]:
    """So many messages into a queue."""

    def prepare(driver: NodeDriver, client: Client, n: int) -> None:
        for start in range(0, n, _AT_A_TIME):
            publish(client, name, min(_AT_A_TIME, n - start), b"body", **properties)
            driver.settle()

    return prepare


def source(**arguments: object) -> Callable[[NodeDriver, Client, int], None]:
    """A queue `source` with so many messages, and the queue `dead` for its dead letters."""

    def prepare(driver: NodeDriver, client: Client, n: int) -> None:
        client.send(1, declare("dead"), declare("source", **_DEAD, **arguments))
        driver.settle()
        fill("source")(driver, client, n)

    return prepare


def held(**arguments: object) -> Callable[[NodeDriver, Client, int], None]:
    """The same, and the client holds all of them unacknowledged."""

    def prepare(driver: NodeDriver, client: Client, n: int) -> None:
        source(**arguments)(driver, client, n)
        for number in range(-(-n // _QUORUM_HOLDS) if "x_queue_type" in arguments else 1):
            client.send(1, consume("source", f"consumer {number}"))
            driver.settle()
        while driver.queue("source").message_count():
            driver.node.writable(client.connection, driver.now)
            driver.settle()
        client.take()

    return prepare


def wait_for_expiry(driver: NodeDriver, client: Client) -> None:
    driver.now += _TTL_MS + 1
    driver.node.tick(driver.now)


def nack(driver: NodeDriver, client: Client) -> None:
    client.send(1, methods.BasicNack(0, True, False))


def nack_requeue(driver: NodeDriver, client: Client) -> None:
    client.send(1, methods.BasicNack(0, True, True))


def ack(driver: NodeDriver, client: Client) -> None:
    client.send(1, methods.BasicAck(0, True))


def give_back(how: Callable[[NodeDriver, Client], None]) -> Callable[[NodeDriver, Client], None]:
    """To a queue without consumers."""

    def happen(driver: NodeDriver, client: Client) -> None:
        client.send(1, methods.BasicCancel("consumer 0", True))
        how(driver, client)

    return happen


def recover(driver: NodeDriver, client: Client) -> None:
    client.send(1, methods.BasicRecover(True))


def close_channel(driver: NodeDriver, client: Client) -> None:
    client.send(1, methods.ChannelClose(200, "", 0, 0))


def lose(driver: NodeDriver, client: Client) -> None:
    driver.node.connection_lost(client.connection, driver.now)


def limit_length(driver: NodeDriver, client: Client) -> None:
    driver.node.broker.propose(commands.set_policy("/", "short", pattern="^source$", definition={"max-length": 0}))


def publish_large(driver: NodeDriver, client: Client) -> None:
    queue = driver.queue("source")
    client.send_octets(publish_octets(1, "source", bytes(queue.max_length_bytes)))


def all_are_in(name: str) -> Callable[[NodeDriver, int], bool]:
    return lambda driver, n: bool(driver.queue(name).message_count() == n)


def holds(driver: NodeDriver) -> dict[str, tuple[int, ...]]:
    """How much of each queue consumers hold."""
    queues = driver.node.broker.vhosts["/"].queues
    return {queue.name: (queue.unacked_count(),) for queue in queues.all_made()}


def nobody_holds(driver: NodeDriver, n: int) -> bool:
    return all(count == (0,) for count in holds(driver).values())


def with_bytes(driver: NodeDriver, client: Client, n: int) -> None:
    """A queue that is full to the octet, and then takes a message as large as all of them: all fall out."""
    client.send(1, declare("dead"), declare("source", **_DEAD, x_max_length_bytes=4 * n))
    driver.settle()
    fill("source")(driver, client, n)


def chain(driver: NodeDriver, client: Client, n: int) -> None:
    """Dead letters of which new ones are made at once, several times over."""
    client.send(1, declare("dead"))
    for number, to in ((2, "dead"), (1, "chain 2"), (0, "chain 1")):
        link: dict[str, object] = {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": to}
        link["x_message_ttl"] = 0 if number else _TTL_MS
        client.send(1, declare(f"chain {number}", **link))
    driver.settle()
    fill("chain 0")(driver, client, n)


TTL = {"x_message_ttl": _TTL_MS}
IN_DEAD = all_are_in("dead")

EVENTS: dict[str, Event] = {
    "messages expire": Event(source(**TTL), wait_for_expiry, IN_DEAD, counts),
    "messages expire, and no dead letters": Event(
        lambda driver, client, n: (client.send(1, declare("source", **TTL)), fill("source")(driver, client, n))[1],
        wait_for_expiry,
        lambda driver, n: not driver.queue("source").message_count(),
        counts,
    ),
    "deliveries are rejected": Event(held(), nack, IN_DEAD, counts),
    "deliveries come back too often": Event(held(x_delivery_limit=0), nack_requeue, IN_DEAD, counts),
    "deliveries are acknowledged": Event(held(), ack, nobody_holds, holds),
    "deliveries are requeued": Event(held(), give_back(nack_requeue), nobody_holds, holds),
    "deliveries are recovered": Event(held(), give_back(recover), nobody_holds, holds),
    "a channel with deliveries is closed": Event(held(), close_channel, nobody_holds, holds),
    "a connection with deliveries is lost": Event(held(), lose, nobody_holds, holds),
    "a policy makes the queue short": Event(source(), limit_length, IN_DEAD, counts),
    "a large message takes the place of many": Event(
        with_bytes, publish_large, lambda driver, n: driver.queue("source").message_count() == 1, counts
    ),
    "a chain of queues": Event(chain, wait_for_expiry, IN_DEAD, counts),
    "messages of a quorum queue expire": Event(source(**TTL, **_QUORUM), wait_for_expiry, IN_DEAD, counts),
    "a policy makes a quorum queue short": Event(source(**_QUORUM), limit_length, IN_DEAD, counts),
}


def most_in_a_turn(event: Event, n: int) -> int:
    """The most that one turn does while an event of n messages is worked off."""
    driver = NodeDriver()
    client = driver.client(1)
    event.prepare(driver, client, n)
    driver.node.background.set_pace(OneSlice())
    before = event.work(driver)
    event.happen(driver, client)
    most = 0
    for _ in range(200 * n):
        turn = driver.turn()
        now = event.work(driver)
        most = max(most, sum(abs(a - b) for name in now for a, b in zip(now[name], before[name], strict=True)))
        before = now
        if event.is_over(driver, n):
            return most
        job = driver.node.take_sync() if turn.wants_sync else None
        if job is not None:
            job.run()
            driver.node.synced(job, driver.now)
        elif turn.next_deadline is not None and turn.next_deadline > driver.now:
            driver.now = turn.next_deadline
            driver.node.tick(driver.now)
    raise AssertionError(f"it does not end: {event.work(driver)}")


@pytest.mark.parametrize("name", EVENTS)
def test_a_turn_does_no_more_for_many_than_for_few(name: str) -> None:
    few, many = most_in_a_turn(EVENTS[name], FEW), most_in_a_turn(EVENTS[name], MANY)
    assert many <= max(few + few // 4, _QUORUM_AT_ONCE), f"{name}: {many} in one turn for {MANY}, {few} for {FEW}"


def test_a_row_that_does_all_at_once_is_found() -> None:
    """What a purge settles in one turn grows with the queue: the counting sees it."""

    def purge(driver: NodeDriver, client: Client) -> None:
        client.send(1, methods.QueuePurge(0, "source", False))

    event = Event(source(), purge, lambda driver, n: not driver.queue("source").message_count(), counts)
    assert most_in_a_turn(event, FEW) == FEW
    assert most_in_a_turn(event, MANY) == MANY
