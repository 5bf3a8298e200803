"""What a worker may keep of messages in RAM changes: what is too much goes to the disk, in slices, and what it still
keeps meanwhile it says."""

from __future__ import annotations

from amqp_broker.protocol import methods
from queues.pager import TIGHT_PERCENT
from tests.node.node_driver import NodeDriver, consume, declare, small_config
from tests.node.one_slice import OneSlice

BUDGET = 30_000_000
LESS = 2_000_000


def filled(octets: int = 4_000_000) -> NodeDriver:
    """A queue of so much, which fits."""
    driver = NodeDriver(small_config(memory_budget_bytes=BUDGET))
    client = driver.client(1)
    client.send(1, declare("q"))
    driver.settle()
    for number in range(octets // 10_000):
        client.publish(1, "q", b"%d" % number + bytes(10_000), persistent=False)
    driver.settle()
    assert octets < driver.node.memory.used_bytes < 1.1 * octets
    assert driver.node.store.pager.pages_stored == 0
    return driver


def test_what_is_too_much_goes_to_the_disk_and_nobody_waits_for_it() -> None:
    driver = filled(12_000_000)
    memory = driver.node.memory
    driver.node.background.set_pace(OneSlice())
    memory.go_by(LESS)
    assert memory.budget_bytes == LESS
    kept = [memory.kept_bytes]
    assert kept == [memory.used_bytes]
    while memory.used_bytes > LESS * TIGHT_PERCENT // 100:
        assert len(kept) < 20
        assert driver.node.background.jobs, "it does not wait for input"
        driver.turn()
        kept.append(memory.kept_bytes)
        assert not driver.node.alarms.is_on
    assert kept == sorted(kept, reverse=True)
    assert len(kept) > 2, "in slices"
    assert kept[-1] == LESS
    client = driver.client(1)
    client.send(1, consume("q", no_ack=True))
    while client.connection.is_starved:
        driver.node.writable(client.connection, driver.now)
        driver.turn()
    bodies = [event.body for event in client.take() if event.method.name == "basic.deliver"]
    assert [int(body[:-10_000]) for body in bodies] == list(range(1200))


def test_what_consumers_hold_is_kept_and_is_no_reason_for_an_alarm() -> None:
    driver = filled()
    memory = driver.node.memory
    client = driver.client(1)
    client.send(1, *[methods.BasicGet(0, "q", False)] * 400)
    driver.settle()
    memory.go_by(LESS)
    for _ in range(5):
        driver.wait(1000)
    assert memory.kept_bytes == memory.used_bytes > 4_000_000
    assert not driver.node.alarms.is_on
    client.send(1, methods.BasicAck(0, True))
    driver.settle()
    assert memory.kept_bytes == LESS
    assert memory.used_bytes == 0


def test_a_larger_part_counts_at_once_and_another_pager_has_it_too() -> None:
    driver = filled()
    memory, groups = driver.node.memory, driver.node.groups
    memory.go_by(2 * BUDGET)
    assert memory.kept_bytes == 2 * BUDGET
    for pager in groups.pagers:
        assert pager.budget_bytes == 2 * BUDGET
        assert pager.tight_bytes + pager.others_bytes == 2 * BUDGET * TIGHT_PERCENT // 100


def test_who_would_page_out_wants_twice_as_much_and_who_does_not_little_more_than_it_has() -> None:
    driver = filled()
    memory = driver.node.memory
    assert 4_000_000 / 0.6 < memory.needed_bytes < 8_500_000
    memory.go_by(7_000_000)
    assert memory.needed_bytes >= 14_000_000
    memory.go_by(memory.needed_bytes)
    assert memory.needed_bytes < 8_500_000
