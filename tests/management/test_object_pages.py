"""Pages of objects: what stays is seen once, a page costs by its rows, names hold any octets."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_broker.management.objects.kind import LOOK
from amqp_broker.metadata import commands
from amqp_broker.octets.sorted_keys import SortedKeys
from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from tests.example_counts import examples
from tests.management.names import NAMES
from tests.management.users import USER, add_user, log_in
from tests.node.node_driver import NodeDriver, consume, declare
from tests.node.system_service import SystemService

#: By kind: columns that whoever reads it cannot do without (those of §3 that a node knows).
COLUMNS = {
    "connections": "name node user vhost state type protocol auth_mechanism channels channel_max frame_max timeout "
    "connected_at client_properties user_provided_name host port peer_host peer_port ssl recv_oct send_oct send_pend",
    "channels": "name number node user vhost state confirm transactional consumer_count prefetch_count "
    "global_prefetch_count messages_unacknowledged messages_unconfirmed messages_uncommitted acks_uncommitted "
    "connection_details publish",
    "consumers": "consumer_tag queue ack_required active activity_status exclusive prefetch_count arguments "
    "consumer_timeout channel_details",
    "queues": "name vhost type durable auto_delete exclusive arguments state node policy operator_policy "
    "effective_policy_definition consumers messages messages_ready messages_unacknowledged idle_since "
    "single_active_consumer_tag exclusive_consumer_tag owner_pid_details leader members online delivery_limit "
    "oldest_message_age_ms oldest_unacked_age_ms publish deliver deliver_no_ack get get_no_ack get_empty redeliver ack",
    "exchanges": "name vhost type durable auto_delete internal arguments policy user_who_performed_action",
    "bindings": "source vhost destination destination_type routing_key arguments properties_key",
    "vhosts": "name description tags default_queue_type metadata tracing protected_from_deletion cluster_state",
    "users": "name password_hash hashing_algorithm tags limits",
    "permissions": "user vhost configure write read",
    "topic_permissions": "user vhost exchange write read",
    "policies": "vhost name pattern apply-to definition priority",
    "operator_policies": "vhost name pattern apply-to definition priority",
    "vhost_limits": "vhost value",
    "user_limits": "user value",
    "parameters": "vhost component name value",
    "global_parameters": "name value",
}


def pages(service: SystemService, kind: str, limit: int, **fields: object) -> list[dict[str, Any]]:
    """The rows of all pages, as objects."""
    found: list[dict[str, Any]] = []
    answer = service.ask("objects.page", kind=kind, limit=limit, **fields)
    while True:
        assert answer["ok"], answer
        assert len(answer["rows"]) <= limit
        found += [dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"]]
        if answer["next"] is None:
            return found
        answer = service.ask("objects.page", kind=kind, limit=limit, after=answer["next"], **fields)


def fill(driver: NodeDriver, service: SystemService, names: list[str]) -> None:
    """Some of everything, under these names."""
    propose = driver.node.broker.propose
    for name in names:
        propose(commands.put_vhost(name))
        propose(commands.put_user(name, "", []))
        propose(commands.set_permission(name, "/", "", "", ""))
        propose(commands.set_topic_permission(name, "/", name, "", ""))
        propose(commands.limit_user(name, {"max-channels": 5}))
        propose(commands.limit_vhost(name, {"max-queues": 5}))
        propose(commands.set_policy("/", name, pattern="^no", definition={"max-length": 1}, apply_to="all", priority=1))
        propose(
            commands.set_policy(
                "/", name, pattern="^no", definition={"max-length": 1}, apply_to="all", priority=1, operator=True
            )
        )
        propose(commands.set_parameter("/", "c", name, {"a": 1}))
        propose(commands.set_global_parameter(name, [1]))
    driver.settle()
    for name in names:
        shown = name.replace("\n", "")
        service.client.send(
            1,
            methods.ExchangeDeclare(0, name, "topic", False, True, False, False, False, Table({})),
            declare(name),
            methods.QueueBind(0, shown, shown, name, False, Table({"k": name})),
            consume(shown, name),
        )
    driver.settle()
    service.client.take()


@pytest.mark.parametrize("kind", COLUMNS)
def test_names_of_any_octets_are_shown_as_they_are(driver: NodeDriver, service: SystemService, kind: str) -> None:
    names = [name for name in (*NAMES, "\x00\n") if name != "/"]
    fill(driver, service, names)
    rows = pages(service, kind, 3)
    assert rows
    assert set(COLUMNS[kind].split()) <= set(rows[0])
    if kind not in ("connections", "channels"):  # which have said more since
        key = {
            "consumers": "consumer_tag", "bindings": "routing_key", "permissions": "user",
            "topic_permissions": "exchange", "vhost_limits": "vhost", "user_limits": "user",
        }.get(kind, "name")  # fmt: skip
        assert rows == pages(service, kind, 500)
        declared = kind in ("queues", "exchanges")
        assert {name.replace("\n", "") if declared else name for name in names} <= {row[key] for row in rows}
    if kind == "queues":
        for row in rows:
            answer = service.ask("object", kind=kind, vhost="/", name=row["name"])
            assert answer["object"]["name"] == row["name"]
            assert answer["object"]["consumer_details"][0]["queue"] == {"name": row["name"], "vhost": "/"}


def test_bindings_are_told_apart_by_their_properties_key(driver: NodeDriver, service: SystemService) -> None:
    service.client.send(1, declare("q"))
    for key in ("", "a b", "~"):
        for arguments in ({}, {"x": 1}, {"x": 2}):
            service.client.send(1, methods.QueueBind(0, "q", "amq.topic", key, False, Table(arguments)))
    driver.settle()
    service.client.take()
    rows = [row for row in pages(service, "bindings", 2) if row["source"]]
    assert len({row["properties_key"] for row in rows}) == len(rows) == 9
    plain = [row["properties_key"] for row in rows if not row["arguments"]]
    assert sorted(plain) == sorted(["~", "a+b", "%7E"])
    for row in rows:
        named = {each: row[each] for each in ("source", "destination", "properties_key")}
        assert service.ask("object", kind="bindings", vhost="/", **named)["object"] == row


class CountingKeys(SortedKeys[str]):
    """Says how many keys were looked at."""

    looked_at = 0

    def after(self, key: str | None, most: int) -> list[str]:
        found = super().after(key, most)
        self.looked_at += len(found)
        return found


def test_a_page_costs_the_same_wherever_it_begins(driver: NodeDriver, service: SystemService) -> None:
    for start in range(0, 2000, 100):
        service.client.send(1, *[declare(f"q{number:04}", durable=False) for number in range(start, start + 100)])
        driver.settle()
        service.client.take()
    vhost = driver.node.broker.vhosts["/"]
    counting = CountingKeys()
    for name in vhost.queues:
        counting.add(name)
    vhost.queue_names = counting
    costs = []
    for after in (None, '["/", "q0999"]', '["/", "q1900"]'):
        counting.looked_at = 0
        asked = {} if after is None else {"after": after}
        assert len(service.ask("objects.page", kind="queues", limit=10, columns=["name"], **asked)["rows"]) == 10
        costs.append(counting.looked_at)
    assert costs == [LOOK, LOOK, LOOK]


# -- what comes and goes between pages ---------------------------------------------------------------------------------

CHANGES = st.lists(st.tuples(st.booleans(), st.integers(0, 40)), max_size=60)


@settings(max_examples=examples(40), deadline=None)
@given(
    st.sets(st.integers(0, 40), max_size=30),
    st.lists(CHANGES, min_size=1, max_size=12),
    st.integers(1, 9),
    st.sampled_from(["queues", "exchanges", "bindings", "users", "permissions", "channels"]),
)
def test_what_stays_is_seen_exactly_once(
    first: set[int], changes: list[list[tuple[bool, int]]], limit: int, kind: str
) -> None:
    driver = NodeDriver()
    service = SystemService(driver)
    other = driver.client()
    present: set[int] = set()

    def change(is_added: bool, number: int) -> None:
        if is_added == (number in present):
            return
        (present.add if is_added else present.remove)(number)
        name = f"x{number:02}"
        if kind in ("queues", "bindings"):
            gone = methods.QueueDelete(0, name, False, False, False)
            service.client.send(1, declare(name, durable=False) if is_added else gone)
        elif kind == "exchanges":
            made = methods.ExchangeDeclare(0, name, "direct", False, False, False, False, False, Table({}))
            service.client.send(1, made if is_added else methods.ExchangeDelete(0, name, False, False))
        elif kind == "channels":
            gone = methods.ChannelClose(200, "", 0, 0)
            other.send(number + 1, methods.ChannelOpen() if is_added else gone)
        elif is_added:
            driver.node.broker.propose(commands.put_user(name, "", []))
            driver.node.broker.propose(commands.set_permission(name, "/", "", "", ""))
        else:
            driver.node.broker.propose(commands.delete_user(name))
        driver.settle()
        service.client.take()

    def ident(row: dict[str, Any]) -> int | None:
        if kind == "channels":
            return row["number"] - 1 if "127.0.0.1:1001" in row["name"] else None
        name = row[{"bindings": "destination", "permissions": "user"}.get(kind, "name")]
        return int(name[1:]) if name.startswith("x") else None

    for number in sorted(first):
        change(True, number)
    stayed = set(present)
    seen: list[int] = []
    after: dict[str, object] = {}
    batches = iter(changes)
    while True:
        answer = service.ask("objects.page", kind=kind, limit=limit, **after)
        found = [ident(dict(zip(answer["columns"], row, strict=True))) for row in answer["rows"]]
        seen += [each for each in found if each is not None]
        if answer["next"] is None:
            break
        after = {"after": answer["next"]}
        for is_added, number in next(batches, []):
            if not is_added:
                stayed.discard(number)
            change(is_added, number)
    assert [each for each in seen if each in stayed] == sorted(stayed)


@pytest.mark.parametrize("after", ["", "x", "[]", '["/"]', '["/", 1]', '[["/"], "q"]', "[" * 5000, '["/", "q", 1]'])
def test_a_cursor_that_no_page_gave_is_refused(service: SystemService, after: str) -> None:
    assert service.ask("objects.page", kind="queues", after=after)["code"] == "bad_request"


@pytest.mark.parametrize("fields", [{"limit": 0}, {"limit": 501}, {"limit": True}, {"columns": ["name", "what"]}])
def test_what_a_page_cannot_be_is_refused(service: SystemService, fields: dict[str, object]) -> None:
    assert service.ask("objects.page", kind="queues", **fields)["code"] == "bad_request"


def test_a_connection_in_its_handshake_is_starting(driver: NodeDriver, service: SystemService) -> None:
    driver.raw_client()
    assert [row["state"] for row in pages(service, "connections", 1)] == ["running", "starting"]


def test_who_acts_as_whom_is_shown(driver: NodeDriver, service: SystemService) -> None:
    add_user(driver, "shop")
    log_in(driver, USER, identity="shop")
    row = pages(service, "connections", 500)[1]
    assert (row["user"], row["user_who_performed_action"]) == ("shop", USER)


def test_a_queue_says_who_owns_it_and_how_old_its_first_message_is(driver: NodeDriver, service: SystemService) -> None:
    client = driver.client(1)
    client.send(1, methods.QueueDeclare(0, "own", False, False, True, False, False, Table({})))
    client.publish(1, "own", b"x")
    driver.settle()
    driver.wait(700)
    (row,) = pages(service, "queues", 5)
    assert row["exclusive"]
    assert row["owner_pid_details"]["name"] == str(client.connection.peer)
    assert row["oldest_message_age_ms"] == 700
    assert row["idle_since"] is None


def test_a_channel_says_for_how_long_it_holds_what_it_does(driver: NodeDriver, service: SystemService) -> None:
    client = driver.client(1, 2)
    client.send(1, declare("q"), consume("q"))
    client.send(2, methods.ConfirmSelect(False))
    client.publish(2, "q", b"x")
    client.send(1, methods.BasicGet(0, "q", False))
    driver.settle()
    driver.wait(300)
    rows = {row["name"]: row for row in pages(service, "channels", 500)}
    name = str(client.connection.peer)
    held, publishing = rows[f"{name} (1)"], rows[f"{name} (2)"]
    assert (held["oldest_unacked_age_ms"], held["messages_unacknowledged"], held["deliver_get"]) == (300, 1, 1)
    assert (publishing["publish"], publishing["confirm_count"], publishing["confirm"]) == (1, 1, True)
    assert publishing["oldest_unacked_age_ms"] is None


def test_a_policy_that_applies_is_named(driver: NodeDriver, service: SystemService) -> None:
    service.client.send(1, declare("q"))
    driver.settle()
    service.client.take()
    service.ask("policy.put", vhost="/", name="p", pattern="q", definition={"max-length": 9})
    service.ask("operator_policy.put", vhost="/", name="o", pattern="q", definition={"max-length": 5})
    (row,) = pages(service, "queues", 5)
    assert (row["policy"], row["operator_policy"]) == ("p", "o")
    assert row["effective_policy_definition"] == {"max-length": 5}
    service.ask("policy.put", vhost="/", name="p", pattern="q", definition={"delivery-limit": -1})
    service.ask("operator_policy.put", vhost="/", name="o", pattern="q", definition={"delivery-limit": 5})
    (row,) = pages(service, "queues", 5)
    assert (row["effective_policy_definition"], row["delivery_limit"]) == ({"delivery-limit": 5}, 5)


def test_a_consumer_is_cancelled_and_its_client_hears_of_it(driver: NodeDriver, service: SystemService) -> None:
    client = driver.client(1, capabilities=["consumer_cancel_notify"])
    client.send(1, declare("q"), consume("q", "t"))
    driver.settle()
    client.take()
    (row,) = pages(service, "consumers", 5)
    details = row["channel_details"]
    fields = {"connection": details["connection_name"], "channel": details["number"]}
    assert service.ask("object", kind="consumers", vhost="/", name="t", **fields)["object"] == row
    assert service.ask("consumer.cancel", tag="t", **fields)["ok"]
    assert client.names() == ["basic.cancel"]
    assert pages(service, "consumers", 5) == []
    assert service.ask("consumer.cancel", tag="t", **fields)["code"] == "not_found"
