"""Totals and counters of queues: they are right, and never fall."""

from __future__ import annotations

from typing import Any

from amqp_broker.management.totals import FRESH_MS, MOST_FRESH_MS, fresh_ms
from amqp_broker.protocol import methods
from amqp_broker.protocol.frames import encode_method_frame
from amqp_broker.web.rates import SAMPLE_EVERY_S
from queues.background import Unhurried
from tests.management.counters import fallen, publish_mandatory, totals
from tests.node.node_driver import NodeDriver, consume, declare
from tests.node.one_slice import OneSlice
from tests.node.system_service import SystemService


def row(service: SystemService, name: str) -> dict[str, Any]:
    found: dict[str, Any] = service.ask("object", kind="queues", vhost="/", name=name)["object"]
    return found


def test_what_is_done_with_a_queue_is_counted_by_what_it_is(driver: NodeDriver, service: SystemService) -> None:
    client = driver.client(1, 2)
    client.send(1, declare("q"))
    for number in range(8):
        client.publish(1, "q", b"%d" % number)
    client.send(1, methods.BasicGet(0, "q", True), methods.BasicGet(0, "q", False))
    driver.settle()
    client.send(1, methods.BasicAck(2, False))
    client.send(1, methods.BasicQos(0, 2, False), consume("q", "held"))
    driver.settle()
    client.send(1, methods.BasicAck(3, False))
    client.send(1, methods.BasicReject(4, False))
    client.send(1, methods.BasicCancel("held", False), methods.BasicReject(5, True), methods.BasicReject(6, True))
    client.send(2, consume("q", "free", no_ack=True))
    driver.settle()
    client.send(1, methods.BasicGet(0, "q", True))
    driver.settle()
    found = row(service, "q")
    assert {name: found[name] for name in ("publish", "get", "get_no_ack", "get_empty", "rejected")} == {
        "publish": 8, "get": 1, "get_no_ack": 1, "get_empty": 1, "rejected": 1,
    }  # fmt: skip
    # Four to the one who held, of whom two came back; they and the last two to the other.
    assert (found["deliver"], found["deliver_no_ack"], found["redeliver"], found["ack"]) == (4, 4, 2, 2)
    sums = totals(driver, service)
    for name in ("get", "get_no_ack", "get_empty", "rejected", "deliver", "deliver_no_ack", "redeliver", "ack"):
        assert sums[name] == found[name], name
    assert sums["queue_publish"] == 8


def test_purged_expired_and_dropped_messages_were_not_acknowledged(driver: NodeDriver, service: SystemService) -> None:
    client = driver.client(1)
    client.send(1, declare("long", x_max_length=2), declare("short", x_message_ttl=10), declare("purged"))
    client.send(1, declare("letters", x_dead_letter_exchange="", x_dead_letter_routing_key="purged", x_max_length=1))
    for _ in range(5):
        for name in ("long", "short", "purged", "letters"):
            client.publish(1, name, b"x")
    driver.settle()
    driver.wait(20)
    client.send(1, methods.QueuePurge(0, "purged", False))
    driver.settle()
    assert (row(service, "long")["maxlen_dropped"], row(service, "short")["expired"]) == (3, 5)
    assert row(service, "letters")["maxlen_dropped"] == 4
    assert row(service, "purged")["publish"] == 9
    assert [row(service, name)["ack"] for name in ("long", "short", "purged", "letters")] == [0, 0, 0, 0]


