"""The metadata machine: what each rule means, named case by case, and its size."""

from __future__ import annotations

import gc
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from amqp_broker.metadata import commands
from amqp_broker.metadata.bindings import BindingIndex, _Pair
from amqp_broker.metadata.commands import DEFAULTS, FIELDS, Command, check_command
from amqp_broker.metadata.entities import BindingRecord
from amqp_broker.metadata.metadata import Metadata
from tests.metadata.drafts import draft_of

EXAMPLES: list[Command] = [
    commands.put_vhost("v", description="d", tags=["t"], tracing=True),
    commands.limit_vhost("v", {"max-queues": 5}),
    commands.protect_vhost("v", True),
    commands.delete_vhost("v"),
    commands.put_user("u", "", ["administrator"]),
    commands.limit_user("u", {"max-channels": 5}),
    commands.delete_user("u"),
    commands.set_permission("u", "v", "", "^a", ".*"),
    commands.clear_permission("u", "v"),
    commands.set_topic_permission("u", "v", "amq.topic", "^a", ".*"),
    commands.clear_topic_permission("u", "v", "amq.topic"),
    commands.set_policy("v", "p", pattern="^q", definition={"max-length": 5}),
    commands.clear_policy("v", "p"),
    commands.set_policy("v", "p", pattern="^q", definition={"max-length": 5}, operator=True),
    commands.clear_policy("v", "p", operator=True),
    commands.set_parameter("v", "shovel", "s", {"src": [1, None]}),
    commands.clear_parameter("v", "shovel", "s"),
    commands.set_global_parameter("g", [1, 2.5, "x"]),
    commands.clear_global_parameter("g"),
    commands.declare_exchange("v", "e", "topic", arguments_raw=b"\x00\xff"),
    commands.number_exchange("v", "e", 3),
    commands.delete_exchange("v", "e"),
    commands.declare_queue("v", "q", 7, arguments_raw=b"\x00\xff"),
    commands.delete_queue("v", "q", 7),
    commands.partition_stream("v", "s", 3, "stream", b"", 0, [4, 5], b""),
    commands.rehome_queue("v", "q", 7, 8, "n1/1", 5),
    commands.reserve_queue_ids(9),
    commands.put_app("v", "a", "n1", "u"),
    commands.delete_app("v", "a", "n1"),
    commands.add_binding("v", BindingRecord("e", "queue", "q", "k", b"\x00")),
    commands.remove_binding("v", BindingRecord("e", "queue", "q", "k", b"\x00")),
    commands.node_started("n1"),
    commands.node_gone("n1"),
    commands.put_member("n1", "127.0.0.1:7101"),
    commands.add_member("n1", "127.0.0.1:7101", "0a"),
    commands.remove_member("n1", expected=["n1", "n2"]),
    commands.raise_level(2),
    commands.put_group_members(2, ["n1"]),
    commands.put_member_workers("n1", [1, 2], [2]),
    commands.put_member_rack("n1", "a"),
]


def with_queue() -> Metadata:
    metadata = Metadata()
    for command in (
        commands.put_vhost("v"),
        commands.put_user("u", "", []),
        commands.set_permission("u", "v", "", "", ""),
        commands.set_topic_permission("u", "v", "amq.topic", "", ""),
        commands.declare_exchange("v", "e", "topic"),
        commands.declare_queue("v", "q", 1),
    ):
        assert metadata.apply(command)
    return metadata


def test_every_command_has_a_maker_and_a_handler() -> None:
    assert [command["op"] for command in EXAMPLES] == list(FIELDS)
    assert list(Metadata()._handlers) == list(FIELDS)


@pytest.mark.parametrize("command", EXAMPLES, ids=lambda command: command["op"])
def test_in_an_empty_machine_a_command_is_applied_or_passed_over(command: Command) -> None:
    metadata = Metadata()
    creates = command["op"] in (
        "vhost.put", "user.put", "global_parameter.set", "queue_id.reserve", "member.put", "member.add", "level.raise",
    )  # fmt: skip
    assert metadata.apply(command) is creates


