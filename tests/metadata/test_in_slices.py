"""Metadata gone through in slices: whatever stays is seen once, in order, whatever comes and goes meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from amqp_broker.metadata import commands
from amqp_broker.metadata.bindings import BLOCK
from amqp_broker.metadata.entities import BindingRecord
from amqp_broker.metadata.metadata import Metadata

COUNT = 3 * BLOCK + 1
SLICE = 7


def name(number: int) -> str:
    return f"n{number:04}"


@pytest.fixture
def metadata() -> Metadata:
    made = Metadata()
    made.apply(commands.put_vhost("v"))
    for number in range(COUNT):
        add(made, number)
    return made


def add(metadata: Metadata, number: int) -> None:
    """A queue, an exchange and a binding between them."""
    exchange = commands.declare_exchange("v", name(number), "fanout")
    queue = commands.declare_queue("v", name(number), metadata.next_queue_id)
    for command in (exchange, queue, commands.add_binding("v", binding(number))):
        assert metadata.apply(command)


def remove(metadata: Metadata, number: int) -> None:
    queue = metadata.queue("v", name(number))
    assert queue is not None
    assert metadata.apply(commands.delete_queue("v", queue.name, queue.queue_id))
    assert metadata.apply(commands.delete_exchange("v", name(number)))


def binding(number: int) -> BindingRecord:
    return BindingRecord(name(number), "queue", name(number), "", b"")


def queues(metadata: Metadata, meanwhile: Callable[[], None]) -> list[str]:
    seen = []
    before, (block, found) = 0, metadata.queues_after(0)
    while block != before:
        assert len(found) <= BLOCK
        seen += [each.name for each in found]
        meanwhile()
        before, (block, found) = block, metadata.queues_after(block)
    return seen


def exchanges(metadata: Metadata, meanwhile: Callable[[], None]) -> list[str]:
    seen = []
    place, found = metadata.exchanges_after("v", 0, SLICE)
    while found:
        seen += [each.name for each in found if not each.is_predeclared]
        meanwhile()
        place, found = metadata.exchanges_after("v", place, SLICE)
    return seen


def bindings(metadata: Metadata, meanwhile: Callable[[], None]) -> list[str]:
    seen = []
    before, (block, found) = 0, metadata.bindings_after("v", 0)
    while block != before:
        assert len(found) <= BLOCK
        seen += [each.source for each in found]
        meanwhile()
        before, (block, found) = block, metadata.bindings_after("v", block)
    return seen


@pytest.mark.parametrize("walk", [queues, exchanges, bindings])
def test_what_stays_is_seen_once(
    metadata: Metadata, walk: Callable[[Metadata, Callable[[], None]], list[str]]
) -> None:
    going = list(range(0, COUNT, 3))
    coming = iter(range(COUNT, COUNT + 20))

    def meanwhile() -> None:
        for _ in range(5):
            if going:
                remove(metadata, going.pop())
        number = next(coming, None)
        if number is not None:
            add(metadata, number)

    stay = [name(number) for number in range(COUNT) if number % 3]
    seen = walk(metadata, meanwhile)
    assert len(set(seen)) == len(seen)
    assert [each for each in seen if each in set(stay)] == stay


def test_a_draft_is_made_in_slices_and_forgotten_in_slices(metadata: Metadata) -> None:
    draft = Metadata()
    steps = sum(1 for _ in metadata.drafting(draft))
    assert steps > 2 * COUNT // BLOCK
    assert [each.name for each in draft.queues("v")] == [each.name for each in metadata.queues("v")]
    assert draft.exchanges("v") == metadata.exchanges("v")
    assert draft.bindings("v") == []
    assert sum(1 for _ in draft.let_go()) > 2 * COUNT // BLOCK
    assert (draft.queues("v"), draft.exchanges("v")) == ([], [])
    assert len(metadata.queues("v")) == COUNT


def test_what_moves_behind_a_draft_is_in_it_once(metadata: Metadata) -> None:
    draft = Metadata()
    steps = metadata.drafting(draft)
    for _ in range(20):
        next(steps)
    first = metadata.all_queues()[0]
    reserved = metadata.next_queue_id
    metadata.apply(commands.reserve_queue_ids(reserved + 1))
    assert metadata.apply(commands.rehome_queue("v", first.name, first.queue_id, reserved, "n2", 1))
    for _ in steps:
        pass
    assert draft.all_queues() == metadata.all_queues()
    assert draft.apply(commands.delete_queue("v", first.name, reserved))
    assert draft.count_at("n2") == 0
