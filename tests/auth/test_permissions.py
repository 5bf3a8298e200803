"""Permissions: the rules that RabbitMQ 3.10.8 was seen to follow."""

from __future__ import annotations

import pytest

from amqp_broker.auth import permissions
from amqp_broker.auth.permissions import Action, PatternError, Permission, TopicPermission, check_pattern


def test_each_action_has_its_own_pattern() -> None:
    permission = Permission("^mine", "^out", "^in")
    assert permission.allows(Action.CONFIGURE, "mine.1")
    assert permission.allows(Action.WRITE, "out.1")
    assert permission.allows(Action.READ, "in.1")
    assert not permission.allows(Action.CONFIGURE, "out.1")
    assert not permission.allows(Action.WRITE, "in.1")
    assert not permission.allows(Action.READ, "mine.1")


def test_patterns_are_not_anchored() -> None:
    permission = Permission("orders", "", "")
    assert permission.allows(Action.CONFIGURE, "my.orders.eu")


def test_an_empty_pattern_allows_nothing() -> None:
    permission = Permission("", "", "")
    assert not any(permission.allows(action, name) for action in Action for name in ("", "q", "amq.default"))


def test_the_default_exchange_is_named_amq_default_in_patterns() -> None:
    assert Permission("", r"^amq\.default$", "").allows(Action.WRITE, "")
    assert not Permission("", "^$", "").allows(Action.WRITE, "")
    assert Permission("", ".*", "").allows(Action.WRITE, "")


def test_a_passive_declare_needs_any_action() -> None:
    assert Permission("", "", "^q$").allows_anything_on("q")
    assert Permission("^q$", "", "").allows_anything_on("q")
    assert not Permission("^q$", "^q$", "^q$").allows_anything_on("r")


def test_answers_stay_right_when_many_names_are_asked() -> None:
    permission = Permission(r"^q\d*[02468]$", "", "")
    for _ in range(2):
        for number in range(1500):
            assert permission.allows(Action.CONFIGURE, f"q{number}") is (number % 2 == 0)


def test_topic_permission_expands_user_and_vhost() -> None:
    permission = TopicPermission("^{username}-.*", "^{vhost}[.]{username}$", "zoë", "/eu")
    assert permission.allows(Action.WRITE, "zoë-orders")
    assert not permission.allows(Action.WRITE, "bob-orders")
    assert permission.allows(Action.READ, "/eu.zoë")
    assert not permission.allows(Action.READ, "/us.zoë")


def test_a_user_whose_name_is_a_pattern_gets_no_more_than_its_own() -> None:
    permission = TopicPermission("^{username}$", "", ".*", "/")
    assert permission.allows(Action.WRITE, ".*")
    assert not permission.allows(Action.WRITE, "anything")


def test_an_empty_topic_pattern_allows_the_empty_key_only() -> None:
    permission = TopicPermission("", "", "alice", "/")
    assert permission.allows(Action.WRITE, "")
    assert not permission.allows(Action.WRITE, "k")


def test_a_pattern_that_cannot_be_used_is_refused() -> None:
    check_pattern("^(?!amq\\.).*")
    check_pattern("^{username}$")
    for make in (
        lambda: check_pattern("("),
        lambda: Permission("(", "", ""),
        lambda: Permission("", "(", ""),
        lambda: Permission("", "", "("),
        lambda: TopicPermission("", "(", "u", "v"),
    ):
        with pytest.raises(PatternError, match="missing \\)"):
            make()


def test_a_pattern_is_compiled_once_however_many_log_in() -> None:
    before = permissions.compiled.cache_info()
    for _ in range(3):
        Permission("^once-[a-z]+$", "^twice$", "^twice$")
        TopicPermission("^of-{username}$", "^twice$", "somebody", "/")
        TopicPermission("^of-{username}$", "^twice$", "else", "/")
    after = permissions.compiled.cache_info()
    assert after.hits + after.misses == before.hits + before.misses + 3 * 7
    assert after.misses - before.misses == 4
