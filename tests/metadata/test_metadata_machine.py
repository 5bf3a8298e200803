"""The metadata as a state machine: each command once and in order, checkpoints, installs, and octets that are none."""

from __future__ import annotations

import gc
import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_broker.metadata import commands
from amqp_broker.metadata.commands import Command
from amqp_broker.metadata.entities import BindingRecord
from amqp_broker.metadata.machine import Batch, MetadataMachine
from amqp_broker.metadata.metadata import Metadata
from amqp_broker.metadata.stored_groups import StoredGroups
from amqp_broker.octets.buffer import Buffer
from raft.configuration import make_configuration
from raft.entry import NO_OP, REGULAR
from raft.errors import CorruptLog
from raft.journal_records import RAFT_CHECKPOINT, RAFT_ENTRY, RAFT_STATE, put_checkpoint, put_entry, put_state
from tests.metadata import metadata_strategies as strategies


class Listener:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, int, int, str, bool]] = []
        self.replacements: list[int] = []
        self.leaders: list[tuple[bool, str | None]] = []

    def applied(self, index: int, origin: str, session: int, number: int, command: Command, changed: bool) -> None:
        self.heard.append((origin, session, number, command.get("name", command["op"]), changed))

    def replaced(self, index: int) -> None:
        self.replacements.append(index)

    def leads(self, is_leader: bool, leader: str | None) -> None:
        self.leaders.append((is_leader, leader))


class Member:
    def __init__(self) -> None:
        self.listener = Listener()
        self.metadata = Metadata()
        self.machine = MetadataMachine(self.metadata, self.listener)
        self.index = 0

    def apply(self, origin: str, session: int, first: int, *wanted: Command) -> list[int]:
        """One entry. Returns the numbers of the commands that were applied."""
        self.index += 1
        before = len(self.listener.heard)
        self.machine.apply(self.index, 1, Batch(origin, session, first, list(wanted)).encode(), 0)
        return [number for _, _, number, _, _ in self.listener.heard[before:]]


def parameter(name: str, value: object = 1) -> Command:
    return commands.set_global_parameter(name, value)


def test_commands_are_applied_once_in_the_order_of_their_numbers() -> None:
    member = Member()
    assert member.apply("n1", 5, 1, parameter("a"), parameter("b")) == [1, 2]
    assert member.apply("n1", 5, 1, parameter("a", 2), parameter("b", 2)) == [], "they came again"
    assert member.apply("n1", 5, 2, parameter("b", 3), parameter("c")) == [3], "some of them came again"
    assert member.apply("n1", 5, 5, parameter("e")) == [], "behind a gap"
    assert member.apply("n1", 5, 4, parameter("d"), parameter("e")) == [4, 5]
    assert member.apply("n2", 1, 1, parameter("f")) == [1], "another node counts for itself"
    assert {each.name: each.value for each in member.metadata.global_parameters()} == dict.fromkeys("abcdef", 1)


def test_a_newer_session_replaces_an_older_one() -> None:
    member = Member()
    assert member.apply("n1", 5, 1, parameter("a"), parameter("b")) == [1, 2]
    assert member.apply("n1", 7, 2, parameter("x")) == [], "its beginning is missing"
    assert member.apply("n1", 5, 3, parameter("c")) == [3], "a session begins with its first command"
    assert member.apply("n1", 7, 1, parameter("d")) == [1]
    assert member.apply("n1", 5, 4, parameter("late")) == []
    assert (member.machine.session_of("n1"), member.machine.session_of("n2")) == (7, 0)
    assert member.machine.last_number("n1", 7) == 1
    assert member.machine.last_number("n1", 5) == 0


def test_a_command_that_changes_nothing_is_told_too() -> None:
    member = Member()
    member.apply("n1", 1, 1, parameter("a"), parameter("a"))
    assert member.listener.heard == [("n1", 1, 1, "a", True), ("n1", 1, 2, "a", False)]


def test_the_newest_session_of_the_log_is_found_in_entries_that_are_not_applied() -> None:
    member = Member()
    member.apply("n1", 5, 1, parameter("a"))
    entries = [
        (b"", 2, 1, NO_OP),
        (Batch("n1", 9, 1, [parameter("b")]).encode(), 3, 1, REGULAR),
        (Batch("n2", 12, 1, [parameter("c")]).encode(), 4, 1, REGULAR),
    ]
    assert member.machine.last_session("n1", entries) == 9
    assert member.machine.last_session("n3", entries) == 0
    assert member.machine.last_session("n1", []) == 5


