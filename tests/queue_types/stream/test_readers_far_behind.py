"""A reader that is far behind is served apart from others until it has caught up."""

from __future__ import annotations

from typing import Any

from amqp_broker.protocol import methods
from tests.node.node_driver import Client, NodeDriver, small_config
from tests.queue_types.stream.test_streams_of_a_node import a_stream, consume, delivered, fill, qos

FAR_BYTES = 64 * 1024
MESSAGES = 60
BODY = bytes(8 * 1024)


class OneSlice:
    """A Pace: a slice whenever somebody asks for one."""

    def __init__(self) -> None:
        self._is_new = True

    def start(self) -> None:
        """See Pace."""

    def goes_on(self) -> bool:
        """See Pace."""
        self._is_new = not self._is_new
        return not self._is_new


def a_node() -> tuple[NodeDriver, Client]:
    """With a stream that is long enough for somebody to be far behind."""
    driver = NodeDriver(small_config(stream_far_bytes=FAR_BYTES, page_size_bytes=16 * 1024))
    driver.node.background.set_spare_pace(OneSlice())
    publisher = a_stream(driver)
    for _ in range(MESSAGES):
        fill(driver, publisher, BODY)
    return driver, publisher


def a_reader(driver: NodeDriver, credit: int, **arguments: object) -> Client:
    client = driver.client(1)
    client.send(1, qos(credit), consume(**arguments))
    driver.settle()
    return client


def one_far_behind(driver: NodeDriver, **arguments: object) -> Client:
    """It has had five messages: before that nobody knew where it begins. It has asked for the next five."""
    client = a_reader(driver, 5, **arguments)
    assert [offset for offset, _ in delivered(client)] == [0, 1, 2, 3, 4]
    client.send(1, methods.BasicAck(5, True))
    driver.settle()
    return client


def serve_behind(driver: NodeDriver) -> None:
    """Those who are far behind have a slice."""
    for connection in driver.node.serve_behind(driver.now):
        connection.transport.hear(b"".join(connection.take_output()))  # type: ignore[union-attr]
    driver.settle()


def trailing(client: Client) -> int:
    connection: Any = client.connection
    return int(connection.trailing)


def test_it_is_not_served_with_others_and_not_before_it_has_its_share() -> None:
    driver, publisher = a_node()
    far = one_far_behind(driver)
    near = a_reader(driver, 5, x_stream_offset="next")
    fill(driver, publisher, b"new")
    assert [body for _, body in delivered(near)] == [b"new"]
    assert delivered(far) == []
    assert (trailing(far), trailing(near)) == (1, 0)
    serve_behind(driver)
    assert [offset for offset, _ in delivered(far)] == [5, 6, 7, 8, 9]


def test_who_has_caught_up_is_served_as_any_other() -> None:
    driver, publisher = a_node()
    far = a_reader(driver, 10)
    seen: list[int] = []
    for _ in range(200):
        serve_behind(driver)
        got = delivered(far)
        seen += [offset for offset, _ in got]
        if got:
            far.send(1, methods.BasicAck(len(seen), True))
            driver.settle()
        if len(seen) == MESSAGES:
            break
    assert seen == list(range(MESSAGES))
    assert trailing(far) == 0
    assert not driver.node.background.behind
    fill(driver, publisher, b"new")
    assert [body for _, body in delivered(far)] == [b"new"]


def test_who_is_cancelled_far_behind_is_behind_no_more() -> None:
    driver, _ = a_node()
    far = one_far_behind(driver)
    assert trailing(far) == 1
    far.send(1, methods.BasicCancel("tag", False))
    driver.settle()
    assert trailing(far) == 0
    serve_behind(driver)
    assert delivered(far) == []


def test_members_of_a_group_are_far_behind_too() -> None:
    driver, _ = a_node()
    member = one_far_behind(driver, x_stream_group="g")
    assert trailing(member) == 1
    assert delivered(member) == []
    serve_behind(driver)
    assert [offset for offset, _ in delivered(member)] == [5, 6, 7, 8, 9]


def test_where_nobody_knows_whether_others_are_busy_it_is_served_with_them() -> None:
    driver = NodeDriver(small_config(stream_far_bytes=FAR_BYTES, page_size_bytes=16 * 1024))
    publisher = a_stream(driver)
    for _ in range(MESSAGES):
        fill(driver, publisher, BODY)
    far = one_far_behind(driver)
    assert [offset for offset, _ in delivered(far)] == [5, 6, 7, 8, 9]
