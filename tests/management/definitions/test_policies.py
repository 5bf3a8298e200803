"""Policies: which applies, what two of them mean together, and which are refused, after RabbitMQ 3.10.8."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_broker.metadata import commands
from amqp_broker.metadata.metadata import Metadata
from amqp_broker.vhosts.policies import (
    PolicyError,
    check_policy,
    effective_policies,
    keys_without_effect,
    matching_policies,
    targets,
)
from queues.arguments import read_classic_fields, with_policy


def metadata_with(*policies: dict[str, Any]) -> Metadata:
    """A vhost "v" with these policies; what a policy does not say is its name's number, all and .* ."""
    metadata = Metadata()
    metadata.apply(commands.put_vhost("v"))
    for number, fields in enumerate(policies):
        settings = {"pattern": ".*", "definition": {"max-length": number}, **fields}
        name = settings.pop("name", f"p{number}")
        metadata.apply(commands.set_policy("v", name, **settings))
    return metadata


def applied(metadata: Metadata, name: str, kind: str = "classic_queues") -> tuple[str | None, str | None]:
    policy, operator_policy = matching_policies(metadata, "v", kind, name)
    return policy.name if policy else None, operator_policy.name if operator_policy else None


def test_without_policies_nothing_applies() -> None:
    assert effective_policies(metadata_with(), "v", "classic_queues", "q") == (None, None)
    assert effective_policies(metadata_with(), "missing", "classic_queues", "q") == (None, None)


def test_the_pattern_matches_anywhere_and_an_empty_one_everything() -> None:
    metadata = metadata_with({"pattern": "orders"})
    assert applied(metadata, "my.orders.eu") == ("p0", None)
    assert applied(metadata, "order") == (None, None)
    assert applied(metadata_with({"pattern": ""}), "anything") == ("p0", None)


def test_the_highest_priority_applies_alone() -> None:
    metadata = metadata_with(
        {"priority": 1, "definition": {"max-length": 1, "expires": 5}},
        {"priority": 9, "definition": {"message-ttl": 2}, "pattern": "^q"},
        {"priority": 5},
    )
    assert effective_policies(metadata, "v", "classic_queues", "q") == ({"message-ttl": 2}, None)
    assert applied(metadata, "other") == ("p2", None)


def test_of_equal_priorities_the_first_name_applies_whatever_came_first() -> None:
    assert applied(metadata_with({"name": "b"}, {"name": "a"}), "q") == ("a", None)
    assert applied(metadata_with({"name": "a"}, {"name": "b"}), "q") == ("a", None)


def test_an_operator_policy_applies_besides() -> None:
    metadata = metadata_with(
        {"priority": 1},
        {"operator": True, "priority": 5, "definition": {"max-length": 7}},
        {"operator": True, "priority": 6, "pattern": "^x"},
    )
    assert applied(metadata, "q") == ("p0", "p1")
    assert applied(metadata, "x") == ("p0", "p2")
    assert effective_policies(metadata, "v", "classic_queues", "q") == ({"max-length": 0}, {"max-length": 7})


@pytest.mark.parametrize(
    ("apply_to", "meant"),
    [
        ("all", ["classic_queues", "quorum_queues", "streams", "exchanges"]),
        ("queues", ["classic_queues", "quorum_queues", "streams"]),
        ("classic_queues", ["classic_queues"]),
        ("quorum_queues", ["quorum_queues"]),
        ("streams", ["streams"]),
        ("exchanges", ["exchanges"]),
    ],
)
def test_apply_to(apply_to: str, meant: list[str]) -> None:
    metadata = metadata_with({"apply_to": apply_to, "definition": {"max-length-bytes": 5}})
    assert [kind for kind in targets()["all"] if applied(metadata, "x", kind) == ("p0", None)] == meant


