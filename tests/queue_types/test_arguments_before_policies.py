"""A queue's argument counts before what a policy, or the node, says, also where it is the default anyway."""

from __future__ import annotations

import pytest

from amqp_broker.metadata import commands
from queues.arguments import Overflow
from tests.node.node_driver import NodeDriver, declare, small_config


@pytest.mark.parametrize("operator", [False, True])
@pytest.mark.parametrize(
    ("arguments", "overflow"),
    [
        ({}, Overflow.REJECT_PUBLISH),
        ({"x_overflow": "drop-head"}, Overflow.DROP_HEAD),
        ({"x_overflow": "reject-publish-dlx"}, Overflow.REJECT_PUBLISH_DLX),
        ({"x_overflow": "drop-head", "x_queue_type": "quorum"}, Overflow.REJECT_PUBLISH),
    ],
)
def test_overflow(arguments: dict[str, str], overflow: Overflow, operator: bool) -> None:
    driver = NodeDriver()
    definition = {"overflow": "reject-publish"}
    driver.node.broker.propose(commands.set_policy("/", "p", pattern="", definition=definition, operator=operator))
    driver.client(1).send(1, declare("q", **arguments))
    driver.settle()
    assert driver.queue("q").settings.overflow is overflow


def test_no_delivery_limit_is_not_the_limit_of_the_node() -> None:
    driver = NodeDriver(small_config(delivery_limit=7))
    client = driver.client(1)
    client.send(1, declare("none", x_delivery_limit=-1), declare("unsaid"), declare("own", x_delivery_limit=3))
    driver.settle()
    limits = {name: driver.queue(name).settings.delivery_limit for name in ("none", "unsaid", "own")}
    assert limits == {"none": None, "unsaid": 7, "own": 3}


@pytest.mark.parametrize(
    ("policy", "operator", "size"), [(3, None, 3), (None, 3, 3), (3, 5, 5), (5, 3, 5), (None, None, 0)]
)
def test_an_operator_says_on_how_many_nodes_a_queue_is_to_be_too(
    policy: int | None, operator: int | None, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The higher number counts, as in RabbitMQ."""
    driver, sizes = NodeDriver(), []
    for number, is_operator in ((policy, False), (operator, True)):
        definition = {"target-group-size": number}
        if number is not None:
            command = commands.set_policy("/", "p", pattern="", definition=definition, operator=is_operator)
            driver.node.broker.propose(command)
    driver.settle()
    quorum = driver.node.broker.types["quorum"]
    monkeypatch.setattr(quorum._host, "place_queue", lambda lowest, is_local, size: sizes.append(size) or lowest)
    quorum.next_queue_id(1, "/", "q", {})
    assert sizes == [size]
