"""Those who send much wait for each other in the order in which they came, and nobody else waits for all of them."""

from __future__ import annotations

import asyncio
import time

from amqp_broker.flow.peer import Peer
from amqp_broker.server.driver import CommonPace, Driver

#: Longer than a turn has for them, seconds.
LONG_S = 0.004


class Sender:
    """What the driver asks of a transport: to read, which takes long."""

    def __init__(self, name: str, driver: Driver, seen: list[str]) -> None:
        self._name = name
        self._driver = driver
        self._seen = seen

    def read_now(self) -> None:
        self._seen.append(self._name)
        until = time.monotonic() + LONG_S
        while time.monotonic() < until:
            pass
        self._driver.wants_turn()


async def test_others_are_served_between_two_that_send_much(driver: Driver) -> None:
    seen: list[str] = []
    loop = asyncio.get_running_loop()
    for name in "abc":
        driver.read_later(Sender(name, driver, seen))  # type: ignore[arg-type]
    assert driver.is_late(), "who comes now comes behind them"
    driver.after_turn = lambda: seen.append("turn")
    for _ in range(8):
        loop.call_soon(lambda: None)
        await asyncio.sleep(0)
    assert [each for each in seen if each != "turn"] == ["a", "b", "c"]
    assert seen.index("turn") < seen.index("b") < len(seen) - 1
    assert seen[seen.index("b") + 1 :].index("turn") < seen[seen.index("b") + 1 :].index("c")
    assert not driver.is_late()


async def test_a_turn_has_little_time_for_them(driver: Driver) -> None:
    assert not driver.is_late()
    driver.wants_turn()
    assert not driver.is_late()
    Sender("a", driver, []).read_now()
    assert driver.is_late()


async def test_a_turn_has_little_time_for_requests_either(driver: Driver) -> None:
    connection = driver.node.open_connection(Peer("127.0.0.1", 1, "127.0.0.1", 2), driver.now())
    driver.node.turn_share.note(connection, 1)
    assert not connection.is_parked
    until = time.monotonic() + LONG_S
    while time.monotonic() < until:
        pass
    driver.node.turn_share.note(connection, 1)
    assert connection.is_parked


async def test_turns_that_end_early_add_none_to_those_of_the_loop(driver: Driver) -> None:
    ended: list[int] = []
    driver.node.background.add(lambda now: True)
    driver.after_turn = lambda: ended.append(1)
    for _ in range(20):
        driver.wants_turn()
        driver.lone_input_is_over()
    await asyncio.sleep(0)
    ended.clear()
    await asyncio.sleep(0)
    assert len(ended) <= 1, "the sockets wait for as many turns as have ended early"


async def test_what_is_answered_does_not_wait_for_slices_of_other_work(driver: Driver) -> None:
    """A peer's header is wrong: what it is told leaves before the work of this turn is done."""
    said: list[bytes] = []
    before: list[int] = []

    class Transport:
        def write(self, chunks: list[bytes]) -> None:
            said.extend(chunks)

        def set_paused(self, is_paused: bool) -> None: ...

        def close(self) -> None: ...

        def abort(self) -> None: ...

    connection = driver.node.open_connection(Peer("127.0.0.1", 1, "127.0.0.1", 2), driver.now())
    connection.transport = Transport()
    driver.node.background.add(lambda now: bool(before.append(len(said))))
    driver.node.receive_data(connection, b"AMQP\x00\x00\x08\x00", driver.now())
    driver.wants_turn()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert said
    assert before == [1]


def test_turns_that_follow_a_sync_have_no_background_time_of_their_own() -> None:
    pace = CommonPace(limit_s=0.0)
    pace.start()
    assert not pace.goes_on()
    pace.limit_s = 3600.0
    pace.start()
    assert not pace.goes_on()
    pace.is_new = True
    pace.start()
    assert pace.goes_on()