@pytest.mark.parametrize("command", EXAMPLES, ids=lambda command: command["op"])
def test_a_command_without_its_form_is_refused_by_name(command: Command) -> None:
    metadata = with_queue()
    before = metadata.snapshot()
    wrong: list[tuple[dict[str, Any], str]] = [({**command, "extra": 1}, "extra")]
    for name in FIELDS[command["op"]]:
        if name not in DEFAULTS.get(command["op"], {}):
            wrong.append(({key: value for key, value in command.items() if key != name}, f"lacks {name}"))
        wrong.append(({**command, name: b"octets"}, f"{name} is b'octets'"))
    for form, text in wrong:
        with pytest.raises(ValueError, match=f"{command['op']}.*{text}"):
            metadata.apply(form)
    assert metadata.snapshot() == before


@pytest.mark.parametrize(
    "command",
    [
        {},
        {"op": "vhost.rename"},
        {"op": 5},
        {**commands.delete_queue("v", "q", 1), "queue_id": True},
        {**commands.delete_queue("v", "q", 1), "queue_id": 0},
        {**commands.limit_user("u", {}), "limits": {"max-channels": "5"}},
        {**commands.limit_user("u", {}), "limits": {"max-channels": True}},
        {**commands.put_user("u", "", []), "tags": "administrator"},
        {**commands.put_user("u", "", []), "tags": [5]},
        {**commands.declare_queue("v", "q", 1), "arguments_raw": "no base64!"},
        {**commands.set_global_parameter("g", 1), "value": {5: 1}},
        {**commands.set_global_parameter("g", 1), "value": [b"octets"]},
        {**commands.declare_queue("v", "q", 1), "home": None},
        {**commands.declare_queue("v", "q", 1), "exclusive": 1},
        {**commands.add_binding("v", BindingRecord("e", "queue", "q", "k", b"")), "destination_kind": "topic"},
    ],
)
def test_what_is_no_command_is_refused(command: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="metadata command"):
        check_command(command)


def test_a_new_vhost_has_the_predeclared_exchanges() -> None:
    metadata = Metadata()
    metadata.apply(commands.put_vhost("v"))
    assert [(found.name, found.type, found.internal) for found in metadata.exchanges("v")] == [
        ("", "direct", False),
        ("amq.direct", "direct", False),
        ("amq.fanout", "fanout", False),
        ("amq.topic", "topic", False),
        ("amq.headers", "headers", False),
        ("amq.match", "headers", False),
        ("amq.rabbitmq.trace", "topic", True),
    ]
    assert not metadata.apply(commands.delete_exchange("v", "amq.topic"))
    assert not metadata.apply(commands.declare_exchange("v", "amq.topic", "fanout"))


def test_describing_a_vhost_anew_keeps_its_limits_and_content() -> None:
    metadata = with_queue()
    metadata.apply(commands.limit_vhost("v", {"max-queues": 5}))
    assert metadata.apply(commands.put_vhost("v", description="new"))
    vhost = metadata.vhost("v")
    assert vhost is not None
    assert (vhost.description, vhost.limits) == ("new", {"max-queues": 5})
    assert metadata.queue("v", "q") is not None


def test_a_new_password_keeps_the_limits_and_permissions_of_a_user() -> None:
    metadata = with_queue()
    metadata.apply(commands.limit_user("u", {"max-channels": 5}))
    assert metadata.apply(commands.put_user("u", "scrypt$...", ["monitoring"]))
    user = metadata.user("u")
    assert user is not None
    assert (user.password_hash, user.tags, user.limits) == (
        "scrypt$...",
        ("monitoring",),
        {"max-channels": 5},
    )
    assert metadata.permission("u", "v") is not None


def test_deleting_a_vhost_removes_all_in_it() -> None:
    metadata = with_queue()
    metadata.apply(commands.put_vhost("other"))
    metadata.apply(commands.set_permission("u", "other", "", "", ""))
    metadata.apply(commands.add_binding("v", BindingRecord("e", "queue", "q", "k", b"")))
    metadata.apply(commands.set_policy("v", "p", pattern="", definition={"max-length": 1}))
    assert metadata.apply(commands.delete_vhost("v"))
    assert metadata.queue("v", "q") is None
    assert metadata.queue_by_id(1) is None
    assert metadata.permission("u", "v") is None
    assert metadata.topic_permission("u", "v", "amq.topic") is None
    assert metadata.permission("u", "other") is not None
    assert metadata.apply(commands.put_vhost("v"))
    assert (metadata.queues("v"), metadata.bindings("v"), metadata.policies("v")) == ([], [], [])
    assert len(metadata.exchanges("v")) == 7


