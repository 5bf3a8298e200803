"""A node's stream of commands: numbers without gaps, what is sent again, and who is told when."""

from __future__ import annotations

import random
from typing import Any

import pytest

from amqp_broker.metadata import commands
from amqp_broker.metadata.commands import Command
from amqp_broker.metadata.entities import BindingRecord
from amqp_broker.metadata.machine import Batch, MetadataMachine
from amqp_broker.metadata.metadata import Metadata
from amqp_broker.metadata.stream import BATCH_COMMANDS, RESEND_MS, SETTLE_MS, MetadataStream
from tests.example_counts import seeds


def command(number: int) -> Command:
    return commands.set_global_parameter(f"p{number}", number)


def numbers(batches: list[Batch]) -> list[tuple[int, int, int]]:
    """Session, first number and count of each."""
    return [(batch.session, batch.first, len(batch.commands)) for batch in batches]


class Told:
    def __init__(self) -> None:
        self.results: list[tuple[int, Any]] = []

    def of(self, number: int) -> Any:
        return lambda result: self.results.append((number, result))


@pytest.fixture
def told() -> Told:
    return Told()


def test_a_command_is_sent_once_and_told_when_it_is_settled(told: Told) -> None:
    stream = MetadataStream("n1", 50)
    proposal = stream.propose(command(1), told.of(1))
    assert numbers(stream.take_batches(0)) == [(50, 1, 1)]
    assert stream.take_batches(0) == []
    stream.applied(1, 7, True, 10)
    stream.settle(6, 10)
    assert (told.results, proposal.is_done) == ([], False), "another member has not applied it"
    stream.settle(7, 11)
    assert (told.results, proposal.is_done) == ([(1, True)], True)
    proposal.when_done(told.of(9))
    assert told.results[-1] == (9, True), "at once, when it is done already"


def test_everybody_is_told_in_the_order_of_the_commands(told: Told) -> None:
    stream = MetadataStream("n1", 50)
    first = stream.propose(command(1), told.of(1))
    second = stream.propose(command(2), told.of(2))
    assert stream.last is second
    second.when_done(told.of(20))
    first.when_done(told.of(10))
    assert numbers(stream.take_batches(0)) == [(50, 1, 2)]
    stream.applied(1, 5, "a", 0)
    stream.applied(2, 5, "b", 0)
    stream.settle(5, 0)
    assert told.results == [(1, "a"), (10, "a"), (2, "b"), (20, "b")]
    assert stream.last is None


def test_who_is_told_may_propose_again(told: Told) -> None:
    stream = MetadataStream("n1", 50)
    stream.propose(command(1), lambda result: stream.propose(command(2), told.of(2)))
    stream.take_batches(0)
    stream.applied(1, 5, True, 0)
    stream.settle(5, 0)
    assert numbers(stream.take_batches(0)) == [(50, 2, 1)]


def test_what_may_be_lost_goes_again_with_what_is_new(told: Told) -> None:
    stream = MetadataStream("n1", 50)
    for number in range(1, 4):
        stream.propose(command(number))
    assert numbers(stream.take_batches(0)) == [(50, 1, 3)]
    stream.applied(1, 5, True, 0)
    stream.propose(command(4))
    assert numbers(stream.take_batches(0)) == [(50, 4, 1)]
    stream.resend()
    assert numbers(stream.take_batches(0)) == [(50, 2, 3)]


def test_without_news_everything_goes_again_after_a_while() -> None:
    stream = MetadataStream("n1", 50)
    assert stream.next_deadline() is None
    stream.propose(command(1))
    stream.take_batches(100)
    assert stream.next_deadline() == 100 + RESEND_MS + 1
    assert stream.take_batches(100 + RESEND_MS) == []
    assert numbers(stream.take_batches(100 + RESEND_MS + 1)) == [(50, 1, 1)]
    stream.applied(1, 5, True, 2000)
    stream.settle(5, 2000)
    assert stream.next_deadline() is None


