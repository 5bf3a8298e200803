"""The topic trie against a brute-force matcher, and the cases that other matchers get wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchanges.bindings import Destination
from exchanges.topic import TopicExchange, split_words


def queue(name: object) -> Destination:
    return Destination("queue", str(name))


def is_match(pattern: list[str], words: list[str]) -> bool:
    """AMQP 0-9-1 §3.1.3.3 read aloud, at exponential cost."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(is_match(pattern[1:], words[count:]) for count in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and is_match(pattern[1:], words[1:])


@pytest.mark.parametrize(
    ("binding_key", "routing_key", "expected"),
    [
        ("", "", True),
        ("", "a", False),
        ("#", "", True),
        ("*", "", False),
        ("#.*", "", False),
        ("#.#", "", True),
        ("*", ".", False),
        ("*.*", ".", True),
        ("a.*", "a.", True),
        ("a.", "a.", True),
        ("a.", "a", False),
        ("a..b", "a..b", True),
        ("a.*.b", "a..b", True),
        ("a.#", "a", True),
        ("a.#", "a.b.c", True),
        ("a.#.#.b", "a.b", True),
        ("#.a.#", "b.a.c", True),
        ("#.a", "a.b", False),
        ("*.#", "a", True),
        ("*.#.*", "a", False),
        ("*.#.*", "a.b", True),
        ("*", "#", True),
        ("#", "#", True),
        ("a", "*", False),
        ("#a", "#a", True),
        ("#a", "xa", False),
        ("a*", "ab", False),
    ],
)
def test_one_pattern(binding_key: str, routing_key: str, expected: bool) -> None:
    topic = TopicExchange({})
    topic.bind(queue(1), binding_key, {})
    assert topic.matches(routing_key, None) == ([queue(1)] if expected else [])
    assert is_match(split_words(binding_key), split_words(routing_key)) is expected


KEYS = st.lists(st.sampled_from(["a", "b", "", "*", "#"]), max_size=4).map(".".join)


@given(patterns=st.lists(KEYS, max_size=12), keys=st.lists(KEYS, min_size=1, max_size=8))
def test_the_trie_agrees_with_brute_force(patterns: list[str], keys: list[str]) -> None:
    topic = TopicExchange({})
    for number, pattern in enumerate(patterns):
        topic.bind(queue(number), pattern, {})
    for key in keys:
        matched = topic.matches(key, None)
        expected = [
            queue(number)
            for number, pattern in enumerate(patterns)
            if is_match(split_words(pattern), split_words(key))
        ]
        assert sorted(matched) == sorted(expected)


STEPS = st.tuples(st.sampled_from(["bind", "bind", "unbind", "remove"]), st.integers(0, 3), KEYS)


@given(steps=st.lists(STEPS, max_size=40), keys=st.lists(KEYS, min_size=1, max_size=4))
def test_what_is_unbound_matches_no_more_and_leaves_no_node(
    steps: list[tuple[str, int, str]], keys: list[str]
) -> None:
    topic = TopicExchange({})
    model: dict[tuple[int, str], None] = {}
    for action, number, pattern in steps:
        if action == "bind":
            assert topic.bind(queue(number), pattern, {}) == ((number, pattern) not in model)
            model[number, pattern] = None
        elif action == "unbind":
            assert topic.unbind(queue(number), pattern, {}) == ((number, pattern) in model)
            model.pop((number, pattern), None)
        else:
            assert topic.remove_destination(queue(number)) == sum(owner == number for owner, _ in model)
            model = {binding: None for binding in model if binding[0] != number}
    for key in keys:
        matched = topic.matches(key, None)
        expected = {queue(n) for n, pattern in model if is_match(split_words(pattern), split_words(key))}
        assert sorted(matched) == sorted(expected)
    prefixes = {
        tuple(words[:length])
        for _, pattern in model
        for words in [split_words(pattern)]
        for length in range(1, len(words) + 1)
    }
    assert topic.node_count == 1 + len(prefixes)


def test_a_queue_that_several_patterns_match_is_named_once() -> None:
    topic = TopicExchange({})
    for pattern in ("a.b", "a.*", "*.b", "#", "a.#", "#.b"):
        topic.bind(queue(1), pattern, {})
        topic.bind(queue(2), pattern, {"x": 1})
    assert sorted(topic.matches("a.b", None)) == [queue(1), queue(2)]


def test_a_pattern_bound_twice_with_other_arguments_lives_until_both_are_gone() -> None:
    topic = TopicExchange({})
    topic.bind(queue(1), "a.*", {})
    topic.bind(queue(1), "a.*", {"x": 1})
    topic.unbind(queue(1), "a.*", {})
    assert topic.matches("a.b", None) == [queue(1)]
    topic.unbind(queue(1), "a.*", {"x": 1})
    assert topic.matches("a.b", None) == []
    assert topic.node_count == 1


def test_matching_changes_nothing() -> None:
    topic = TopicExchange({})
    for number, pattern in enumerate(("#", "a.#", "*.b", "a.b")):
        topic.bind(queue(number), pattern, {})
    assert sorted(topic.matches("a.b", None)) == [queue(number) for number in range(4)]
    assert topic.matches("c", None) == [queue(0)]
    assert sorted(topic.matches("a", None)) == [queue(0), queue(1)]
    assert sorted(topic.matches("c.b", None)) == [queue(0), queue(2)]


def test_what_matches_returns_belongs_to_the_caller() -> None:
    topic = TopicExchange({})
    topic.bind(queue(1), "#", {})
    topic.matches("a", None).append(queue(2))
    assert topic.matches("a", None) == [queue(1)]


def test_the_longest_key_matches() -> None:
    topic = TopicExchange({})
    topic.bind(queue(1), ".".join("*" * 128), {})
    topic.bind(queue(2), ".".join("#" * 128), {})
    assert sorted(topic.matches("." * 127, None)) == [queue(1), queue(2)]
    assert topic.matches("." * 254, None) == [queue(2)]