@given(strategies.histories, st.integers(0, 40))
def test_a_checkpoint_restores_metadata_and_sessions(history: list[Command], cut: int) -> None:
    member = Member()
    for number, command in enumerate(history, 1):
        member.apply(f"n{number % 2}", 3, (number + 1) // 2, command)
    again = Member()
    again.machine.restore(member.machine.checkpoint())
    assert again.metadata.snapshot() == member.metadata.snapshot()
    assert again.machine.checkpoint() == member.machine.checkpoint()
    for node in ("n0", "n1"):
        assert again.machine.last_number(node, 3) == member.machine.last_number(node, 3)
    assert again.listener.heard == []


def test_an_export_is_the_state_as_of_then_and_fits_into_frames() -> None:
    """A command that is longer than a frame is cut; what is applied meanwhile does not get in."""
    member = Member()
    member.apply("n1", 1, 1, *(parameter(f"p{number}", "x" * 20_000) for number in range(30)))
    member.apply("n1", 1, 31, parameter("long", "y" * 400_000), parameter("short"))
    wanted = member.metadata.snapshot()
    export = member.machine.export()
    parts = [next(export)]
    member.apply("n1", 1, 33, parameter("later"))
    parts += export
    assert max(len(part) for part in parts) <= 256 * 1024
    assert len(parts) > 5
    other = Member()
    other.apply("n9", 1, 1, parameter("gone"))
    other.machine.begin_install()
    for part in parts:
        assert other.metadata.global_parameter("gone") is not None, "until all of it is there"
        other.machine.install_chunk(part)
    other.machine.end_install()
    assert other.metadata.snapshot() == wanted
    assert other.listener.replacements == [2]
    assert other.apply("n1", 1, 33, parameter("later")) == [33]
    assert other.machine.last_number("n9", 1) == 0


def test_an_abandoned_install_leaves_everything_as_it_was() -> None:
    member, other = Member(), Member()
    other.apply("n2", 1, 1, parameter("b"))
    member.apply("n1", 1, 1, parameter("a"))
    before = member.machine.checkpoint()
    member.machine.begin_install()
    member.machine.install_chunk(next(other.machine.export()))
    member.machine.install_chunk(b"\x01{")
    member.machine.abort_install()
    assert member.machine.checkpoint() == before
    with pytest.raises(RuntimeError, match="none was begun"):
        member.machine.install_chunk(b"")
    assert member.listener.replacements == []


def test_a_checkpoint_does_nothing_for_each_queue_and_binding() -> None:
    """It is begun within a turn: what it has to say of them was written when they were declared."""
    assert calls_of_a_checkpoint(1000) == calls_of_a_checkpoint(10)


def calls_of_a_checkpoint(count: int) -> int:
    """How many functions are called to begin that of so many queues with a binding each, and for a chunk of it."""
    member = Member()
    member.apply("n1", 1, 1, commands.put_vhost("v"))
    for number in range(count):
        name = f"q{number}"
        binding = BindingRecord("amq.direct", "queue", name, "key", b"")
        declare = commands.declare_queue("v", name, number + 1, auto_delete=False, arguments_raw=b"")
        member.apply("n1", 1, 2 * number + 2, declare, commands.add_binding("v", binding))
    calls: list[object] = []
    gc.disable()  # who watches the collector is called, too
    sys.setprofile(lambda frame, event, _: calls.append(frame) if event == "call" else None)
    try:
        rest = member.machine.checkpoint_in_slices()
        chunks = [next(rest)]
    finally:
        sys.setprofile(None)
        gc.enable()
    chunks += rest
    assert sum(chunk.count(b"binding.add") for chunk in chunks) == count
    return len(calls)


def test_a_state_that_cannot_be_read_is_refused() -> None:
    for chunks in ([b"{"], [b'{"op":"x"}'], [b'{"op":"vhost.put"}']):
        with pytest.raises(ValueError, match=r"Expecting|metadata command"):
            Member().machine.restore(chunks)


def test_the_generations_rise_with_an_install() -> None:
    """What was computed from the permissions and policies before is not true any more."""
    member, other = Member(), Member()
    member.apply("n1", 1, 1, commands.put_vhost("v"), commands.put_user("u", "", []))
    before = (member.metadata.access_generation, member.metadata.policy_generation)
    member.machine.begin_install()
    for part in other.machine.export():
        member.machine.install_chunk(part)
    member.machine.end_install()
    assert member.metadata.users() == []
    assert member.metadata.access_generation > before[0]
    assert member.metadata.policy_generation > before[1]
    assert member.metadata.apply(commands.put_vhost("v")), "it works as before"


def test_who_leads_is_passed_on() -> None:
    member = Member()
    member.machine.role_changed(False, "n2", 3, 0)
    member.machine.role_changed(True, "n1", 4, 0)
    assert member.listener.leaders == [(False, "n2"), (True, "n1")]


@pytest.mark.parametrize(
    "fields",
    [
        [],
        {},
        {"origin": "n1", "session": 1, "first": 1},
        {"origin": 5, "session": 1, "first": 1, "commands": []},
        {"origin": "n1", "session": 0, "first": 1, "commands": []},
        {"origin": "n1", "session": True, "first": 1, "commands": []},
        {"origin": "n1", "session": 1, "first": "1", "commands": []},
        {"origin": "n1", "session": 1, "first": 1, "commands": {}},
        {"origin": "n1", "session": 1, "first": 1, "commands": [5]},
        {"origin": "n1", "session": 1, "first": 1, "commands": [{"op": "nothing"}]},
        {"origin": "n1", "session": 1, "first": 1, "commands": [{"op": "vhost.put", "vhost": "v"}]},
        {"origin": "n1", "session": 1, "first": 1, "commands": [], "more": 1},
    ],
)
def test_what_is_no_batch_is_refused(fields: object) -> None:
    with pytest.raises(ValueError, match="metadata command"):
        Batch.decode(json.dumps(fields).encode())


@given(st.binary(max_size=60))
def test_octets_that_are_no_batch_raise_nothing_else(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # whatever it says
        Batch.decode(data)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(["origin", "session", "first", "commands", "op", "vhost", "name", "x"]), inner, max_size=5
    ),
    max_leaves=20,
)