def test_a_member_that_says_nothing_is_waited_for_only_so_long(told: Told) -> None:
    stream = MetadataStream("n1", 50)
    stream.propose(command(1), told.of(1))
    stream.take_batches(0)
    stream.applied(1, 5, True, 100)
    assert stream.next_deadline() == 100 + SETTLE_MS
    stream.settle(0, 100 + SETTLE_MS - 1)
    assert told.results == []
    stream.settle(0, 100 + SETTLE_MS)
    assert told.results == [(1, True)]


def test_a_clock_that_is_set_back_keeps_nobody_waiting(told: Told) -> None:
    stream = MetadataStream("n1", 50)
    stream.propose(command(1), told.of(1))
    stream.take_batches(1_000_000)
    assert numbers(stream.take_batches(500)) == [(50, 1, 1)]
    stream.applied(1, 5, True, 1_000_000)
    stream.settle(0, 500)
    assert told.results == [(1, True)]


def test_commands_that_an_install_has_jumped_over_are_done_without_a_result(told: Told) -> None:
    stream = MetadataStream("n1", 50)
    for number in (1, 2, 3):
        stream.propose(command(number), told.of(number))
    stream.take_batches(0)
    stream.applied(2, 9, None, 0)
    stream.settle(9, 0)
    assert told.results == [(1, None), (2, None)]
    stream.resend()
    assert numbers(stream.take_batches(0)) == [(50, 3, 1)]


def test_a_stream_that_is_opened_again_counts_from_one() -> None:
    stream = MetadataStream("n1", 50)
    for number in (1, 2, 3):
        stream.propose(command(number))
    stream.take_batches(0)
    stream.applied(1, 5, True, 0)
    stream.reopen(80)
    stream.propose(command(4))
    assert numbers(stream.take_batches(0)) == [(80, 1, 3)]


def test_many_commands_go_in_several_batches() -> None:
    stream = MetadataStream("n1", 50)
    many = 2 * BATCH_COMMANDS + 3
    for number in range(many):
        stream.propose(command(number))
    batches = stream.take_batches(0)
    whole = [(1, BATCH_COMMANDS), (1 + BATCH_COMMANDS, BATCH_COMMANDS)]
    assert [(batch.first, len(batch.commands)) for batch in batches] == [*whole, (1 + 2 * BATCH_COMMANDS, 3)]
    assert [each for batch in batches for each in batch.commands] == [command(number) for number in range(many)]


class _Machine(MetadataMachine):
    """With the stream as its listener."""

    def __init__(self, stream: MetadataStream) -> None:
        self.stream = stream
        super().__init__(Metadata(), self)

    def applied(self, index: int, origin: str, session: int, number: int, command: Command, changed: bool) -> None:
        if session == self.stream.session:
            self.stream.applied(number, index, changed, 0)

    def replaced(self, index: int) -> None:
        raise AssertionError

    def leads(self, is_leader: bool, leader: str | None) -> None:
        raise AssertionError


@pytest.mark.parametrize("seed", seeds(range(30)))
def test_whatever_is_lost_or_comes_twice_each_command_is_applied_once(seed: int) -> None:
    """Batches are lost, and committed more than once and late; leaders come and go."""
    chance = random.Random(seed)
    stream = MetadataStream("n1", 50)
    machine = _Machine(stream)
    wire: list[bytes] = []
    told: list[int] = []
    proposed = index = now = 0
    while proposed < 60 or stream.unapplied:
        now += chance.choice([0, 10, RESEND_MS])
        if proposed < 60 and chance.random() < 0.5:
            proposed += 1
            wanted = commands.add_binding("v", _binding(proposed)) if proposed > 1 else commands.put_vhost("v")
            stream.propose(wanted, lambda result, number=proposed: told.append(number))  # type: ignore[misc]
        if chance.random() < 0.1:
            stream.resend()
        wire += [batch.encode() for batch in stream.take_batches(now) if chance.random() < 0.6]
        while wire and chance.random() < 0.7:
            index += 1
            machine.apply(index, 1, wire[0], now)
            if chance.random() < 0.8:
                del wire[0]
        stream.settle(index, now)
    assert told == list(range(1, 61))
    applied = machine.last_number("n1", 50)
    assert applied == 60


def _binding(number: int) -> BindingRecord:
    return BindingRecord("amq.topic", "exchange", "amq.fanout", f"k{number}", b"")
