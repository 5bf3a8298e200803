"""A session ends of which very many consumers of one queue hold something: it comes back in one go."""

from __future__ import annotations

from queues.effects import Delivered
from queues.quorum.commands import NodeDown
from tests.processor_time import processor_time
from tests.queues.quorum.quorum_world import SESSION, Group, Member, Stream, of_type, ready_names, settings_of

HELD = 10
CONSUMERS = 1_600


def time_to_close(consumers: int, **arguments: int) -> float:
    """Seconds, where so many consumers of one queue hold what lies between each other's."""
    member = Member("n1")
    group = Group(member, settings=settings_of(**arguments))
    stream = Stream(group, member)
    for _ in range(consumers):
        stream.attach(prefetch=HELD)
    names = range(HELD * consumers)
    assert len(of_type(stream.publish(*names), Delivered)) == len(names)
    with processor_time() as taken:
        group.lead(NodeDown("n1", SESSION))
    assert ready_names(member) == list(names)
    return taken.seconds


def test_what_many_held_is_put_back_together() -> None:
    """One after the other costs many times as much, as where a limit wants it so."""
    assert 3 * time_to_close(CONSUMERS) < time_to_close(CONSUMERS, max_length=HELD * CONSUMERS)


def test_where_the_head_is_dropped_each_comes_back_by_itself() -> None:
    """What is too much is dropped after each consumer: all members do so."""
    member = Member("n1")
    group = Group(member, settings=settings_of(max_length=3))
    stream = Stream(group, member)
    for _ in range(4):
        stream.attach(prefetch=1)
    stream.publish(0, 1, 2, 3)
    stream.publish(4, 5)
    group.lead(NodeDown("n1", SESSION))
    assert ready_names(member) == [3, 4, 5]