def test_deleting_a_queue_removes_its_bindings_only() -> None:
    metadata = with_queue()
    metadata.apply(commands.declare_queue("v", "r", 2))
    metadata.apply(commands.declare_exchange("v", "q", "fanout"))
    kept = [BindingRecord("e", "queue", "r", "k", b""), BindingRecord("e", "exchange", "q", "k", b"")]
    for binding in [
        BindingRecord("e", "queue", "q", "k", b""),
        BindingRecord("", "queue", "q", "", b""),
        *kept,
    ]:
        assert metadata.apply(commands.add_binding("v", binding))
    assert metadata.apply(commands.delete_queue("v", "q", 1))
    assert metadata.bindings("v") == kept
    assert metadata.bindings_to("v", "queue", "q") == []


def test_deleting_an_exchange_removes_its_bindings_both_ways() -> None:
    metadata = with_queue()
    metadata.apply(commands.declare_exchange("v", "f", "fanout"))
    kept = BindingRecord("f", "queue", "q", "k", b"")
    for binding in [
        BindingRecord("e", "queue", "q", "k", b""),
        BindingRecord("f", "exchange", "e", "k", b""),
        BindingRecord("e", "exchange", "e", "itself", b""),
        kept,
    ]:
        assert metadata.apply(commands.add_binding("v", binding))
    assert metadata.apply(commands.delete_exchange("v", "e"))
    assert metadata.bindings("v") == [kept]


def test_a_queue_id_is_never_used_twice() -> None:
    """The one that is proposed is the lowest that may be given."""
    metadata = with_queue()
    assert metadata.next_queue_id == 2
    assert metadata.apply(commands.declare_queue("v", "r", 1))
    assert queue_id(metadata, "r") == 2
    assert metadata.apply(commands.delete_queue("v", "q", 1))
    assert metadata.apply(commands.declare_queue("v", "q", 1))
    assert queue_id(metadata, "q") == 3, "its messages may still be on disk"
    assert metadata.apply(commands.declare_queue("v", "s", 5))
    assert queue_id(metadata, "s") == 5
    assert metadata.apply(commands.delete_queue("v", "s", 5))
    again = Metadata()
    for command in metadata.snapshot():
        again.apply(command)
    assert again.next_queue_id == metadata.next_queue_id == 6
    assert [queue.queue_id for queue in again.all_queues()] == [2, 3]


def queue_id(metadata: Metadata, name: str) -> int:
    queue = metadata.queue("v", name)
    assert queue is not None
    return queue.queue_id


def test_what_does_not_survive_a_node_goes_when_it_begins_anew_or_is_gone() -> None:
    for command in (commands.node_started("n1"), commands.node_gone("n1")):
        metadata = with_queue()
        for name, durable, home in (("own", False, "n1"), ("kept", True, "n1"), ("other", False, "n2")):
            assert metadata.apply(commands.declare_queue("v", name, 1, durable=durable, home=home))
        record = BindingRecord("e", "queue", "own", "k", b"")
        assert metadata.apply(commands.add_binding("v", record))
        assert [queue.name for queue in metadata.transients("n1")] == ["own"]
        assert metadata.apply(command)
        assert [queue.name for queue in metadata.queues("v")] == ["q", "kept", "other"]
        assert metadata.bindings("v") == []
        assert not metadata.apply(command)


def test_a_command_of_before_a_field_was_introduced_means_what_it_meant() -> None:
    metadata = with_queue()
    command = commands.declare_queue("v", "old", 1)
    for field in DEFAULTS["queue.declare"]:
        assert field not in command, "what it would mean anyway is not written"
    assert metadata.apply(command)
    queue = metadata.queue("v", "old")
    assert queue is not None
    assert (queue.durable, queue.exclusive, queue.home) == (True, False, "")


def test_members_and_their_addresses() -> None:
    metadata = Metadata()
    assert metadata.apply(commands.put_member("n1", "a:1"))
    assert metadata.apply(commands.put_member("n2", "b:1"))
    assert metadata.apply(commands.put_member("n1", "a:2"))
    assert dict(metadata.members()) == {"n1": "a:2", "n2": "b:1"}
    assert metadata.apply(commands.remove_member("n1"))
    assert not metadata.apply(commands.remove_member("n1"))
    assert dict(metadata.members()) == {"n2": "b:1"}