@pytest.mark.parametrize(
    ("definition", "meant"),
    [
        ({"message-ttl": 1}, ["classic_queues", "quorum_queues", "exchanges"]),
        ({"message-ttl": 1, "max-age": "1D"}, ["exchanges"]),
        ({"max-age": "1D"}, ["streams", "exchanges"]),
        ({"delivery-limit": 1}, ["classic_queues", "quorum_queues", "exchanges"]),
        ({"queue-mode": "lazy"}, ["classic_queues", "exchanges"]),
        ({"alternate-exchange": "x"}, list(targets()["all"])),
    ],
)
def test_a_policy_passes_over_queues_that_lack_what_it_sets(
    definition: dict[str, Any], meant: list[str]
) -> None:
    metadata = metadata_with({"definition": definition})
    assert [kind for kind in targets()["all"] if applied(metadata, "x", kind) == ("p0", None)] == meant


def test_a_policy_that_is_passed_over_leaves_the_place_to_the_next() -> None:
    metadata = metadata_with({"priority": 9, "definition": {"max-age": "1D"}}, {"priority": 1})
    assert applied(metadata, "q", "classic_queues") == ("p1", None)
    assert applied(metadata, "q", "streams") == ("p0", None)


LIMITS = ["message-ttl", "expires", "max-length", "max-length-bytes", "delivery-limit"]


@given(*(st.dictionaries(st.sampled_from(LIMITS), st.integers(1, 9)) for _ in range(3)))
def test_no_limit_is_looser_than_the_strictest(
    arguments: dict[str, int], policy: dict[str, int], operator: dict[str, int]
) -> None:
    own = read_classic_fields({f"x-{key}": value for key, value in arguments.items()})
    settings = with_policy(own, policy, operator)
    for key in LIMITS:
        set_by = [source[key] for source in (arguments, policy, operator) if key in source]
        assert getattr(settings, key.replace("-", "_")) == min(set_by, default=None)


@pytest.mark.parametrize(
    "definition",
    [
        {"message-ttl": 0, "expires": 1, "max-length": 0, "max-length-bytes": 2**40, "delivery-limit": -1},
        {"overflow": "reject-publish-dlx", "dead-letter-exchange": "", "dead-letter-routing-key": "k"},
        {"alternate-exchange": "unrouted"},
        {"queue-mode": "lazy", "queue-version": 2, "queue-master-locator": "min-masters"},
        {"max-age": "7D", "stream-max-segment-size-bytes": 1000, "initial-cluster-size": 3},
        {"ha-mode": "exactly", "ha-params": 2, "ha-sync-mode": "automatic"},
        {"ha-mode": "nodes", "ha-params": ["a@b"], "federation-upstream-set": "all"},
    ],
)
def test_valid_policies(definition: dict[str, Any]) -> None:
    check_policy("^(?!amq\\.)", "all", 0, definition)


@pytest.mark.parametrize(
    ("definition", "idle", "instead"),
    [
        ({"ha-mode": "all", "max-length": 5}, ["ha-mode"], "quorum queues"),
        ({"ha-mode": "exactly", "ha-params": 2, "ha-sync-mode": "automatic"}, ["ha-mode", "ha-params", "ha-sync-mode"],
         "quorum queues"),
        ({"federation-upstream-set": "all"}, ["federation-upstream-set"], "amqp-broker cluster"),
        ({"queue-mode": "lazy", "queue-version": 2}, ["queue-mode", "queue-version"], "memory_budget"),
        ({"queue-master-locator": "random"}, ["queue-master-locator"], "x-queue-master-locator"),
        ({"max-in-memory-length": 1, "max-in-memory-bytes": 1}, ["max-in-memory-length", "max-in-memory-bytes"],
         "memory_budget"),
        ({"message-ttl": 1, "alternate-exchange": "x", "target-group-size": 3}, [], ""),
    ],
)  # fmt: skip
def test_what_does_nothing_is_said(definition: dict[str, Any], idle: list[str], instead: str) -> None:
    check_policy("", "all", 0, definition)
    texts = keys_without_effect(definition)
    assert [text.partition(" has no effect here: ")[0] for text in texts] == [f"definition.{key}" for key in idle]
    assert all(instead in text for text in texts)


