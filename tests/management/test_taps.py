"""Taps: what happens to a message from its publish to its end; copies of what goes by; and that nobody else notices."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.channel.settlement import FEW
from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.routing.taps import BODY_BYTES, TAIL, Tap, TapFilter
from tests.management.names import NAMES
from tests.management.publishing import publish
from tests.management.test_objects_of_a_cluster import ClusterDesk
from tests.management.users import TaggedDesk, add_user
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import NodeDriver, consume, declare, small_config
from tests.node.system_service import SystemService


def opened(service: SystemService, kind: str = "trace", **fields: object) -> str:
    answer = service.ask("tap.open", kind=kind, vhost="/", **fields)
    assert answer["ok"], answer
    return str(answer["id"])


def read(service: SystemService, tap: str, **fields: object) -> dict[str, Any]:
    answer = service.ask("tap.read", id=tap, **fields)
    assert answer["ok"], answer
    return answer


def story(service: SystemService, tap: str) -> list[tuple[str, str]]:
    """What happened, and where."""
    return [(event["what"], ",".join(event["queues"])) for event in read(service, tap)["events"]]


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_message_from_its_publish_to_its_end(driver: NodeDriver, service: SystemService, kind: str) -> None:
    client = driver.client(1, 2)
    client.send(
        1,
        declare("q", x_queue_type=kind, x_dead_letter_exchange="amq.fanout"),
        declare("dead"),
        methods.QueueBind(0, "dead", "amq.fanout", "", False, Table({})),
        consume("q", "eager"),
    )
    driver.settle()
    tap = opened(service, exchange="")
    for body in (b"acked", b"returned", b"rejected"):
        publish(client, "", "q", body, message_id=body.decode())
        driver.settle()
    client.send(1, methods.BasicAck(1, False))
    client.send(1, methods.BasicNack(2, False, True))
    driver.settle()
    client.send(1, methods.BasicReject(3, False))
    driver.settle()
    found = read(service, tap)["events"]
    by_id: dict[str, list[str]] = {}
    for event in found:
        by_id.setdefault(event["message_id"], []).append(event["what"])
    assert by_id["acked"] == ["published", "delivered", "acked"]
    assert by_id["returned"] == ["published", "delivered", "returned", "delivered"]
    assert by_id["rejected"][:3] == ["published", "delivered", "rejected"]
    assert by_id["rejected"][-1] == "dead-lettered"
    delivered = next(event for event in found if event["what"] == "delivered")
    assert (delivered["consumer_tag"], delivered["queues"], delivered["redelivered"]) == ("eager", ["q"], False)
    assert delivered["connection"] == str(client.connection.peer)
    last = next(event for event in found if event["what"] == "dead-lettered")
    assert (last["to_exchange"], last["to_queues"], last["reason"]) == ("amq.fanout", ["dead"], "rejected")
    assert len({event["track"] for event in found if event["message_id"] == "rejected"}) == 1


@pytest.mark.parametrize("give_back", [methods.BasicNack(0, True, True), methods.BasicRecoverAsync(True)])
def test_one_of_very_many_that_come_back(service: SystemService, driver: NodeDriver, give_back: Any) -> None:
    client = driver.client(1)
    client.send(1, declare("q", durable=False), consume("q"))
    for number in range(FEW + 10):
        publish(client, "", "q", b"x", message_id=str(number))
    driver.settle()
    tap = opened(service, message_id=str(FEW + 9))  # the first that goes back
    client.send(1, give_back)
    while driver.node.background.jobs:
        driver.turn()
    driver.settle()
    assert story(service, tap)[:1] == [("returned", "q")]


def test_expiry_limits_gets_and_many_acks(driver: NodeDriver, service: SystemService) -> None:
    client = driver.client(1)
    client.send(1, declare("short", x_max_length=1), declare("full", x_max_length=0, x_overflow="reject-publish"))
    tap = opened(service)
    publish(client, "", "short", b"1")
    publish(client, "", "short", b"2", expiration="50")
    driver.settle()
    driver.wait(100)
    publish(client, "", "full", b"x")
    publish(client, "amq.topic", "nowhere")
    driver.settle()
    assert story(service, tap) == [
        ("published", "short"), ("published", "short"), ("dropped", "short"), ("dropped", "short"),
        ("published", "full"), ("refused", "full"), ("published", ""),
    ]  # fmt: skip
    reasons = [event.get("reason") for event in read(service, tap)["events"]]
    assert reasons[2:4] == ["maxlen", "expired"]
    other = opened(service, queue="got")
    client.send(1, declare("got"))
    for number in range(3):
        publish(client, "", "got", b"%d" % number)
    client.send(1, *[methods.BasicGet(0, "got", False)] * 3, methods.BasicAck(2, True), methods.BasicAck(3, False))
    driver.settle()
    assert [what for what, _ in story(service, other)] == ["published"] * 3 + ["delivered"] * 3 + ["acked"] * 3


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, "abc"),
        ({"exchange": "amq.topic"}, "ab"),
        ({"routing_key": "k.#"}, "ac"),
        ({"exchange": "amq.topic", "routing_key": "*.1"}, "a"),
        ({"message_id": "b"}, "b"),
        ({"correlation_id": "C"}, "c"),
        ({"headers": {"n": 5}}, "b"),
        ({"headers": {"n": 6}}, ""),
        ({"queue": "q"}, "a"),
        ({"queue": "nix"}, ""),
    ],
)
@pytest.mark.parametrize("kind", ["trace", "tail"])
def test_filters(
    driver: NodeDriver, service: SystemService, kind: str, wanted: dict[str, object], expected: str
) -> None:
    client = driver.client(1)
    client.send(1, declare("q"), methods.QueueBind(0, "q", "amq.topic", "k.*", False, Table({})))
    driver.settle()
    tap = opened(service, kind, **wanted)
    publish(client, "amq.topic", "k.1", b"a", message_id="a")
    publish(client, "amq.topic", "x.2", b"b", message_id="b", headers={"n": 5})
    publish(client, "amq.direct", "k", b"c", message_id="c", correlation_id="C")
    driver.settle()
    assert "".join(event["message_id"] for event in read(service, tap)["events"]) == expected


def test_copies_of_a_tail(driver: NodeDriver, service: SystemService) -> None:
    client = driver.client(1)
    tap = opened(service, "tail", exchange="amq.topic")
    publish(client, "amq.topic", "k", b"text", headers={"h": [1]}, content_type="text/plain")
    publish(client, "amq.topic", "k", b"\xff\xfe")
    publish(client, "amq.topic", "k", b"x" * 4000)
    driver.settle()
    text, octets, large = read(service, tap)["events"]
    assert (text["payload"], text["payload_encoding"]) == ("text", "string")
    assert text["properties"] == {"content_type": "text/plain", "headers": {"h": [1]}}
    assert (octets["payload"], octets["payload_encoding"]) == ("//4=", "base64")
    assert (len(large["payload"]), large["body_size"]) == (min(BODY_BYTES, 4000), 4000)
    answer = read(service, tap, after={"node": 7}, limit=1)
    assert len(answer["events"]) == 1
    node = answer["events"][0]["node"]
    assert [event["payload"] for event in read(service, tap, after={node: 0}, limit=1)["events"]] == ["//4="]
    assert read(service, tap, after={node: 2})["events"] == []


def test_so_many_a_second_and_the_rest_is_counted(driver: NodeDriver) -> None:
    driver = NodeDriver(small_config(tail_messages_per_second=50, trace_events_per_second=10, trace_events_kept=10))
    service, client = SystemService(driver), driver.client(1)
    tail, trace = opened(service, "tail"), opened(service, "trace")
    for _ in range(200):
        publish(client, "amq.topic", "k")
    driver.settle()
    found = read(service, tail)
    assert len(found["events"]) == 5  # of a tenth of a second
    assert found["left_out"] + found["unseen"] == 195
    assert len(read(service, trace)["events"]) == 1
    for _ in range(40):
        driver.wait(100)
        publish(client, "amq.topic", "k")
        driver.settle()
    found = read(service, trace)
    assert len(found["events"]) == 10
    assert found["left_out"] >= 31


def test_who_is_not_read_ends(driver: NodeDriver, service: SystemService) -> None:
    tail, trace = opened(service, "tail"), opened(service, "trace", seconds=40)
    for _ in range(3):
        driver.wait(6000)
        read(service, tail)
    assert [tap["kind"] for tap in service.ask("tap.list")["taps"]] == ["tail", "trace"]
    driver.wait(12_000)
    assert [tap["kind"] for tap in service.ask("tap.list")["taps"]] == ["trace"]
    assert service.ask("tap.read", id=tail)["code"] == "not_found"
    driver.wait(12_000)
    assert service.ask("tap.list")["taps"] == []
    assert service.ask("tap.close", id=trace)["code"] == "not_found"
    vhost = driver.node.broker.vhosts["/"]
    assert (vhost.taps, driver.node.store.on_drop) == (None, None)
    assert not any(channel.is_traced for each in driver.clients for channel in each.connection.channels.values())


def test_what_is_not_looked_at_goes_its_short_way(driver: NodeDriver, service: SystemService) -> None:
    client = driver.client(1)
    client.send(1, declare("q"), methods.QueueBind(0, "q", "amq.topic", "#", False, Table({})))
    driver.settle()

    def is_short(exchange: str, key: str) -> bool:
        publish(client, exchange, key)
        driver.settle()
        return client.connection.channels[1].only is not None

    assert is_short("", "q")
    tap = opened(service, exchange="amq.topic")
    assert not is_short("amq.topic", "k")
    assert is_short("", "q")
    assert service.ask("tap.close", id=tap)["ok"]
    assert is_short("amq.topic", "k")
    opened(service)
    assert not is_short("", "q")


def test_publishers_and_consumers_notice_nothing(driver: NodeDriver, service: SystemService) -> None:
    client = driver.client(1, 2)
    client.send(1, declare("q"), methods.ConfirmSelect(False))
    client.send(2, methods.TxSelect(), consume("q"))
    driver.settle()

    def exchange_of_frames() -> list[tuple[str, bytes]]:
        client.take()
        publish(client, "", "q", b"one", mandatory=True)
        publish(client, "amq.topic", "nowhere", b"two", mandatory=True)
        driver.settle()
        tag = next(event.method.delivery_tag for event in client.events if event.method.name == "basic.deliver")
        client.send(2, methods.BasicAck(tag, False), methods.TxCommit())
        driver.settle()
        return [(event.method.name, bytes(event.body or b"")) for event in client.take()]

    before = exchange_of_frames()
    opened(service)
    opened(service, "tail")
    assert exchange_of_frames() == before
    assert driver.queue("q").message_count() == driver.queue("q").unacked_count() == 0


@pytest.mark.parametrize("name", NAMES)
def test_names_of_any_octets(driver: NodeDriver, service: SystemService, name: str) -> None:
    client = driver.client(1)
    client.send(1, declare(name))
    tap = opened(service, exchange="", routing_key=name if "*" not in name else "#", queue=name, message_id=name)
    publish(client, "", name, b"x", message_id=name)
    driver.settle()
    (event,) = read(service, tap)["events"]
    assert (event["routing_key"], event["queues"], event["message_id"]) == (name, [name], name)


def test_who_may_and_how_many(driver: NodeDriver) -> None:
    driver = NodeDriver(small_config(max_taps=2))
    service = SystemService(driver)
    add_user(driver, "looker", "monitoring")
    desk = TaggedDesk(driver)
    assert desk.ask_as("looker", "tap.open", kind="trace", vhost="/")["code"] == "not_authorised"
    first = opened(service)
    opened(service, "tail")
    assert "max_taps" in service.ask("tap.open", kind="tail", vhost="/")["error"]
    assert service.ask("tap.close", id=first)["ok"]
    opened(service)
    for wrong in ({"kind": "x"}, {"seconds": 0}, {"headers": 5}, {"exchange": 5}, {"after": 5, "id": "x"}):
        verb = "tap.read" if "after" in wrong else "tap.open"
        assert service.ask(verb, **{"kind": "tail", "vhost": "/", **wrong})["code"] == "bad_request"
    assert service.ask("tap.open", kind="tail", vhost="no")["code"] == "not_found"
    assert service.ask("tap.read", id="no")["code"] == "not_found"


def test_a_tap_of_a_cluster_sees_all_nodes() -> None:
    cluster = NodeCluster()
    cluster.run_until_ready()
    desk = ClusterDesk(cluster)
    tap = desk.ask("n1", "tap.open", kind="trace", vhost="/")["id"]
    here, there = cluster.nodes["n1"].client(1), cluster.nodes["n2"].client(1)
    here.send(1, declare("q"))
    cluster.run(300)
    there.send(1, consume("q", "far"))
    cluster.run(300)
    publish(here, "", "q", b"x")
    cluster.run(300)
    there.send(1, methods.BasicAck(1, False))
    cluster.run(300)
    found = desk.ask("n3", "tap.read", id=tap)
    assert [(event["node"], event["what"]) for event in found["events"]] == [
        ("n1", "published"), ("n2", "delivered"), ("n2", "acked"),
    ]  # fmt: skip
    assert desk.ask("n1", "tap.read", id=tap, after=found["next"])["events"] == []
    assert desk.ask("n2", "tap.close", id=tap)["ok"]
    assert desk.ask("n1", "tap.read", id=tap)["code"] == "not_found"


def test_what_a_tap_holds_is_bounded_whoever_reads() -> None:
    tap = Tap("1", TAIL, "/", TapFilter(), 1000, 10, 0, 0)
    driver = NodeDriver()
    client = driver.client(1)
    client.send(1, declare("q"))
    publish(client, "", "q", b"x")
    driver.settle()
    message = driver.queue("q").ready.peek().message
    for now in range(100):
        tap.offer(now, "published", message, None, {"queues": []})
    assert (len(tap.read(-1, 1000, 0)), tap.first_number) == (10, 90)