def test_with_a_member_go_the_queues_that_live_there() -> None:
    metadata = with_queue()
    for node in ("n1", "n2"):
        assert metadata.apply(commands.put_member(node, f"{node}:1"))
        assert metadata.apply(commands.declare_queue("v", node, 1, home=node))
    assert not metadata.apply(commands.remove_member("n2", queues="refuse")), "somebody has declared one meanwhile"
    assert "n2" in metadata.members()
    assert metadata.apply(commands.remove_member("n2", queues="drop"))
    assert [queue.name for queue in metadata.queues("v")] == ["q", "n1"]


def test_nobody_but_a_member_is_the_home_of_a_queue() -> None:
    metadata = with_queue()
    assert metadata.apply(commands.declare_queue("v", "early", 1, home="n9")), "members are not known yet"
    assert metadata.apply(commands.put_member("n1", "a:1"))
    assert not metadata.apply(commands.declare_queue("v", "late", 1, home="n9"))
    assert metadata.apply(commands.declare_queue("v", "late", 1, home="n1"))
    assert metadata.apply(commands.declare_queue("v", "everywhere", 1))


def test_nobody_but_a_member_is_the_home_of_an_app() -> None:
    metadata = with_queue()
    assert metadata.apply(commands.put_member("n1", "a:1"))
    assert not metadata.apply(commands.put_app("v", "sink", "n9", "u"))
    assert metadata.app("v", "sink") is None
    assert metadata.apply(commands.put_app("v", "sink", "n1", "u"))


def test_the_number_of_an_exchange_is_no_other_ones() -> None:
    metadata = with_queue()
    assert metadata.apply(commands.declare_exchange("v", "held", "x-delayed-message", numbered=True))
    first = metadata.exchange("v", "held")
    assert metadata.apply(commands.delete_exchange("v", "held"))
    assert metadata.apply(commands.declare_queue("v", "r", 1))
    assert metadata.apply(commands.declare_exchange("v", "held", "x-delayed-message", numbered=True))
    second = metadata.exchange("v", "held")
    assert first is not None
    assert second is not None
    assert (first.number, queue_id(metadata, "r"), second.number) == (2, 3, 4)
    again = Metadata()
    for command in metadata.snapshot():
        again.apply(command)
    assert again.exchange("v", "held") == second
    assert again.next_queue_id == metadata.next_queue_id == 5


def test_a_late_delete_does_not_hit_the_queue_that_took_the_name() -> None:
    metadata = with_queue()
    metadata.apply(commands.delete_queue("v", "q", 1))
    metadata.apply(commands.declare_queue("v", "q", 2))
    assert not metadata.apply(commands.delete_queue("v", "q", 1))
    assert metadata.queue("v", "q") is not None


def test_a_second_declaration_leaves_the_first() -> None:
    metadata = with_queue()
    assert not metadata.apply(commands.declare_queue("v", "q", 2, auto_delete=True))
    assert not metadata.apply(commands.declare_exchange("v", "e", "fanout"))
    queue, exchange = metadata.queue("v", "q"), metadata.exchange("v", "e")
    assert queue is not None
    assert exchange is not None
    assert (queue.queue_id, queue.auto_delete, exchange.type) == (1, False, "topic")
    assert metadata.next_queue_id == 2


def test_bindings_differ_by_key_and_by_the_octets_of_their_arguments() -> None:
    metadata = with_queue()
    records = [
        BindingRecord("e", "queue", "q", key, raw)
        for key in ("k", "", "k\udc80")
        for raw in (b"", b"\x01at\x01")
    ]
    assert all(metadata.apply(commands.add_binding("v", record)) for record in records)
    assert metadata.bindings_to("v", "queue", "q") == records
    assert metadata.apply(commands.remove_binding("v", records[2]))
    assert not metadata.apply(commands.remove_binding("v", records[2]))
    assert metadata.bindings_to("v", "queue", "q") == records[:2] + records[3:]


def test_what_a_caller_does_to_its_command_afterwards_does_not_matter() -> None:
    metadata = Metadata()
    metadata.apply(commands.put_vhost("v"))
    command = commands.set_policy("v", "p", pattern="", definition={"ha-params": [1]})
    parameter = commands.set_global_parameter("g", {"list": [1]})
    metadata.apply(command)
    metadata.apply(parameter)
    command["definition"]["ha-params"].append(2)
    parameter["value"]["list"].append(2)
    metadata.snapshot()[-2]["op"] = "changed"
    assert metadata.policies("v")[0].definition == {"ha-params": [1]}
    found = metadata.global_parameter("g")
    assert found is not None
    assert found.value == {"list": [1]}