def test_no_counter_falls_when_things_go_and_come_again(driver: NodeDriver, service: SystemService) -> None:
    known = totals(driver, service)
    for number in range(6):
        client = driver.client(1, 2)
        client.send(1, methods.ConfirmSelect(False))
        client.send(1, declare("q", durable=False), declare(f"q{number}"), consume("q", "t", no_ack=True))
        for _ in range(3):
            client.publish(1, "q", b"x")
            client.publish(2, f"q{number}", b"x")
        client.send(2, methods.BasicGet(0, f"q{number}", True))
        publish_mandatory(driver, client, "nowhere")
        driver.settle()
        steps: list[Any] = [
            lambda client=client: client.send(1, methods.QueueDelete(0, "q", False, False, False)),
            lambda client=client: client.send(2, methods.ChannelClose(200, "", 0, 0)),
            lambda client=client: driver.lose(client),
        ]
        for step in [lambda: None, *steps]:
            step()
            driver.settle()
            found = totals(driver, service)
            assert not fallen(found, known), number
            known = found
    assert (known["queue_publish"], known["deliver_no_ack"], known["get_no_ack"]) == (36, 18, 6)
    assert (known["return_unroutable"], known["drop_unroutable"]) == (6, 0)
    assert (known["queue_declared"], known["queue_created"], known["queue_deleted"]) == (12, 12, 6)
    assert (known["connection_created"], known["connection_closed"]) == (7, 6)
    assert (known["channel_created"], known["channel_closed"]) == (13, 12)
    assert (known["connections"], known["channels"], known["queues"], known["messages_ready"]) == (1, 1, 6, 12)
    # What was published to queues, what was returned, and the requests themselves.
    assert known["confirm"] == 6 * 4
    assert known["publish"] >= 36 + 6


