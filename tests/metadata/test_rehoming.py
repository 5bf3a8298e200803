"""`queue.rehome`: a queue has another home and another id, in one command, if nothing has come between."""

from __future__ import annotations

import pytest

from amqp_broker.metadata import commands
from amqp_broker.metadata.entities import BindingRecord
from amqp_broker.metadata.machine import Batch, MetadataMachine
from amqp_broker.metadata.metadata import Metadata


class Deaf:
    """Hears of commands, and does nothing."""

    def __init__(self) -> None:
        self.changed: list[bool] = []

    def applied(self, *said: object) -> None:
        self.changed.append(bool(said[-1]))

    def replaced(self, index: int) -> None: ...

    def leads(self, is_leader: bool, leader: str | None) -> None: ...


@pytest.fixture
def metadata() -> Metadata:
    made = Metadata()
    for command in (
        commands.put_vhost("/"),
        commands.declare_queue("/", "q", 1, home="n1"),
        commands.add_binding("/", BindingRecord("amq.topic", "queue", "q", "a", b"")),
        commands.reserve_queue_ids(3),
        commands.declare_queue("/", "later", 1, home="n1"),
    ):
        assert made.apply(command)
    return made


def rehome(**other: object) -> dict[str, object]:
    return {**commands.rehome_queue("/", "q", 1, 2, "n1/1", 7), **other}


def test_it_has_another_home_and_id_and_the_same_bindings(metadata: Metadata) -> None:
    assert metadata.apply(rehome())
    queue = metadata.queue("/", "q")
    assert queue is not None
    assert (queue.home, queue.queue_id) == ("n1/1", 2)
    assert metadata.queue_by_id(1) is None
    assert metadata.queue_by_id(2) == queue
    assert len(metadata.bindings_to("/", "queue", "q")) == 1
    assert (metadata.count_at("n1"), metadata.count_at("n1/1")) == (1, 1)
    assert not metadata.apply(rehome()), "a second time nothing changes"


@pytest.mark.parametrize(
    "other", [{"queue_id": 9}, {"name": "none"}, {"vhost": "none"}, {"new_queue_id": 3}, {"new_queue_id": 4}]
)
def test_what_does_not_fit_changes_nothing(metadata: Metadata, other: dict[str, object]) -> None:
    before = metadata.snapshot()
    assert not metadata.apply(rehome(**other))
    assert metadata.snapshot() == before


def test_nobody_lives_with_who_is_no_member(metadata: Metadata) -> None:
    metadata.apply(commands.put_member("n1", "h:1"))
    assert not metadata.apply(rehome(home="n2"))
    assert metadata.apply(rehome())


def test_a_snapshot_says_the_same_though_others_were_declared_meanwhile(metadata: Metadata) -> None:
    assert metadata.apply(rehome())
    again = Metadata()
    for command in metadata.snapshot():
        again.apply(command)
    assert again.all_queues() == metadata.all_queues()
    assert again.queues("/") == metadata.queues("/")
    assert again.snapshot_lines() == metadata.snapshot_lines()
    assert [queue.queue_id for queue in again.all_queues()] == [2, 3]


def test_a_home_that_has_started_again_gets_nothing(metadata: Metadata) -> None:
    heard = Deaf()
    machine = MetadataMachine(metadata, heard)
    for index, (origin, session) in enumerate((("n1/1", 7), ("n1/1", 8)), 1):
        machine.apply(index, 1, Batch(origin, session, 1, [commands.node_started(origin)]).encode(), 0)
    machine.apply(3, 1, Batch("n1", 1, 1, [rehome()]).encode(), 0)
    assert not heard.changed[-1]
    machine.apply(4, 1, Batch("n1", 1, 2, [rehome(session=8)]).encode(), 0)
    assert heard.changed[-1]
