"""The last messages that went to no queue: which, whose, when; as many as the setting says; whatever their names."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.metadata import commands
from amqp_broker.routing.unroutable import UnroutableRing
from tests.management.names import NAMES
from tests.management.publishing import publish
from tests.management.test_objects_of_a_cluster import ClusterDesk
from tests.management.users import TaggedDesk, add_user, log_in
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import NodeDriver, declare, small_config
from tests.node.system_service import SystemService


def rows(service: SystemService, limit: int = 500, **fields: object) -> list[dict[str, Any]]:
    """Those of all pages."""
    found: list[dict[str, Any]] = []
    answer = service.ask("objects.page", kind="unroutable", limit=limit, **fields)
    while True:
        assert answer["ok"], answer
        found += [dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"]]
        if answer["next"] is None:
            return found
        answer = service.ask("objects.page", kind="unroutable", limit=limit, after=answer["next"], **fields)


def test_what_went_nowhere_is_known_with_whose_it_was() -> None:
    driver = NodeDriver()
    service, client = SystemService(driver), driver.client(1)
    client.send(1, declare("q"))
    publish(client, "", "q")
    publish(client, "amq.topic", "a.b", b"body")
    publish(client, "amq.headers", "", mandatory=True, headers={"h": 1})
    driver.settle()
    dropped, returned = rows(service)
    assert (dropped["exchange"], dropped["routing_key"], dropped["mandatory"]) == ("amq.topic", "a.b", False)
    assert (returned["exchange"], returned["routing_key"], returned["mandatory"]) == ("amq.headers", "", True)
    assert dropped["vhost"] == "/"
    assert (dropped["at"], dropped["user"]) == (driver.now, client.connection.session.user)
    assert dropped["connection"] == str(client.connection.peer)
    one = service.ask("object", kind="unroutable", number=returned["number"])
    assert one["object"] == returned
    assert service.ask("object", kind="unroutable", number=77)["code"] == "not_found"


@pytest.mark.parametrize("limit", [1, 3, 500])
def test_names_are_shown_as_they_are(limit: int) -> None:
    driver = NodeDriver()
    service, client = SystemService(driver), driver.client(1)
    for name in NAMES:
        publish(client, "amq.direct", name)
    driver.settle()
    assert [row["routing_key"] for row in rows(service, limit)] == NAMES


def test_as_many_are_kept_as_the_setting_says() -> None:
    driver = NodeDriver(small_config(unroutable_kept=3))
    service, client = SystemService(driver), driver.client(1)
    for number in range(8):
        publish(client, "amq.direct", str(number))
    driver.settle()
    assert [row["routing_key"] for row in rows(service, 2)] == ["5", "6", "7"]
    nothing = NodeDriver(small_config(unroutable_kept=0))
    desk, client = SystemService(nothing), nothing.client(1)
    publish(client, "amq.direct", "x")
    nothing.settle()
    assert rows(desk) == []
    assert nothing.node.broker.unroutable == 1


def test_a_page_goes_on_where_it_was_although_the_oldest_have_gone() -> None:
    ring = UnroutableRing(4)
    for _ in range(10):
        ring.add(0, "/", b"\x00\x00", "u", "p", False)
    assert [one.number for one in ring.after(-1, 100)] == [6, 7, 8, 9]
    assert [one.number for one in ring.after(6, 2)] == [7, 8]
    assert ring.after(9, 1) == []
    first = ring.after(-1, 1)[0]
    assert ring.has(first)
    ring.add(0, "/", b"\x00\x00", "u", "p", False)
    assert not ring.has(first)


def test_a_user_sees_what_went_nowhere_in_the_own_virtual_hosts() -> None:
    driver = NodeDriver()
    driver.node.broker.propose(commands.put_vhost("other"))
    add_user(driver, "looker", "management")
    add_user(driver, "elsewhere", "monitoring", vhosts=("other",))
    publish(driver.client(1), "amq.direct", "here")
    other = log_in(driver, "elsewhere", vhost="other")
    other.send_octets(b"\x01\x00\x01\x00\x00\x00\x05\x00\x14\x00\x0a\x00\xce")  # channel.open
    publish(other, "amq.direct", "there")
    driver.settle()
    desk = TaggedDesk(driver)
    seen = {
        user: [row[0] for row in desk.ask_as(user, "objects.page", kind="unroutable", columns=["routing_key"])["rows"]]
        for user in ("looker", "elsewhere")
    }
    assert seen == {"looker": ["here"], "elsewhere": ["here", "there"]}
    assert desk.ask_as("looker", "objects.page", kind="unroutable", vhost="other")["code"] == "not_authorised"


def test_those_of_all_nodes_are_shown() -> None:
    cluster = NodeCluster()
    cluster.run_until_ready()
    desk = ClusterDesk(cluster)
    for name, driver in cluster.nodes.items():
        publish(driver.client(1), "amq.direct", f"from {name}")
    cluster.run(100)
    for asked in cluster.nodes:
        found = desk.rows(asked, "unroutable", limit=2)
        assert [(row["node"], row["routing_key"]) for row in found] == [(n, f"from {n}") for n in ("n1", "n2", "n3")]