@given(_JSON)
def test_json_that_is_no_batch_raises_nothing_else(value: Any) -> None:
    try:
        batch = Batch.decode(json.dumps(value).encode())
    except ValueError:
        return
    assert Batch.decode(batch.encode()).encode() == batch.encode()


@given(strategies.histories, st.data())
def test_a_batch_survives_coding_and_a_damaged_one_raises_nothing_but_value_errors(
    history: list[Command], data: st.DataObject
) -> None:
    octets = Batch("n\udc80", 3, 7, history).encode()
    batch = Batch.decode(octets)
    assert (batch.origin, batch.session, batch.first, batch.commands) == ("n\udc80", 3, 7, history)
    damaged = bytearray(octets)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        Batch.decode(bytes(damaged))
    except ValueError:
        return


# -- as a data folder has them -----------------------------------------------------------------------------------------


def stored(member: Member, *later: bytes, group: int = 0) -> StoredGroups:
    """A journal with the member's checkpoint and these entries behind it."""
    groups = StoredGroups()
    buffer = Buffer()
    put_state(buffer, group, 1, None)
    groups.take(1, RAFT_STATE, buffer.take())
    chunks = [make_configuration(["n1", "n2", "n3"]).encode(), *member.machine.checkpoint()]
    for number, chunk in enumerate(chunks):
        put_checkpoint(buffer, group, member.index, 1, False, number, len(chunks), chunk)
        groups.take(1, RAFT_CHECKPOINT, buffer.take())
    for index, data in enumerate(later, member.index + 1):
        put_entry(buffer, group, (data, index, 1, REGULAR))
        groups.take(2, RAFT_ENTRY, buffer.take())
    return groups


def test_stored_metadata_are_the_checkpoint_and_what_follows_it() -> None:
    member = Member()
    member.apply("n1", 1, 1, parameter("a"), parameter("b"))
    groups = stored(member, Batch("n1", 1, 3, [parameter("c")]).encode(), Batch("n1", 1, 3, [parameter("d")]).encode())
    assert [each.name for each in groups.metadata().global_parameters()] == ["a", "b", "c"]
    (group,) = groups.describe()
    assert (group.group, group.voters, group.checkpoint_index, group.entries, group.last_index) == (
        0, ("n1", "n2", "n3"), 1, 2, 3,
    )  # fmt: skip


def test_nothing_stored_is_no_metadata() -> None:
    groups = StoredGroups()
    assert groups.metadata().vhosts() == []
    assert groups.describe() == []


def test_stored_metadata_that_do_not_fit_together_are_refused() -> None:
    groups = StoredGroups()
    buffer = Buffer()
    put_entry(buffer, 0, (b"", 5, 1, NO_OP))
    groups.take(1, RAFT_ENTRY, buffer.take())
    with pytest.raises(CorruptLog, match="no checkpoint"):
        groups.metadata()
    with pytest.raises(ValueError, match="names no group"):
        groups.take(1, RAFT_ENTRY, b"\0")
    with pytest.raises(ValueError, match="Expecting"):
        stored(Member(), b"nonsense").metadata()
