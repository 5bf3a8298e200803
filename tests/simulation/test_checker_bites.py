"""The model must notice when a rule is broken: each case breaks one, and some seed of a few has to fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amqp_broker import node as node_module
from amqp_broker.channel import basic_methods
from amqp_broker.channel.consumer import ChannelConsumer
from amqp_broker.node import Node, Turn
from amqp_broker.queue_types.classic import type as classic_module
from amqp_broker.vhosts import broker as broker_module
from amqp_broker.vhosts.projection import Projection
from queues.classic import ClassicQueue
from queues.recovery import Recovery
from queues.store import ENQUEUE, SETTLE
from storage.page_store import PageStore
from tests.example_counts import seeds
from tests.simulation import simulated_driver
from tests.simulation.simulated_disk import SimulatedDisk
from tests.simulation.state import Violation
from tests.simulation.workload import Workload
from tests.simulation.world import World

STEPS = 800
#: A seed that has noticed need not do so again when the broker has changed: so many are tried from it on.
MORE_SEEDS = 40

Patch = pytest.MonkeyPatch


class ForgetfulDisk(SimulatedDisk):
    """A disk that says it has synced, and has not."""

    def sync(self, path: str) -> None:
        self.size(path)


class ForgivingDisk(SimulatedDisk):
    """A disk whose failed syncs, a tenth of all, are taken for good ones."""

    def sync(self, path: str) -> None:
        if self._chance.random() < 0.1:
            self.size(path)
        else:
            super().sync(path)


class _Hasty(Node):
    def end_turn(self, now: int) -> Turn:
        turn = super().end_turn(now)
        for channel in self.confirming.awaiting:
            channel.synced(1 << 62)
        turn.dirty.extend(self.take_dirty())
        return turn


class _CommittingUnsynced(Node):
    """Takes what is written for what is on the disk."""

    def end_turn(self, now: int) -> Turn:
        turn = super().end_turn(now)
        if self.is_ready:
            self.replication.synced(self.store.journal.position)
            turn.dirty.extend(self.take_dirty())
        return turn


class _BindingWhatIsGone(Projection):
    """Binds a queue that was removed at run time while its binding was on its way."""

    def _is_there(self, vhost: Any, destination: Any) -> bool:
        return True


class _Rebuilding(Workload):
    """Clients who declare, bind and delete their few queues all the time."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._choices += [(30, self.bind), (30, self.declare), (15, self.delete)]
        self._total = sum(weight for weight, _ in self._choices)


def bind_what_is_gone(patch: Patch) -> None:
    patch.setattr(World, "workload_type", _Rebuilding)
    patch.setattr(node_module, "Projection", _BindingWhatIsGone)


class _Forgetting(Node):
    def writable(self, connection: Any, now: int) -> None:
        connection.is_writable = True
        connection.is_starved = False


def node_of(kind: type[Node]) -> Callable[[Patch], None]:
    return lambda patch: patch.setattr(simulated_driver, "Node", kind)


def job_without_sync(patch: Patch) -> None:
    patch.setattr(World, "disk_type", ForgetfulDisk)


def go_on_after_a_failed_sync(patch: Patch) -> None:
    patch.setattr(World, "disk_type", ForgivingDisk)


class _WithoutSettlements(Recovery):
    def take(self, segment: int, kind: int, payload: bytes) -> None:
        if kind != SETTLE:
            super().take(segment, kind, payload)


class _WithoutEveryTenth(Recovery):
    count = 0

    def take(self, segment: int, kind: int, payload: bytes) -> None:
        type(self).count += 1
        if kind != ENQUEUE or self.count % 10:
            super().take(segment, kind, payload)


def drop_settlements(patch: Patch) -> None:
    patch.setattr(broker_module, "Recovery", _WithoutSettlements)


def lose_a_message_at_recovery(patch: Patch) -> None:
    patch.setattr(broker_module, "Recovery", _WithoutEveryTenth)


class _NotCarrying(ClassicQueue):
    def leave_segment(self, segment: int) -> bool:
        """Nothing is written again."""
        return False


class _NotRedelivered(ClassicQueue):
    def put_back(self, entries: list[Any], now: int) -> Any:
        super().put_back(entries, now)
        for entry in entries:
            entry.is_redelivered = False
        return 0  # what the compiled method returns


class _PutBackBehind(ClassicQueue):
    def put_back(self, entries: list[Any], now: int) -> Any:
        for entry in entries:
            entry.sequence = self.next_sequence
            self.next_sequence += 1
        super().put_back(entries, now)
        return 0


class _Leaking(ClassicQueue):
    def reject(self, entry: Any, now: int) -> Any:
        self.pager.used += 1
        super().reject(entry, now)
        return 0


def queue_of(kind: type[ClassicQueue]) -> Callable[[Patch], None]:
    return lambda patch: patch.setattr(classic_module, "ClassicQueue", kind)


class _Generous(ChannelConsumer):
    def has_credit(self) -> bool:
        return True


def ignore_prefetch(patch: Patch) -> None:
    patch.setattr(basic_methods, "ChannelConsumer", _Generous)


def keep_page_segments(patch: Patch) -> None:
    patch.setattr(PageStore, "release", lambda store, queue_id, location, position=0: None)


BROKEN_RULES = {
    "confirm before the sync": node_of(_Hasty),
    "commit a declaration before the sync": node_of(_CommittingUnsynced),
    "bind a queue that is gone": bind_what_is_gone,
    "a job that does not sync": job_without_sync,
    "go on after a failed sync": go_on_after_a_failed_sync,
    "settlements are not read": drop_settlements,
    "a message is lost at recovery": lose_a_message_at_recovery,
    "nothing is copied forward at retirement": queue_of(_NotCarrying),
    "redelivered is not set": queue_of(_NotRedelivered),
    "a return goes to the end": queue_of(_PutBackBehind),
    "RAM is not given back": queue_of(_Leaking),
    "prefetch is ignored": ignore_prefetch,
    "a starved consumer is not revived": node_of(_Forgetting),
    "page segments are not deleted": keep_page_segments,
}
#: The first seeds that notice, where that is not among the first few.
SEEDS_THAT_NOTICED = {"bind a queue that is gone": 17, "RAM is not given back": 59}


@pytest.mark.parametrize("name", BROKEN_RULES)
def test_a_broken_rule_is_noticed(name: str, monkeypatch: Patch) -> None:
    BROKEN_RULES[name](monkeypatch)
    first = SEEDS_THAT_NOTICED.get(name, 1)
    tried = range(first, first + MORE_SEEDS)
    for seed in tried:
        try:
            World(seed).run(STEPS)
        except Violation as error:
            print(error)  # noqa: T201  # what was noticed, for `pytest -s`
            return
    pytest.fail(f"no seed of {tried} noticed: {name}")


@pytest.mark.parametrize("seed", seeds(range(1, 21)))
def test_with_all_rules_clients_who_rebuild_do_no_harm(seed: int, monkeypatch: Patch) -> None:
    monkeypatch.setattr(World, "workload_type", _Rebuilding)
    World(seed).run(STEPS)
