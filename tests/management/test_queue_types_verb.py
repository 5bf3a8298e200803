"""`queue.types`: what the register knows of each type, for who knows none."""

from __future__ import annotations

import pytest

from amqp_broker.queue_types.contract.argument_names import ARGUMENTS
from amqp_broker.queue_types.contract.policy_keys import KEYS
from amqp_broker.queue_types.contract.queue_type import QueueType
from amqp_broker.queue_types.register import QUEUE_TYPES
from queues.arguments import ArgumentError, WrongArgument
from tests.node.node_driver import NodeDriver
from tests.node.system_service import SystemService
from tests.queue_types.last_value import LastValueType
from tests.queue_types.registering import register


def test_each_type_says_what_it_takes_and_can_do() -> None:
    answer = SystemService(NodeDriver()).ask("queue.types")
    by_name = {each["name"]: each for each in answer["types"]}
    assert (answer["default"], list(by_name)) == ("classic", list(QUEUE_TYPES))
    assert [each["policy_kind"] for each in by_name.values()] == ["classic_queues", "quorum_queues", "streams"]
    flags = ("has_home", "has_replicas", "has_offsets", "keeps_dead_letters")
    assert {name: [each[flag] for flag in flags] for name, each in by_name.items()} == {
        "classic": [True, False, False, False],
        "quorum": [False, True, False, True],
        "stream": [False, True, True, False],
    }
    assert {"name": "x-max-length", "example": 1000} in by_name["classic"]["arguments"]
    assert {"name": "max-length", "example": 1000, "for_operators": True} in by_name["quorum"]["policy_keys"]
    assert [each["name"] for each in by_name["stream"]["arguments"] if each["example"] is not None] == [
        "x-max-length-bytes", "x-max-age", "x-stream-partitions",
    ]  # fmt: skip


def test_a_type_that_is_registered_is_among_them() -> None:
    with register(LastValueType):
        found = SystemService(NodeDriver()).ask("queue.types")["types"][-1]
    assert (found["name"], found["arguments"]) == ("last-value", [{"name": "x-history", "example": 2}])
    assert {"name": "history", "example": 2, "for_operators": False} in found["policy_keys"]


@pytest.mark.parametrize("queue_type", QUEUE_TYPES.values(), ids=list(QUEUE_TYPES))
def test_what_a_type_names_is_its_own(queue_type: type[QueueType]) -> None:
    """And what is not, is refused or means nothing to it."""
    assert set(queue_type.own_arguments) <= set(queue_type.arguments)
    for name, example in queue_type.arguments.items():
        try:
            queue_type.read({name: example})
        except WrongArgument:
            pytest.fail(f"{name} is of another type")
        except ArgumentError:
            assert example is None or name == "x-dead-letter-routing-key", f"{name}: {example!r} is no good value"


def test_forms_begin_with_good_values() -> None:
    assert set(ARGUMENTS) <= {name for each in QUEUE_TYPES.values() for name in each.arguments}
    for name, key in KEYS.items():
        assert key.example is None or key.expects(key.example) is None, name