def test_true_and_one_are_two_values() -> None:
    metadata = Metadata()
    for value in (1, True, 1.0, [1], [True]):
        assert metadata.apply(commands.set_global_parameter("g", value)), value
        assert not metadata.apply(commands.set_global_parameter("g", value)), value


def test_100_000_bindings_and_10_000_queues() -> None:
    """With a search anywhere in the way of one command, this takes hours."""
    metadata = Metadata()
    metadata.apply(commands.put_vhost("v"))
    for number in range(10_000):
        metadata.apply(commands.declare_queue("v", f"q{number}", number + 1))
    for number in range(100_000):
        record = BindingRecord("amq.topic", "queue", f"q{number % 10_000}", f"key.{number}", b"")
        metadata.apply(commands.add_binding("v", record))
    assert len(metadata.bindings("v")) == 100_000
    for number in range(10_000):
        assert len(metadata.bindings_to("v", "queue", f"q{number}")) == 10
        metadata.apply(commands.delete_queue("v", f"q{number}", number + 1))
    assert metadata.bindings("v") == []
    assert metadata.queue_count("v") == 0


def test_members_come_and_go() -> None:
    metadata = Metadata()
    assert metadata.apply(commands.put_member("n1", "h:1"))
    assert metadata.apply(commands.put_member("n2", "h:2"))
    assert not metadata.apply(commands.put_member("n2", "h:2"))
    assert metadata.apply(commands.put_member("n2", "h:3"))
    assert metadata.members() == {"n1": "h:1", "n2": "h:3"}
    again = Metadata()
    for command in metadata.snapshot():
        again.apply(command)
    assert again.members() == metadata.members()
    assert metadata.apply(commands.remove_member("n1"))
    assert not metadata.apply(commands.remove_member("n1"))
    assert metadata.members() == {"n2": "h:3"}


def test_a_member_is_added_with_one_folder() -> None:
    """Whoever comes second does not take its place: the first may have promised something."""
    metadata = Metadata()
    assert metadata.apply(commands.add_member("n1", "h:1", "0a"))
    assert not metadata.apply(commands.add_member("n1", "h:2", "0b"))
    assert not metadata.apply(commands.add_member("n1", "h:1", "0a")), "an answer was lost"
    assert metadata.apply(commands.put_member("n1", "h:3")), "it has moved, with its folder"
    assert (metadata.members(), metadata.identity_of("n1")) == ({"n1": "h:3"}, "0a")
    assert Metadata().identity_of("n1") == ""
    copy = Metadata()
    for command in metadata.snapshot():
        copy.apply(command)
    assert copy.identity_of("n1") == draft_of(metadata).identity_of("n1") == "0a"
    metadata.apply(commands.remove_member("n1"))
    assert metadata.identity_of("n1") == ""
    assert metadata.apply(commands.add_member("n1", "h:2", "0b"))


def test_a_founder_is_not_added_with_another_folder() -> None:
    metadata = Metadata()
    metadata.apply(commands.put_member("n1", "h:1"))
    assert not metadata.apply(commands.add_member("n1", "h:1", "0a"))
    assert metadata.apply(commands.put_member("n1", "h:1", "0a")), "but a restored one says that it has one"
    assert metadata.identity_of("n1") == "0a"


def test_a_member_is_removed_only_from_among_those_that_were_expected() -> None:
    metadata = Metadata()
    for name in ("n1", "n2", "n3"):
        metadata.apply(commands.put_member(name, f"{name}:1"))
    assert not metadata.apply(commands.remove_member("n3", expected=["n1", "n3"]))
    assert metadata.apply(commands.remove_member("n3", expected=["n3", "n2", "n1"]))
    assert not metadata.apply(commands.remove_member("n2", expected=["n3", "n2", "n1"])), "somebody was faster"


