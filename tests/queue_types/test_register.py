"""The register of queue types: which type is asked for, and what each type says of itself."""

from __future__ import annotations

import pytest

from amqp_broker.queue_types.contract.policy_keys import KEYS, OF_NO_QUEUE
from amqp_broker.queue_types.contract.queue_type import QueueType
from amqp_broker.queue_types.register import QUEUE_TYPES, UnsupportedQueueType, asked_type, type_named
from amqp_broker.vhosts.policies import targets
from queues.arguments import ArgumentError
from tests.queue_types.registering import register


def test_the_type_that_is_asked_for() -> None:
    assert asked_type({}, "classic") == "classic"
    assert asked_type({}, "quorum") == "quorum"
    assert asked_type({"x-queue-type": "quorum"}, "classic") == "quorum"
    assert asked_type({"x-queue-type": b"classic"}, "quorum") == "classic"
    assert asked_type({"x-queue-type": "stream"}, "classic") == "stream"
    for value in ("priority", 5):
        with pytest.raises(ArgumentError, match="x-queue-type"):
            asked_type({"x-queue-type": value}, "classic")


def test_a_type_is_registered_under_its_own_name() -> None:
    assert [(name, queue_type.name) for name, queue_type in QUEUE_TYPES.items()] == [
        ("classic", "classic"),
        ("quorum", "quorum"),
        ("stream", "stream"),
    ]


def test_a_type_of_a_newer_version_is_named() -> None:
    with pytest.raises(UnsupportedQueueType, match="unknown queue type 'later'; known are classic, quorum, stream"):
        type_named("later")


class _Another(QueueType):
    name = "another"
    policy_kind = "another_queues"
    policy_keys = {}  # noqa: RUF012


def test_a_type_that_is_registered_is_there_meanwhile() -> None:
    with register(_Another):
        assert type_named("another") is _Another
        kinds = ("classic_queues", "quorum_queues", "streams", "another_queues", "exchanges")
        assert targets()["all"] == kinds
    assert list(QUEUE_TYPES) == ["classic", "quorum", "stream"]


def test_policies_apply_to_what_they_always_did() -> None:
    queues = ("classic_queues", "quorum_queues", "streams")
    assert targets() == {
        "all": (*queues, "exchanges"),
        "queues": queues,
        **{kind: (kind,) for kind in (*queues, "exchanges")},
    }


@pytest.mark.parametrize("queue_type", QUEUE_TYPES.values(), ids=list(QUEUE_TYPES))
def test_what_a_type_has_is_no_key_of_others(queue_type: type[QueueType]) -> None:
    assert set(queue_type.policy_keys) <= set(KEYS) - set(OF_NO_QUEUE)
