"""What comes back to a quorum queue in great numbers goes back to its log, and out again, a part in each turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from amqp_broker.protocol import methods
from amqp_broker.queue_types.proxy.command_sink import HANDED_AT_ONCE, REMADE
from queues.quorum.consumer import MOST_IN_FLIGHT
from tests.node.node_driver import Client, NodeDriver, consume, declare, publish_octets
from tests.node.one_slice import OneSlice

CONSUMERS = 3
MESSAGES = CONSUMERS * MOST_IN_FLIGHT
#: A slow disk: so many turns pass before something is synced.
TURNS_OF_A_SYNC = 40
#: What a log is given at a time, and a slice more.
GIVEN_AT_ONCE = 512 + 128


def crowd(driver: NodeDriver) -> Client:
    """A client whose consumers, of channel 1, hold all that a queue has; channel 2 has as many who hold nothing."""
    publisher, client = driver.client(1), driver.client(1, 2)
    publisher.send(1, declare("q", x_queue_type="quorum"))
    driver.settle()
    publisher.send_octets(publish_octets(1, "q", b"x") * MESSAGES)
    driver.settle()
    for channel in (1, 2):
        client.send(channel, *[consume("q", f"c{number}") for number in range(CONSUMERS)])
        driver.settle()
    driver.settle()
    assert client.names().count("basic.deliver") == MESSAGES
    driver.node.background.set_pace(OneSlice())
    return client


def nack(client: Client) -> None:
    client.send(1, methods.BasicNack(0, True, True))


def close(client: Client) -> None:
    client.send(1, methods.ChannelClose(200, "done", 0, 0))


def returns(driver: NodeDriver) -> int:
    """How often messages came back to the queue's log."""
    queue = driver.queue("q")
    state = queue.sink.machine.queue_state(queue.queue_id)
    entries = [entry for each in state.delivery_owners.values() for entry, _ in each.held.values()]
    return sum(entry.returns for entry in [*entries, *state.ready.head])


@pytest.mark.parametrize("give_back", [nack, close])
def test_it_goes_back_and_out_again_a_part_at_a_time(give_back: Callable[[Client], None]) -> None:
    driver = NodeDriver()
    client = crowd(driver)
    give_back(client)
    heard: Counter[str] = Counter()
    handed, given = [], []
    before = 0
    while heard["basic.deliver"] < MESSAGES:
        if driver.turn().wants_sync and (job := driver.node.take_sync()) is not None:
            driver.synced(job)
            given.append(returns(driver) - before)
            before += given[-1]
        for _ in range(TURNS_OF_A_SYNC):
            driver.turn()
            names = client.names()
            handed.append(names.count("basic.deliver"))
            heard.update(names)
    assert before == MESSAGES
    assert max(given) <= GIVEN_AT_ONCE
    assert max(handed) <= 2 * HANDED_AT_ONCE // REMADE
    driver.settle()
    heard.update(client.names())
    assert heard["basic.deliver"] == MESSAGES
    assert heard["channel.close-ok"] == (1 if give_back is close else 0)