def test_a_copy_of_the_bindings_lists_them_as_the_first_does() -> None:
    """A member that was sent a snapshot, and one that has the whole log."""
    ends = [("queue", "q"), ("exchange", "f"), ("queue", "r")]
    added = [BindingRecord(s, *end, str(n), b"") for n, end in enumerate(ends * 2) for s in ("e", "f", "g")]
    index = BindingIndex()
    for binding in added:
        assert index.add(binding, binding.binding_key.encode())
    assert not index.add(added[3])
    assert index.remove(added[0])
    assert not index.remove(added[0])
    index.remove_destination("queue", "r")
    index.remove_exchange("g")
    left = [each for each in added[1:] if each.destination != "r" and each.source != "g"]
    assert sorted(index.all()) == sorted(left)
    assert [line.decode() for line in index.lines()] == [each.binding_key for each in index.all()]
    assert sorted(index.to_destination("queue", "q")) == sorted(each for each in left if each.destination == "q")
    assert index.to_destination("queue", "r") == []
    copy = BindingIndex()
    for binding in index.all():
        copy.add(binding)
    assert copy.all() == index.all()
    for binding in left:
        assert binding in index
        index.remove(binding)
    assert index.all() == []


def test_bindings_of_an_end_that_is_gone_are_forgotten_in_slices_and_seen_by_nobody() -> None:
    """Ends of the same names come and go meanwhile; a list of what is there says what there is."""
    chance = random.Random(3)
    index, there = BindingIndex(), dict[BindingRecord, bytes]()
    ends = [("queue", f"q{number}") for number in range(8)] + [("exchange", "f")]

    def some() -> BindingRecord:
        return BindingRecord(chance.choice("efg"), *chance.choice(ends), str(chance.randrange(400)), b"")

    slices = 0
    for number in range(8_000):
        binding, line = some(), b"%d" % number
        does = chance.random()
        if does < 0.7:
            assert index.add(binding, line) == (binding not in there)
            there.setdefault(binding, line)
        elif does < 0.8:
            assert index.remove(binding) == (there.pop(binding, None) is not None)
        elif does < 0.803:
            index.remove_exchange(binding.source)
            gone = ("exchange", binding.source)
            left = there.items()
            there = {each: line for each, line in left if each.source != binding.source and each[1:3] != gone}
        elif does < 0.806:
            index.remove_destination(*binding[1:3])
            there = {each: line for each, line in there.items() if each[1:3] != binding[1:3]}
        elif does < 0.85:
            slices += index.forget()
        if number % 50 == 0:
            assert index.all() == list(there)
            assert index.lines() == list(there.values())
            block, found = 0, list[BindingRecord]()
            while (following := index.after(block))[0] != block:
                block = following[0]
                found += following[1]
            assert found == list(there)
            for end in ends:
                assert sorted(index.to_destination(*end)) == sorted(each for each in there if each[1:3] == end)
        assert (binding in index) == (binding in there)
    assert slices > 20
    while index.forget():
        pass
    for binding in list(there):
        assert index.remove(binding)
    assert (index.all(), index._blocks, index._sources, index._destinations) == ([], {}, {}, {})


def test_what_one_command_takes_away_costs_no_more_with_very_many_bindings() -> None:
    later: list[Callable[[int], bool]] = []
    metadata = Metadata(later.append)
    metadata.apply(commands.put_vhost("/"))
    for name in ("e", "f"):
        metadata.apply(commands.declare_exchange("/", name, "topic"))
    for number in range(200):
        metadata.apply(commands.declare_queue("/", f"q{number}", number + 1))
        metadata.apply(commands.add_binding("/", BindingRecord("e", "queue", f"q{number}", "", b"")))
    for number in range(200):
        metadata.apply(commands.add_binding("/", BindingRecord("f", "queue", "q7", str(number), b"")))
    assert metadata.apply(commands.delete_exchange("/", "e"))
    assert metadata.apply(commands.delete_queue("/", "q7", 8))
    assert metadata.bindings("/") == []
    (job,) = later
    slices = 1
    while job(0):
        slices += 1
    assert slices == 5  # and what was forgotten at once
    assert metadata.bindings_after("/", 0) == (0, [])


