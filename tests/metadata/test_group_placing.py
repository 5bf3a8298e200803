"""Which nodes groups are on: spread by load, one a host where there are enough."""

from __future__ import annotations

from amqp_broker.metadata import commands
from amqp_broker.metadata.group_placing import fill, host_of, loads, place_groups, spread
from amqp_broker.metadata.metadata import Metadata
from tests.metadata.drafts import draft_of

FIVE = {name: name for name in ("n1", "n2", "n3", "n4", "n5")}


def cluster(*names: str) -> Metadata:
    metadata = Metadata()
    for number, name in enumerate(names):
        metadata.apply(commands.put_member(name, f"10.0.0.{number}:7000"))
    return metadata


def test_groups_are_spread_by_load() -> None:
    lists = place_groups(range(1, 11), {}, FIVE, 3)
    assert all(len(set(members)) == 3 for members in lists.values())
    assert set(loads(lists, FIVE).values()) == {6}


def test_what_others_have_counts() -> None:
    assert place_groups([2], {1: ("n1", "n2", "n3")}, FIVE, 2) == {2: ("n4", "n5")}


def test_one_member_a_host_where_there_are_enough() -> None:
    hosts = {"n1": "a", "n2": "a", "n3": "b", "n4": "b", "n5": "c"}
    for members in place_groups(range(1, 9), {}, hosts, 3).values():
        assert sorted(hosts[name] for name in members) == ["a", "b", "c"]
    assert len(fill((), hosts, 4, {})) == 4
    assert len(fill((), hosts, 9, {})) == 5


def test_the_host_of_an_address() -> None:
    assert [host_of(text) for text in ("a:1", "[::1]:7", "")] == ["a", "[::1]", ""]


def test_what_is_spread_already_stays() -> None:
    assert spread(place_groups(range(1, 11), {}, FIVE, 3), FIVE) == {}


def test_new_nodes_get_their_share_and_sizes_stay() -> None:
    lists = dict.fromkeys(range(1, 7), ("n1", "n2", "n3"))
    changed = {**lists, **spread(lists, FIVE | {"n6": "n6"})}
    assert set(loads(changed, FIVE | {"n6": "n6"}).values()) == {3}
    assert all(len(members) == 3 for members in changed.values())


def test_two_members_on_a_host_are_parted() -> None:
    hosts = {"n1": "a", "n2": "a", "n3": "b", "n4": "c"}
    changed = spread({1: ("n1", "n2", "n3")}, hosts)
    assert sorted(hosts[name] for name in changed[1]) == ["a", "b", "c"]


def test_a_list_is_replaced_by_who_knows_it() -> None:
    metadata = cluster("n1", "n2", "n3")
    assert metadata.group_members(1) == ()
    assert metadata.apply(commands.put_group_members(1, ["n2", "n1"]))
    assert metadata.group_members(1) == ("n1", "n2")
    assert not metadata.apply(commands.put_group_members(1, ["n3"]))
    assert not metadata.apply(commands.put_group_members(1, ["n9"], ["n1", "n2"]))
    assert metadata.apply(commands.put_group_members(1, [], ["n1", "n2"]))
    assert not metadata.has_group_lists


def test_another_node_takes_the_place_of_one_that_is_removed() -> None:
    metadata = cluster("n1", "n2", "n3", "n4")
    metadata.apply(commands.put_group_members(1, ["n1", "n2", "n3"]))
    metadata.apply(commands.put_group_members(2, ["n1", "n2", "n4"]))
    metadata.apply(commands.remove_member("n1"))
    assert dict(metadata.group_lists()) == {1: ("n2", "n3", "n4"), 2: ("n2", "n3", "n4")}
    metadata.apply(commands.remove_member("n4"))
    assert dict(metadata.group_lists()) == {1: ("n2", "n3"), 2: ("n2", "n3")}


def test_lists_are_in_snapshots_and_without_lists_there_is_nothing_new() -> None:
    metadata = cluster("n1", "n2")
    assert not [each for each in metadata.snapshot() if each["op"].startswith("group")]
    metadata.apply(commands.put_group_members(3, ["n2"]))
    again = Metadata()
    for command in metadata.snapshot():
        again.apply(command)
    assert dict(again.group_lists()) == {3: ("n2",)}
    assert dict(draft_of(metadata).group_lists()) == {3: ("n2",)}


def test_a_list_that_had_too_few_nodes_gets_back_to_its_size_with_those_that_come() -> None:
    metadata = cluster("n1", "n2", "n3", "n4")
    metadata.apply(commands.put_group_members(1, ["n1", "n2", "n3"]))
    metadata.apply(commands.put_group_members(2, ["n1", "n2"]))
    for name in ("n4", "n3"):
        metadata.apply(commands.remove_member(name))
    assert dict(metadata.group_lists()) == {1: ("n1", "n2"), 2: ("n1", "n2")}
    again = Metadata()
    for command in metadata.snapshot():
        again.apply(command)
    for each in (metadata, again, draft_of(metadata)):
        each.apply(commands.put_member("n1", "10.0.0.9:7000"))
        assert each.group_members(1) == ("n1", "n2")
        generation = each.group_generation
        each.apply(commands.put_member("n5", "10.0.0.5:7000"))
        assert dict(each.group_lists()) == {1: ("n1", "n2", "n5"), 2: ("n1", "n2")}
        assert each.group_generation > generation
        each.apply(commands.put_member("n6", "10.0.0.6:7000"))
        assert dict(each.group_lists()) == {1: ("n1", "n2", "n5"), 2: ("n1", "n2")}
        assert not [command for command in each.snapshot() if "size" in command]


def test_whoever_changes_a_list_says_how_long_it_is() -> None:
    metadata = cluster("n1", "n2", "n3")
    metadata.apply(commands.put_group_members(1, ["n1", "n2", "n3"]))
    metadata.apply(commands.remove_member("n3"))
    metadata.apply(commands.put_group_members(1, ["n1"], ["n1", "n2"]))
    metadata.apply(commands.put_member("n4", "10.0.0.4:7000"))
    assert metadata.group_members(1) == ("n1",)
