"""The same log gives the same state and tells each node the same, whatever the RAM, crashes and installs."""

from __future__ import annotations

from collections import Counter

import pytest

from queues.effects import Confirmed, Delivered, Effect, GetAnswered, SessionClosed
from queues.quorum import leases
from queues.quorum.resting import Resting
from tests.example_counts import seeds
from tests.queues.queue_world import name_of
from tests.queues.quorum.digest import digest_of
from tests.queues.quorum.quorum_world import Member
from tests.queues.quorum.random_log import QUEUES, RandomGroup, RandomNode

STEPS = 150


@pytest.fixture(autouse=True)
def releases_take_several_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "RELEASE_MESSAGES", 4)


def plain(effects: list[Effect]) -> list[tuple[object, ...]]:
    """Effects that can be compared: messages by name."""
    return [
        (type(each).__name__, *(name_of(field) if hasattr(field, "body_bytes") else field for field in each))
        for each in effects
    ]


def confirmed(effects: list[Effect]) -> list[tuple[int, int]]:
    """(session, sequence) of every command that was confirmed, in order."""
    spans = [each for each in effects if isinstance(each, Confirmed)]
    return [(each.session, number) for each in spans for number in range(each.first, each.last + 1)]


@pytest.mark.parametrize("seed", seeds(range(40)))
def test_members_agree_whatever_their_memory_and_however_often_they_crash(seed: int) -> None:
    group = RandomGroup(seed)
    chance = group.chance
    for _ in range(STEPS):
        group.step()
        for node in group.nodes:
            choice = chance.random()
            if choice < 0.04:
                node.member.checkpoint(is_synced=chance.random() < 0.7)
            elif choice < 0.06:
                node.member.restart(group.log)
        if chance.random() < 0.1:
            agree(group)
    agree(group)
    for node in group.nodes:
        assert plain(node.member.effects) == plain(node.shadow.effects), "a crash tells nobody anything twice"


def agree(group: RandomGroup) -> None:
    wanted = digest_of(group.nodes[0].shadow.machine)
    for node in group.nodes:
        assert digest_of(node.member.machine) == wanted, node.member.name
        assert memory_in_use(node.member) == node.member.pager.used


def memory_in_use(member: Member) -> int:
    """What the member's pager should count."""
    used = 0
    for queue in member.state.queues.values():
        resting = [queue.resting.waiting] if isinstance(queue.resting, Resting) else []
        for ready in [*queue.levels(), queue.letters.waiting, *resting]:
            used += sum(entry.message.size for entry in [*ready.head, *ready.stragglers])
            if ready.pages is not None:
                used += sum(page.size for page in ready.pages if page.data is not None) + ready.tail.buffer.length
        if queue.lease_groups is not None:
            used += sum(lease.ram_page_bytes() for lease in queue.lease_groups.all())
        used += sum(entry.message.size for entry in queue.letters.transit)
        owners = queue.delivery_owners.values()
        used += sum(entry.message.size for owner in owners for entry, _ in owner.held.values())
    return used


@pytest.mark.parametrize("seed", seeds(range(100, 140)))
def test_a_member_that_was_away_is_told_what_it_missed_once(seed: int) -> None:
    group = RandomGroup(seed)
    chance = group.chance
    away: RandomNode | None = None
    for _ in range(STEPS):
        group.step()
        if away is None and chance.random() < 0.1:
            away = chance.choice(group.nodes)
            away.is_away = True
        elif away is not None and chance.random() < 0.1:
            come_back(group, away)
            away = None
    if away is not None:
        come_back(group, away)
    agree(group)


def come_back(group: RandomGroup, node: RandomNode) -> None:
    """Install from another member that goes on meanwhile, then the rest of the log."""
    source = next(each.member for each in group.nodes if not each.is_away)
    export = source.machine.export()
    index = source.applied
    node.member.machine.begin_install()
    for number, chunk in enumerate(export):
        node.member.machine.install_chunk(chunk)
        if number == 0:
            group.step()
            if group.chance.random() < 0.5:
                source.checkpoint()
    node.member.discard()
    node.member.machine.end_install()
    node.member.applied = index
    node.member.effects += node.member.machine.take_effects()
    node.member.checkpoint()
    node.is_away = False
    node.member.apply(group.log)
    check_told(node)
    node.read_effects()
    assert digest_of(node.member.machine) == digest_of(node.shadow.machine)


def check_told(node: RandomNode) -> None:
    """Nothing twice; every command's end; every delivery that it still has; nothing that the shadow was not told."""
    got, wanted = node.member.effects, node.shadow.effects
    told = Counter(plain(got))
    delivered = [(each.consumer, each.delivery_id) for each in got if isinstance(each, Delivered)]
    assert len(delivered) == len({*delivered})
    assert confirmed(got) == confirmed(wanted)
    assert {each for each in got if isinstance(each, SessionClosed)} >= {
        SessionClosed(node.session) for each in wanted if each == SessionClosed(node.session)
    }
    known = {(each.consumer, each.delivery_id) for each in got if isinstance(each, Delivered)}
    known |= {(each.consumer, each.delivery_id) for each in got if isinstance(each, GetAnswered)}
    assert known <= {(e.consumer, e.delivery_id) for e in wanted if isinstance(e, Delivered | GetAnswered)} | {
        (each.consumer, 0) for each in got if isinstance(each, GetAnswered)
    }
    for queue_id in QUEUES:
        for holder in node.member.queue(queue_id).delivery_owners.values():
            if holder.origin == node.member.name:
                assert {(holder.consumer_id, delivery) for delivery in holder.held} <= known
    others = ("Counted", "AttachRefused", "SettleMissed", "ConsumerCancelled")
    missing = Counter(each for each in plain(wanted) if each[0] in others)
    missing.subtract(each for each in told.elements() if each[0] in others)
    closed = any(isinstance(each, SessionClosed) for each in wanted)
    assert closed or not +missing
    assert not -missing