@pytest.mark.parametrize(
    ("key", "apply_to", "text"),
    [
        ("consumer-timeout", "quorum_queues", ""),
        ("consumer-timeout", "exchanges", ""),
        ("consumer-timeout", "classic_queues", "no effect here: classic queues have the node's setting"),
        ("consumer-timeout", "queues", "no effect on classic_queues and streams here: classic queues have"),
        ("consumer-timeout", "all", "no effect on classic_queues and streams here: "),
        ("queue-leader-locator", "queues", "no effect on classic_queues here: "),
        ("queue-leader-locator", "streams", ""),
    ],
)  # fmt: skip
def test_what_does_nothing_on_some_queues_is_said(key: str, apply_to: str, text: str) -> None:
    definition = {key: 5 if key == "consumer-timeout" else "balanced", "max-length-bytes": 9}
    check_policy("", apply_to, 0, definition)
    texts = keys_without_effect(definition, apply_to)
    assert len(texts) == bool(text)
    assert all(each.startswith(f"definition.{key} has {text}") for each in texts)


@pytest.mark.parametrize(
    ("changes", "part", "text"),
    [
        ({"pattern": 5}, "pattern", "5 is not a string"),
        ({"pattern": "("}, "pattern", "missing )"),
        ({"pattern": "(a)\\1"}, "pattern", "back references"),
        ({"apply_to": "everything"}, "apply-to", "must be one of all, queues"),
        ({"priority": "5"}, "priority", "'5' is not an integer"),
        ({"priority": True}, "priority", "True is not an integer"),
        ({"definition": []}, "definition", "not an object"),
        ({"definition": {}}, "definition", "it is empty"),
        ({"definition": {"foo": 1}}, "definition.foo", "is nothing that a policy sets"),
        ({"definition": {"max-lenght": 1}}, "definition.max-lenght", "did you mean max-length?"),
        ({"definition": {"message-ttl": -1}}, "definition.message-ttl", "an integer from 0"),
        ({"definition": {"message-ttl": "10"}}, "definition.message-ttl", "'10' must be an integer"),
        ({"definition": {"message-ttl": 1.0}}, "definition.message-ttl", "1.0 must be an integer"),
        ({"definition": {"message-ttl": True}}, "definition.message-ttl", "True must be an integer"),
        ({"definition": {"message-ttl": 2**63}}, "definition.message-ttl", "an integer from 0"),
        ({"definition": {"expires": 0}}, "definition.expires", "an integer from 1"),
        ({"definition": {"initial-cluster-size": 0}}, "definition.initial-cluster-size", "an integer from 1"),
        ({"definition": {"delivery-limit": -2}}, "definition.delivery-limit", "an integer from -1"),
        ({"definition": {"overflow": "drop-tail"}}, "definition.overflow", "one of drop-head"),
        ({"definition": {"dead-letter-exchange": None}}, "definition.dead-letter-exchange", "a string"),
        ({"definition": {"queue-version": True}}, "definition.queue-version", "one of 1, 2"),
        ({"definition": {"max-age": "7X"}}, "definition.max-age", "a number and a unit"),
        (
            {"operator": True, "definition": {"dead-letter-exchange": "x"}},
            "definition.dead-letter-exchange",
            "operator",
        ),
    ],
)
def test_invalid_policies_say_where_and_why(changes: dict[str, Any], part: str, text: str) -> None:
    policy: dict[str, Any] = {
        "pattern": "",
        "apply_to": "all",
        "priority": 0,
        "definition": {"max-length": 1},
    }
    with pytest.raises(PolicyError) as caught:
        check_policy(**(policy | changes))
    assert caught.value.part == part
    assert text in caught.value.text
    assert str(caught.value) == f"{part}: {caught.value.text}"


def test_operator_policies_may_set_limits_and_overflow() -> None:
    definition = {
        "message-ttl": 1,
        "expires": 1,
        "max-length": 1,
        "max-length-bytes": 1,
        "max-in-memory-bytes": 1,
        "delivery-limit": 1,
        "overflow": "reject-publish",
    }
    check_policy(".*", "queues", 0, definition, operator=True)
