"""Which nodes groups are on: spread by load, one a host where there are enough."""

from __future__ import annotations

import random

from amqp_broker.metadata import commands
from amqp_broker.metadata.group_placing import Place, fill, host_of, loads, place_groups, spread
from amqp_broker.metadata.metadata import Metadata
from tests.metadata.drafts import draft_of

FIVE = {name: Place("", name) for name in ("n1", "n2", "n3", "n4", "n5")}
SIX = FIVE | {"n6": Place("", "n6")}
#: Two nodes in each of three racks.
RACKS = {f"n{number}": Place("abc"[(number - 1) // 2], f"h{number}") for number in range(1, 7)}


def on(**hosts: str) -> dict[str, Place]:
    """Nodes in no rack, by their hosts."""
    return {name: Place("", host) for name, host in hosts.items()}


def racks_of(members: tuple[str, ...], places: dict[str, Place] = RACKS) -> list[str]:
    return sorted(places[name].rack for name in members)


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
    hosts = on(n1="a", n2="a", n3="b", n4="b", n5="c")
    for members in place_groups(range(1, 9), {}, hosts, 3).values():
        assert sorted(hosts[name].host for name in members) == ["a", "b", "c"]
    assert len(fill((), hosts, 4, {})) == 4
    assert len(fill((), hosts, 9, {})) == 5


def test_the_host_of_an_address() -> None:
    assert [host_of(text) for text in ("a:1", "[::1]:7", "")] == ["a", "[::1]", ""]


def test_what_is_spread_already_stays() -> None:
    assert spread(place_groups(range(1, 11), {}, FIVE, 3), FIVE) == {}


def test_new_nodes_get_their_share_and_sizes_stay() -> None:
    lists = dict.fromkeys(range(1, 7), ("n1", "n2", "n3"))
    changed = {**lists, **spread(lists, SIX)}
    assert set(loads(changed, SIX).values()) == {3}
    assert all(len(members) == 3 for members in changed.values())


def test_two_members_on_a_host_are_parted() -> None:
    hosts = on(n1="a", n2="a", n3="b", n4="c")
    changed = spread({1: ("n1", "n2", "n3")}, hosts)
    assert sorted(hosts[name].host for name in changed[1]) == ["a", "b", "c"]


def test_one_member_a_rack_where_there_are_enough() -> None:
    lists = place_groups(range(1, 9), {}, RACKS, 3)
    assert [racks_of(members) for members in lists.values()] == [["a", "b", "c"]] * 8
    assert set(loads(lists, RACKS).values()) == {4}
    assert spread(lists, RACKS) == {}


def test_where_there_are_not_enough_racks_each_has_about_as_many() -> None:
    for members in place_groups(range(1, 9), {}, RACKS, 5).values():
        assert sorted(racks_of(members).count(each) for each in "abc") == [1, 2, 2]
    changed = spread({1: ("n1", "n2", "n3"), 2: ("n1", "n2", "n3", "n5")}, RACKS)
    assert [racks_of(changed[1]), 2 in changed] == [["a", "b", "c"], False], "of four, two have to be in one of three"


def test_racks_count_before_hosts_and_hosts_before_groups() -> None:
    """Two nodes on one machine may be in racks of their own, as containers may be; the machine's other nodes wait."""
    places = {
        "n1": Place("a", "h1"), "n2": Place("a", "h2"), "n3": Place("b", "h1"), "n4": Place("b", "h3"),
    }  # fmt: skip
    busy = {"n1": 0, "n2": 9, "n3": 0, "n4": 9}
    assert fill(("n1",), places, 2, busy) == ("n1", "n4")
    assert fill(("n1", "n4"), places, 3, busy) == ("n1", "n2", "n4")
    assert spread({1: ("n1", "n2")}, places) == {1: ("n2", "n3")}


def test_a_node_in_no_rack_is_in_none_of_the_others() -> None:
    places = RACKS | on(n7="h7", n8="h8")
    assert fill(("n1", "n3", "n5"), places, 5, {}) == ("n1", "n3", "n5", "n7", "n8")
    assert spread({1: ("n7", "n8")}, places) == {}


def test_members_of_one_rack_are_parted_even_where_that_makes_loads_uneven() -> None:
    places = {"n1": Place("a", "h1"), "n2": Place("a", "h2"), "n3": Place("b", "h3")}
    lists = {1: ("n1", "n2"), 2: ("n2", "n3"), 3: ("n1", "n3")}
    assert [racks_of(members, places) for members in ({**lists, **spread(lists, places)}).values()] == [["a", "b"]] * 3


def test_spreading_comes_to_an_end_wherever_nodes_are() -> None:
    chance = random.Random(7)
    for _ in range(300):
        names = [f"n{number}" for number in range(1, chance.randint(2, 8))]
        places = {name: Place(chance.choice(["", "a", "b", "c"]), chance.choice("xyz")) for name in names}
        size = chance.randint(1, len(names))
        lists = {group: tuple(chance.sample(names, size)) for group in range(1, chance.randint(2, 7))}
        spread_out = {**lists, **spread(lists, places)}
        assert spread(spread_out, places) == {}
        assert all(len(set(members)) == size for members in spread_out.values())


def test_a_member_says_in_which_rack_it_is() -> None:
    metadata = cluster("n1", "n2", "n3")
    assert not metadata.member_racks()
    assert metadata.apply(commands.put_member_rack("n1", "a"))
    assert not metadata.apply(commands.put_member_rack("n1", "a"))
    assert metadata.apply(commands.put_member_rack("n2", "")), "it has said that it is in none"
    assert not metadata.apply(commands.put_member_rack("n9", "a")), "it is no member"
    assert metadata.member_racks() == {"n1": "a", "n2": ""}
    assert metadata.member_places()["n1"] == ("a", "10.0.0.0")
    assert metadata.member_places()["n3"] == ("", "10.0.0.2")
    again = Metadata()
    for command in metadata.snapshot():
        again.apply(command)
    assert again.member_racks() == metadata.member_racks() == draft_of(metadata).member_racks()
    assert metadata.apply(commands.put_member("n1", "10.0.0.9:7000"))
    assert metadata.apply(commands.put_member_rack("n1", "b"))
    assert metadata.member_racks()["n1"] == "b"
    assert metadata.apply(commands.remove_member("n1"))
    assert metadata.apply(commands.put_member("n1", "10.0.0.9:7000"))
    assert "n1" not in metadata.member_racks(), "one that comes again under its name has to say so again"


def test_who_takes_the_place_of_one_that_is_removed_is_of_its_rack() -> None:
    metadata = cluster(*RACKS)
    for name, place in RACKS.items():
        metadata.apply(commands.put_member_rack(name, place.rack))
    metadata.apply(commands.put_group_members(1, ["n2", "n4", "n6"]))
    metadata.apply(commands.put_group_members(2, ["n2", "n4", "n5"]))
    metadata.apply(commands.put_group_members(3, ["n2", "n4", "n5"]))
    metadata.apply(commands.remove_member("n6"))
    assert metadata.group_members(1) == ("n2", "n4", "n5"), "n1 and n3 are in fewer groups"


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