def test_a_vhost_goes_at_once_and_its_queues_are_forgotten_in_slices() -> None:
    later: list[Callable[[int], bool]] = []
    metadata = Metadata(later.append)
    for vhost in ("/", "stays"):
        metadata.apply(commands.put_vhost(vhost))
    for number in range(400):
        vhost, home = ("stays", "/")[number % 2], f"n{number % 2}"
        metadata.apply(commands.declare_queue(vhost, f"q{number}", number + 1, home=home))
    assert metadata.apply(commands.delete_vhost("/"))
    metadata.apply(commands.put_vhost("/"))
    metadata.apply(commands.declare_queue("/", "q1", 401, home="n1"))
    (job,) = later
    left = [*range(1, 400, 2), 401]
    slices = 0
    goes_on = True
    while goes_on:
        slices += 1
        goes_on = job(0)
        assert [queue.queue_id for queue in metadata.all_queues()] == left
        assert [json.loads(line)["queue_id"] for line in metadata.queue_lines()] == left
        assert [metadata.queue_by_id(number) is not None for number in range(1, 5)] == [True, False, True, False]
        assert [metadata.count_at(home) for home in ("n0", "n1")] == [200, 1]
        before, (block, found) = 0, metadata.queues_after(0)
        seen = [*found]
        while block != before:
            before, (block, found) = block, metadata.queues_after(block)
            seen += found
        assert [queue.queue_id for queue in seen] == left
    assert slices > 4
    assert sum(map(len, metadata._queues._blocks.values())) == len(left)


def test_a_stream_and_its_partitions_come_and_go_together() -> None:
    metadata = Metadata()
    metadata.apply(commands.put_vhost("/"))

    def partition(first: int, *ids: int, name: str = "s", queue_id: int = 1) -> bool:
        command = commands.partition_stream("/", name, queue_id, "stream", b"%d" % first, first, ids, b"p")
        return metadata.apply(command)

    def named() -> dict[str, int]:
        return {queue.name: queue.queue_id for queue in metadata.queues("/")}

    assert partition(0, 5, 10)
    assert named() == {"s": 1, "s-0": 5, "s-1": 10}
    assert [part.part_of for part in metadata.partitions("/", "s")] == ["s", "s"]
    assert not partition(0, 20)
    assert not partition(1, 20), "somebody was faster"
    assert not partition(3, 20)
    assert not partition(2, 20, queue_id=2)
    assert partition(2, 20)
    record = metadata.queue("/", "s")
    assert record is not None
    assert (record.queue_id, record.arguments_raw) == (1, b"2")
    again = Metadata()
    for command in metadata.snapshot():
        again.apply(command)
    assert again.snapshot_lines() == metadata.snapshot_lines()
    assert metadata.apply(commands.declare_queue("/", "t-1", 1))
    assert not partition(0, 30, 31, name="t"), "all of it, or nothing"
    assert metadata.apply(commands.delete_queue("/", "s", 1, [5, 10, 20, 21]))
    assert named() == {"t-1": 21}


def homed(name: str, home: str, durable: bool = True) -> commands.Command:
    return commands.declare_queue("/", name, 1, type_name="classic", durable=durable, home=home)


@pytest.fixture
def with_workers() -> Metadata:
    """Two members, one of which has workers."""
    metadata = Metadata()
    metadata.apply(commands.put_vhost("/"))
    for node in ("n1", "n2"):
        metadata.apply(commands.put_member(node, f"{node}:1"))
    for home in ("n1", "n1/1", "n1/2", "n2"):
        metadata.apply(homed(f"lasting at {home}", home))
        metadata.apply(homed(f"passing at {home}", home, durable=False))
    return metadata


def homes(metadata: Metadata) -> list[str]:
    return [queue.home for queue in metadata.all_queues()]


def test_a_worker_of_a_member_may_be_a_home(with_workers: Metadata) -> None:
    assert homes(with_workers) == ["n1", "n1", "n1/1", "n1/1", "n1/2", "n1/2", "n2", "n2"]
    assert not with_workers.apply(homed("nowhere", "n3/1"))
    assert [with_workers.count_at(home) for home in ("n1", "n1/1", "n3/1")] == [2, 2, 0]


def test_a_worker_that_starts_again_is_not_the_others(with_workers: Metadata) -> None:
    assert with_workers.apply(commands.node_started("n1"))
    assert homes(with_workers) == ["n1", "n1/1", "n1/1", "n1/2", "n1/2", "n2", "n2"]
    assert with_workers.apply(commands.node_started("n1/2"))
    assert homes(with_workers) == ["n1", "n1/1", "n1/1", "n1/2", "n2", "n2"]


