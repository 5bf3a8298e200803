"""What costs by the number of queues or bindings is done in slices: how much in a turn, and what comes in between."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from amqp_broker.management.verbs.definitions import PORTION
from amqp_broker.protocol import methods
from tests.node.node_driver import NodeDriver, declare
from tests.node.system_service import SystemService
from tests.simulation.settings import USER

COUNT = 240


class OneSlice:
    """One slice a turn."""

    def start(self) -> None:
        pass

    def goes_on(self) -> bool:
        return False


@pytest.fixture
def driver() -> NodeDriver:
    made = NodeDriver()
    queues = [{"name": f"q{number}", "vhost": "/"} for number in range(COUNT)]
    assert SystemService(made).ask("definitions.import", definitions={"queues": queues})["ok"]
    return made


def step(driver: NodeDriver) -> None:
    """A turn, and a sync if one is wanted."""
    if driver.turn().wants_sync and (job := driver.node.take_sync()) is not None:
        job.run()
        driver.node.synced(job, driver.now)


def steps_until_answered(driver: NodeDriver, service: SystemService) -> tuple[int, dict[str, Any]]:
    for number in range(10_000):
        answers = service.answers()
        if answers:
            return number, answers[0]
        step(driver)
    raise AssertionError("no answer")


def limits(driver: NodeDriver) -> int:
    """How many queues have taken the policy over."""
    return sum(queue.max_length == 7 for queue in driver.node.broker.vhosts["/"].queues.all_made())


POLICY = json.dumps({"vhost": "/", "name": "p", "pattern": "", "definition": {"max-length": 7}}).encode()


def test_a_policy_is_applied_to_one_queue_after_the_other(driver: NodeDriver) -> None:
    service, client = SystemService(driver), driver.client(1)
    driver.node.background.set_pace(OneSlice())
    service.send("policy.put", POLICY)
    while not limits(driver):
        step(driver)
    assert limits(driver) == 1
    client.send(1, declare("new", durable=False))
    step(driver)
    assert client.names() == ["queue.declare-ok"]
    assert driver.queue("new").max_length == 7
    before = limits(driver)
    step(driver)
    assert limits(driver) == before + 1
    driver.node.broker.declarations.remove_queue(driver.node.broker.vhosts["/"], driver.queue(f"q{COUNT - 1}"))
    steps, answer = steps_until_answered(driver, service)
    assert answer == {"ok": True, "notes": []}
    assert steps >= COUNT - before - 5
    assert limits(driver) == COUNT


def test_a_policy_that_is_changed_while_the_last_one_is_applied(driver: NodeDriver) -> None:
    service, other = SystemService(driver), SystemService(driver)
    driver.node.background.set_pace(OneSlice())
    service.send("policy.put", POLICY)
    while limits(driver) < COUNT // 2:
        step(driver)
    other.send("policy.delete", b'{"vhost": "/", "name": "p"}')
    _, answer = steps_until_answered(driver, other)
    assert answer == {"ok": True}
    assert service.answers() == [{"ok": True, "notes": []}]
    assert limits(driver) == 0


def test_a_virtual_host_is_gone_at_once_and_its_queues_in_slices(driver: NodeDriver) -> None:
    service = SystemService(driver)
    queues = [{"name": f"q{number}", "vhost": "v"} for number in range(COUNT)]
    service.ask("definitions.import", definitions={"vhosts": [{"name": "v"}], "queues": queues})
    held = driver.node.broker.queue_count
    driver.node.background.set_pace(OneSlice())
    service.send("vhost.delete", b'{"name": "v"}')
    while "v" in driver.node.broker.vhosts:
        step(driver)
    other = SystemService(driver)
    assert driver.node.broker.queue_count > held - 10
    other.send("vhost.create", json.dumps({"name": "v", "permissions_for": USER}).encode())
    before = driver.node.broker.queue_count
    step(driver)
    assert driver.node.broker.queue_count >= before - 1
    assert steps_until_answered(driver, other)[1] == {"ok": True}
    assert steps_until_answered(driver, service)[1] == {"ok": True}
    assert driver.node.broker.queue_count == COUNT
    assert not driver.node.broker.vhosts["v"].queues


def test_a_crash_while_a_virtual_host_goes(driver: NodeDriver) -> None:
    service = SystemService(driver)
    queues = [{"name": f"q{number}", "vhost": "v"} for number in range(COUNT)]
    service.ask("definitions.import", definitions={"vhosts": [{"name": "v"}], "queues": queues})
    driver.node.background.set_pace(OneSlice())
    service.send("vhost.delete", b'{"name": "v"}')
    while "v" in driver.node.broker.vhosts:
        step(driver)
    step(driver)
    driver.crash()
    assert list(driver.node.broker.vhosts) == ["/"]
    assert driver.node.broker.queue_count == COUNT


def test_an_import_goes_through_in_portions(driver: NodeDriver) -> None:
    service = SystemService(driver)
    driver.node.background.set_pace(OneSlice())
    queues = [{"name": f"new {number}", "vhost": "/"} for number in range(3 * PORTION)]
    service.send("definitions.import", json.dumps({"definitions": {"queues": queues}}).encode())
    counts = [driver.node.broker.queue_count]
    while not (answers := service.answers()):
        step(driver)
        counts.append(driver.node.broker.queue_count)
    assert answers == [{"ok": True, "commands": len(queues), "notes": []}]
    assert counts[-1] == COUNT + len(queues)
    assert max(after - before for before, after in pairwise(counts)) <= PORTION


def test_a_crash_in_an_import_leaves_whole_portions(driver: NodeDriver) -> None:
    service = SystemService(driver)
    driver.node.background.set_pace(OneSlice())
    queues = [{"name": f"new {number}", "vhost": "/"} for number in range(3 * PORTION)]
    body = json.dumps({"definitions": {"queues": queues}}).encode()
    service.send("definitions.import", body)
    while driver.node.broker.queue_count == COUNT:
        step(driver)
    driver.crash()
    assert driver.node.broker.queue_count in range(COUNT + PORTION, COUNT + len(queues), PORTION)
    assert SystemService(driver).ask_octets("definitions.import", body)["ok"]
    assert driver.node.broker.queue_count == COUNT + len(queues)


@pytest.mark.parametrize(
    ("verb", "fields"), [("queue.list", {"vhost": "/"}), ("statistics", {}), ("definitions.export", {})]
)
def test_lists_are_made_in_slices(driver: NodeDriver, verb: str, fields: dict[str, Any]) -> None:
    """What is deleted meanwhile is not in the list of queues, and not in an export that has not come to it."""
    service, client = SystemService(driver), driver.client(1)
    driver.node.background.set_pace(OneSlice())
    service.send(verb, json.dumps(fields).encode())
    step(driver)
    client.send(1, methods.QueueDelete(0, f"q{COUNT - 1}", False, False, False))
    for _ in range(3):
        step(driver)
    assert client.names() == ["queue.delete-ok"]
    assert service.answers() == []
    steps, answer = steps_until_answered(driver, service)
    assert answer["ok"]
    if verb == "queue.list":
        assert steps >= COUNT // 10
        assert [row["name"] for row in answer["queues"]] == sorted(f"q{number}" for number in range(COUNT - 1))
    if verb == "definitions.export":
        assert len(answer["definitions"]["queues"]) == COUNT - 1


def test_a_client_that_leaves_does_not_stop_what_it_has_asked_for(driver: NodeDriver) -> None:
    service = SystemService(driver)
    driver.node.background.set_pace(OneSlice())
    service.send("policy.put", POLICY)
    while not limits(driver):
        step(driver)
    driver.lose(service.client)
    for _ in range(2 * COUNT):
        step(driver)
    assert limits(driver) == COUNT
    assert not driver.node.background.jobs
