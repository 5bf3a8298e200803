"""Very many connections of a user who is deleted end in slices, each with the word that says why."""

from __future__ import annotations

from amqp_broker.protocol import methods
from tests.node.node_driver import NodeDriver
from tests.node.one_slice import OneSlice

COUNT = 60
AT_ONCE = 8


def test_those_of_a_deleted_user_end_a_few_in_a_turn() -> None:
    driver = NodeDriver()
    clients = [driver.client(1) for _ in range(COUNT)]
    driver.node.background.set_pace(OneSlice())
    driver.node.control.close_user("guest")
    left = driver.node.clients.open_count
    assert COUNT - AT_ONCE <= left < COUNT
    while left:
        driver.turn()
        assert left - AT_ONCE <= driver.node.clients.open_count < left
        left = driver.node.clients.open_count
    for client in clients:
        (closing,) = client.take()
        assert isinstance(closing.method, methods.ConnectionClose)
        assert closing.method.reply_text.endswith("user 'guest' is deleted")


def test_who_goes_in_between_does_no_harm() -> None:
    driver = NodeDriver()
    clients = [driver.client(1) for _ in range(COUNT)]
    driver.node.background.set_pace(OneSlice())
    driver.node.control.close_user("guest")
    for client in clients[COUNT // 2 :]:
        driver.lose(client)
    newcomer = driver.client(1)
    for _ in range(COUNT):
        driver.turn()
    assert driver.node.clients.open_count == 1
    assert newcomer.names() == []