def test_workers_of_a_node_go_one_by_one(with_workers: Metadata) -> None:
    """Its worker 0 may be away for long while the others serve clients."""
    assert with_workers.apply(commands.node_gone("n1"))
    assert homes(with_workers) == ["n1", "n1/1", "n1/1", "n1/2", "n1/2", "n2", "n2"]
    assert with_workers.apply(commands.node_gone("n1/1"))
    assert homes(with_workers) == ["n1", "n1/1", "n1/2", "n1/2", "n2", "n2"]


def test_a_member_says_which_workers_it_has(with_workers: Metadata) -> None:
    metadata, seen = with_workers, with_workers.place_generation
    assert metadata.apply(commands.put_member_workers("n1", [2, 1, 0], [2, 7]))
    assert metadata.workers_of("n1") == ((1, 2), (2,), ())
    assert not metadata.has_spread_groups
    assert metadata.worker_names() == ["n1/1", "n1/2"]
    assert [metadata.is_closing(name) for name in ("n1", "n1/1", "n1/2", "n2/2")] == [False, False, True, False]
    assert metadata.place_generation > seen
    assert not metadata.apply(commands.put_member_workers("n1", [1, 2], [2]))
    assert not metadata.apply(commands.put_member_workers("n3", [1], [])), "it is no member"
    assert metadata.apply(commands.put_member_workers("n1", [1, 2], [2], [1, 0, 2]))
    assert metadata.workers_of("n1").groups == (1, 0, 2)
    assert metadata.has_spread_groups
    again = Metadata()
    for command in metadata.snapshot():
        again.apply(command)
    assert again.member_workers() == metadata.member_workers() == draft_of(metadata).member_workers()
    assert metadata.apply(commands.put_member("n1", "c:3"))
    assert metadata.workers_of("n1").numbers == (1, 2), "another address is none of its workers"
    assert metadata.apply(commands.put_member_workers("n1", [], []))
    assert not metadata.member_workers()


def test_with_a_member_go_its_workers(with_workers: Metadata) -> None:
    assert with_workers.apply(commands.put_member_workers("n1", [1], []))
    assert with_workers.apply(commands.remove_member("n1", queues=commands.DROP))
    assert with_workers.apply(commands.put_member("n1", "a:1"))
    assert with_workers.worker_names() == [], "one that comes again under its name has to say so again"


def test_with_a_member_go_the_queues_of_its_workers(with_workers: Metadata) -> None:
    assert not with_workers.apply(commands.remove_member("n1", queues=commands.REFUSE))
    assert with_workers.apply(commands.remove_member("n1", queues=commands.DROP))
    assert homes(with_workers) == ["n2", "n2"]
    assert with_workers.count_at("n1/1") == 0
    assert with_workers.count_at("n2") == 2


def with_bindings(metadata: Metadata) -> Metadata:
    metadata.apply(commands.put_vhost("bound"))
    metadata.apply(commands.declare_exchange("bound", "e", "topic"))
    for number in range(200):
        metadata.apply(commands.declare_queue("bound", f"q{number}", metadata.next_queue_id))
        metadata.apply(commands.add_binding("bound", BindingRecord("e", "queue", f"q{number}", "k", b"")))
    return metadata


def pairs_there_are() -> int:
    return sum(type(each) is _Pair for each in gc.get_objects())


@pytest.mark.parametrize("goes", ["with its virtual host", "with what it was before"])
def test_bindings_that_nobody_needs_any_more_go_without_the_collector(goes: str) -> None:
    """What was there when a node started the collector does not look at."""
    gc.collect()
    gc.disable()
    try:
        before = pairs_there_are()
        metadata = with_bindings(Metadata())
        assert pairs_there_are() == before + 200
        if goes == "with its virtual host":
            metadata.apply(commands.delete_vhost("bound"))
        else:
            metadata.become(Metadata())
        assert pairs_there_are() == before
    finally:
        gc.enable()


def test_they_go_in_slices_beside_those_of_an_exchange_that_has_gone_before() -> None:
    jobs: list[Callable[[int], bool]] = []
    metadata = with_bindings(Metadata(jobs.append))
    metadata.apply(commands.delete_exchange("bound", "e"))
    metadata.apply(commands.delete_vhost("bound"))
    slices = 0
    while jobs:
        jobs = [job for job in jobs if job(0)]
        slices += 1
        assert slices < 20
    assert slices > 2
