"""Members of a group agree about its streams whatever their memory, crashes, checkpoints and installs; and each has at
each offset what a list of all that was ever published has there."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from queues.effects import Grown
from queues.quorum.commands import Batch, Command, DropQueue, encode_batch
from queues.quorum.image import CHUNK_BYTES
from queues.stream.commands import (
    AppendChunk,
    ForgetGroup,
    HoldStream,
    JoinGroup,
    JoinPartitions,
    LeaveGroup,
    LeavePartitions,
    OpenGroup,
    OpenStream,
    Retain,
    SeekGroup,
    StorePosition,
    Trim,
)
from queues.stream.settings import StreamSettings
from tests.example_counts import seeds
from tests.queues.quorum.digest import digest_of
from tests.queues.quorum.quorum_world import BUDGETS, Group, Member, of_type
from tests.queues.stream.stream_world import (
    STREAM,
    append,
    bodies_of,
    chunk_of,
    commit_as,
    one_stream,
    stream_of,
    tiny_pages,
)
from tests.storage.page_files import disk_bytes

__all__ = ["tiny_pages"]
IDS = (STREAM, STREAM + 1)
STEPS = 150


class StreamModel:
    """What was ever taken by one stream, by offset."""

    def __init__(self) -> None:
        self.first = 0
        self.bodies: list[bytes] = []
        self.sequences: dict[bytes, int] = {}

    def append(self, bodies: list[bytes], producer: bytes, sequence: int) -> None:
        for number, body in enumerate(bodies, sequence):
            if producer and number <= self.sequences.get(producer, -1):
                continue
            if producer:
                self.sequences[producer] = number
            self.bodies.append(body)


class RandomStreams:
    """Three members, one that never crashes and has all the RAM, and what nodes publish."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.steady = Member("steady")
        self.members = [Member(f"n{number}", budget, seed + number) for number, budget in enumerate(BUDGETS)]
        self.away: list[Member] = []
        self.group = Group(self.steady, *self.members)
        self.models: dict[int, StreamModel] = {}
        self.names = 0
        self.sequence = 0

    def settings(self) -> StreamSettings:
        chance = self.chance
        size = chance.choice([None, 500, 3_000])
        return StreamSettings(size, chance.choice([None, 200, 2_000]), chance.choice([1, 150, 1_000]))

    def command(self) -> Command:
        chance = self.chance
        queue_id = chance.choice(IDS)
        model = self.models.get(queue_id)
        choice = chance.random()
        if model is None or choice < 0.05:
            self.models.setdefault(queue_id, StreamModel())
            return OpenStream(queue_id, self.settings())
        if choice < 0.15:
            return self.about_a_group(queue_id)
        if choice < 0.85:
            bodies = []
            for _ in range(chance.choice([1, 1, 2, 7])):
                self.names += 1
                bodies.append(b"%d" % self.names + b"." * chance.choice([0, 20, 300]))
            producer = chance.choice([b"", b"p", b"q"])
            known = model.sequences.get(producer, -1)
            sequence = max(0, known + chance.choice([1, 1, 1, 3, -2, -20])) if producer else 0
            model.append(bodies, producer, sequence)
            return AppendChunk(queue_id, chunk_of(*bodies, producer=producer, sequence=sequence))
        if choice < 0.89:
            return Trim(queue_id, chance.randint(0, len(model.bodies)))
        if choice < 0.93:
            first = chance.randint(0, len(model.bodies))
            return Retain(queue_id, first, chance.choice([0, first // 2]))
        if choice < 0.98:
            until = chance.choice([0, self.group.now + 300, self.group.now + 10_000])
            return HoldStream(queue_id, chance.choice("ab"), chance.randint(0, len(model.bodies)), until)
        del self.models[queue_id]
        return DropQueue(queue_id)

    def about_a_group(self, queue_id: int) -> Command:
        chance = self.chance
        name, number, offset = chance.choice("gh"), chance.randint(1, 3), chance.randint(0, 50)
        return chance.choice([
            JoinGroup(queue_id, name, number, offset),
            JoinGroup(queue_id, name, number, offset),
            LeaveGroup(queue_id, name, number),
            StorePosition(queue_id, name, chance.randint(1, 5), offset, offset + number),
            SeekGroup(queue_id, name, offset),
            ForgetGroup(queue_id, name),
            OpenGroup(queue_id, name, offset),
            JoinPartitions(queue_id, name, number, 1 + offset % 7),
            LeavePartitions(queue_id, name, number),
        ])  # fmt: skip

    def step(self) -> None:
        """One entry of the log."""
        chance = self.chance
        self.group.now += chance.choice([0, 1, 10, 100])
        if chance.random() < 0.1:
            self.group.lead()
            return
        commands = [self.command() for _ in range(chance.choice([1, 1, 4]))]
        self.sequence += len(commands)
        first = self.sequence - len(commands) + 1
        self.group.commit(encode_batch(Batch(self.group.now, "steady", 1, first, 0, commands)))

    def leave(self, member: Member) -> None:
        self.group.members.remove(member)
        self.away.append(member)

    def come_back(self, member: Member) -> None:
        """Install from another one that goes on meanwhile, then the rest of the log."""
        source = self.chance.choice(self.group.members)
        export = source.machine.export()
        index = source.applied
        member.machine.begin_install()
        for number, chunk in enumerate(pieces(export)):
            member.machine.install_chunk(chunk)
            if number % 5 == 1:
                self.step()
                if self.chance.random() < 0.5:
                    source.checkpoint()
        member.discard()
        member.machine.end_install()
        member.applied = index
        member.machine.take_effects()
        member.checkpoint()
        member.apply(self.group.log)
        self.away.remove(member)
        self.group.members.append(member)

    def check(self) -> None:
        wanted = digest_of(self.steady.machine)
        for member in self.group.members:
            assert digest_of(member.machine) == wanted, member.name
            assert set(member.state.streams) == set(self.models)
            for queue_id, model in self.models.items():
                first = stream_of(member, queue_id).first
                assert bodies_of(member, queue_id) == model.bodies[first:]
            assert member.pager.used == sum(ram_bytes(member, queue_id) for queue_id in self.models)


def pieces(export: Iterator[bytes]) -> Iterator[bytes]:
    """The image in small pieces: cut anywhere."""
    for chunk in export:
        for start in range(0, len(chunk), 700):
            yield chunk[start : start + 700]


def ram_bytes(member: Member, queue_id: int) -> int:
    """What the member's pager should count."""
    log = stream_of(member, queue_id).log
    return log.tail_bytes + sum(part.page.size for part in log.parts() if part.page.data is not None)


@pytest.mark.usefixtures("tiny_pages")
@pytest.mark.parametrize("seed", seeds(range(20)))
def test_members_agree_and_have_what_was_published(seed: int) -> None:
    world = RandomStreams(seed)
    chance = world.chance
    for _ in range(STEPS):
        world.step()
        for member in [*world.members]:
            choice = chance.random()
            if member in world.away:
                if choice < 0.05:
                    world.come_back(member)
            elif choice < 0.04:
                member.checkpoint(is_synced=chance.random() < 0.7)
            elif choice < 0.06:
                member.restart(world.group.log)
            elif choice < 0.07 and len(world.away) < 2:
                world.leave(member)
        for queue_id, model in world.models.items():
            first = stream_of(world.steady, queue_id).first
            assert first >= model.first, "it never falls"
            model.first = first
        if chance.random() < 0.1:
            world.check()
    for member in [*world.away]:
        world.come_back(member)
    world.check()
    for member in world.members:
        member.checkpoint()
        member.restart(world.group.log)
    world.check()


@pytest.mark.usefixtures("tiny_pages")
def test_a_crash_at_any_entry_loses_nothing() -> None:
    """Checkpoints that are not synced yet, places that they name, files that wait for them."""
    group, _ = one_stream(StreamSettings(max_length_bytes=1_500), members=2)
    steady, member = group.members
    for number in range(80):
        append(group, b"%04d" % number)
        if number % 7 == 3:
            member.checkpoint(is_synced=number % 2 == 0)
        member.restart(group.log)
        assert bodies_of(member) == bodies_of(steady)
    assert digest_of(member.machine) == digest_of(steady.machine)
    assert disk_bytes(member.page_store, STREAM) < 4 * 1_500


def test_a_long_stream_is_installed_page_by_page() -> None:
    """Neither end holds more than a little of it in RAM, and a checkpoint of it is short."""
    group, _ = one_stream()
    source = group.members[0]
    body = bytes(50_000)
    for _ in range(400):
        append(group, body)
    assert source.pager.used < 3 << 20
    assert sum(map(len, source.machine.checkpoint())) < 1 << 20
    target = Member("n2")
    target.machine.begin_session(1_000)
    target.machine.tell_growth(STREAM, True)
    target.machine.begin_install()
    most = 0
    for chunk in source.machine.export():
        assert len(chunk) <= CHUNK_BYTES
        target.machine.install_chunk(chunk)
        most = max(most, target.pager.used)
    target.machine.end_install()
    assert most < 3 << 20
    assert of_type(target.machine.take_effects(), Grown) == [Grown(STREAM, 400)]
    assert digest_of(target.machine) == digest_of(source.machine)
    assert source.pager.used < 3 << 20


def begin_install(target: Member, source: Member) -> Iterator[bytes]:
    """Take a part of an image, with pages of the stream. Returns the rest of it."""
    image = pieces(source.machine.export())
    target.machine.begin_install()
    while not disk_bytes(target.page_store, STREAM):
        target.machine.install_chunk(next(image))
    return image


def finish_install(target: Member, image: Iterator[bytes], source: Member) -> None:
    for piece in image:
        target.machine.install_chunk(piece)
    target.machine.end_install()
    assert digest_of(target.machine) == digest_of(source.machine)


@pytest.mark.usefixtures("tiny_pages")
def test_what_an_install_has_brought_is_no_orphan() -> None:
    """A node that joins is ready, and looks what nobody needs, while its groups still take their states."""
    group, _ = one_stream()
    source, target = group.members[0], Member("n2")
    for number in range(80):
        append(group, b"%04d" % number)
    rest = begin_install(target, source)
    target.page_store.drop_orphans(target.machine.queue_ids())
    finish_install(target, rest, source)


@pytest.mark.usefixtures("tiny_pages")
def test_a_second_install_keeps_what_the_first_would_have_left() -> None:
    group, _ = one_stream()
    source, target = group.members[0], Member("n2")
    for number in range(80):
        append(group, b"%04d" % number)
    begin_install(target, source)
    target.machine.abort_install()
    target.machine.checkpoint()
    target._end_turn()
    rest = begin_install(target, source)
    target.machine.synced(target.position)
    finish_install(target, rest, source)
    target.machine.begin_install()
    begin_install(target, source)
    target.machine.abort_install()
    target.checkpoint()
    assert bodies_of(target) == bodies_of(source)


@pytest.mark.usefixtures("tiny_pages")
def test_an_install_that_is_given_up_leaves_no_files() -> None:
    group, _ = one_stream()
    source, target = group.members[0], Member("n2")
    for number in range(80):
        append(group, b"%04d" % number)
    begin_install(target, source)
    target.machine.abort_install()
    target.checkpoint()
    target.checkpoint()
    assert target.page_store.stored_queues() == []


@pytest.mark.usefixtures("tiny_pages")
def test_where_the_disk_is_full_pages_stay_in_ram_and_go_to_it_later() -> None:
    group, _ = one_stream(members=2)
    member = group.members[0]
    member.pager.has_no_room = True
    for number in range(40):
        append(group, b"%04d" % number)
    used = member.pager.used
    assert used > 2_000
    member.checkpoint()
    member.restart(group.log)
    assert bodies_of(member) == bodies_of(group.members[1])
    member.pager.has_no_room = False
    assert member.machine.page_out(1 << 20) > 0
    assert member.pager.used < 400
    assert digest_of(member.machine) == digest_of(group.members[1].machine)


def test_ids_of_streams_and_queues_share_the_pages_of_a_node() -> None:
    group, _ = one_stream()
    commit_as(group, "x", 1, OpenStream(9, StreamSettings()))
    member = group.members[0]
    assert sorted(member.machine.queue_ids()) == [STREAM, 9]
    assert member.machine.has_files(9)
    commit_as(group, "x", 2, DropQueue(9))
    assert member.machine.has_files(9), "until a checkpoint without it is durable"
    member.checkpoint()
    assert not member.machine.has_files(9)