def test_a_walk_over_many_queues_is_made_less_often(driver: NodeDriver, service: SystemService) -> None:
    """However many there are, who asks again and again costs the node a fraction of a percent."""
    assert [fresh_ms(queues) for queues in (0, 4_000, 10_000, 1_000_000)] == [FRESH_MS, 1000, 2500, MOST_FRESH_MS]
    assert MOST_FRESH_MS < 1000 * SAMPLE_EVERY_S, "each reading for the history is another one"
    first = totals(driver, service)
    driver.wait(FRESH_MS // 2)
    again = service.ask("totals")
    assert (again["age_ms"], again["at"]) == (first["age_ms"] + FRESH_MS // 2, first["at"])
    driver.wait(FRESH_MS)
    assert service.ask("totals")["age_ms"] < FRESH_MS // 2


def test_no_counter_falls_when_a_queue_goes_during_the_walk(driver: NodeDriver, service: SystemService) -> None:
    client = driver.client(1)
    for start in range(0, 300, 100):
        client.send(1, *[declare(f"q{number:03}", durable=False) for number in range(start, start + 100)])
    driver.settle()
    for number in range(300):
        client.publish(1, f"q{number:03}", b"x", persistent=False)
    driver.settle()
    before = totals(driver, service)
    assert before["queue_publish"] == 300
    driver.wait(FRESH_MS)
    driver.node.background.set_pace(OneSlice())
    service.send("totals", b"{}")
    driver.turn()
    for name in ("q000", "q299"):
        client.send(1, methods.QueueDelete(0, name, False, False, False))
    answers: list[dict[str, Any]] = []
    while not answers:
        driver.turn()
        answers = service.answers()
    (found,) = answers
    assert not fallen(found, before)
    driver.node.background.set_pace(Unhurried())
    assert totals(driver, service)["queue_publish"] == 300


def test_octets_are_counted(driver: NodeDriver, service: SystemService) -> None:
    client = driver.client(1)
    before = len(client.heard)
    octets = encode_method_frame(1, declare("q"))
    counts = client.connection
    received, sent = counts.received_bytes, counts.sent_bytes
    client.send_octets(octets[:5])
    client.send_octets(octets[5:])
    driver.settle()
    assert counts.received_bytes - received == len(octets)
    assert counts.sent_bytes - sent == len(client.heard) - before
    known = totals(driver, service)
    driver.lose(client)
    found = totals(driver, service)
    assert found["recv_oct"] >= known["recv_oct"]
    assert found["send_oct"] >= known["send_oct"]


def test_the_answer_is_kept_for_a_second(driver: NodeDriver, service: SystemService) -> None:
    first = service.ask("totals")
    service.client.send(1, declare("q"))
    driver.settle()
    service.client.take()
    assert service.ask("totals") == first
    assert totals(driver, service)["queues"] == first["queues"] + 1


def test_each_type_of_queue_has_its_counters(driver: NodeDriver, service: SystemService) -> None:
    client = driver.client(1, 2)
    letters = {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": "classic"}
    client.send(1, declare("classic"), declare("quorum", x_queue_type="quorum", **letters))
    client.send(1, declare("short", x_max_length=1, **letters))
    client.send(2, methods.ConfirmSelect(False))
    driver.settle()
    for _ in range(3):
        client.publish(1, "quorum", b"x")
    client.publish(2, "short", b"x" * 101)
    client.publish(2, "short", b"x" * 100_000)
    driver.settle()
    client.send(1, methods.BasicGet(0, "quorum", False), methods.BasicGet(0, "classic", True))
    driver.settle()
    client.send(1, methods.BasicReject(1, False))
    driver.settle()
    found = totals(driver, service)
    classic, quorum = found["by_type"]["classic"], found["by_type"]["quorum"]
    assert (quorum["get"], quorum["get_no_ack"], classic["get"], classic["get_no_ack"]) == (1, 0, 0, 1)
    assert (classic["dead_lettered_maxlen"], quorum["dead_lettered_rejected"]) == (1, 1)
    assert (found["get"], found["get_no_ack"]) == (1, 1)
    assert found["publish_confirm"] == 2
    assert found["message_sizes"] == [3, 1, 0, 1, 0, 0, 0, 0, 0]
    assert (found["publish"], found["publish_oct"]) == (5, 3 + 101 + 100_000)
    assert found["routed"] == 5
    assert found["publishers"] == 2


def test_connections_with_many_channels_are_added_up_in_slices(driver: NodeDriver, service: SystemService) -> None:
    each = 100  # more is not negotiated
    clients = [driver.client(*range(1, each + 1)) for _ in range(2)]
    clients[0].publish(each, "nowhere", b"x")
    driver.settle()
    steps = driver.node.system._totals._add_channels()
    slices = 1
    while True:
        try:
            next(steps)
        except StopIteration as end:
            counted, publishers = end.value
            break
        slices += 1
    assert (counted["publish"], publishers) == (1, 1)
    assert slices > len(clients) * each / 64


def test_who_asks_the_broker_itself_sends_no_messages(driver: NodeDriver, service: SystemService) -> None:
    """An idle node that is looked at shows nothing; what the same channel publishes to queues counts."""
    counted = ("publish", "routed", "deliver_get", "publish_oct", "publishers")
    for _ in range(3):
        service.ask("whoami", padding="x" * 5000)
        found = totals(driver, service)
    assert [found[name] for name in counted] == [0] * len(counted)
    assert not any(found["message_sizes"])
    client = service.client
    client.send(1, declare("q"))
    client.publish(1, "q", b"123")
    driver.settle()
    client.take()
    client.send(1, methods.TxSelect())
    driver.settle()
    client.take()
    service.send("whoami", b"{}")
    client.publish(1, "q", b"45")
    client.send(1, methods.TxCommit())
    driver.settle()
    client.take()
    other = SystemService(driver)
    found = totals(driver, other)
    assert [found[name] for name in counted] == [2, 2, 0, 5, 1]
    rows = other.ask("objects.page", kind="channels", columns=["publish", "deliver_no_ack", "deliver_get", "number"])
    values = [dict(zip(rows["columns"], row, strict=True)) for row in rows["rows"]]
    assert sorted((each["publish"], each["deliver_no_ack"], each["deliver_get"]) for each in values) == [
        (0, 0, 0), (2, 0, 0),
    ]  # fmt: skip


def test_they_count_as_little_when_their_channel_is_closed(driver: NodeDriver, service: SystemService) -> None:
    asking = SystemService(driver)
    asking.client.send(1, methods.ConfirmSelect(False))
    driver.settle()
    asking.client.take()
    for _ in range(3):
        asking.send("whoami", b"{}")
        driver.settle()
    before = totals(driver, service)
    asking.client.send(1, methods.ChannelClose(200, "", 0, 0))
    driver.settle()
    after = totals(driver, service)
    for found in (before, after):
        assert (found["publish"], found["routed"], found["deliver_get"], found["publish_oct"]) == (0, 0, 0, 0)
