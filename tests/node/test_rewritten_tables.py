"""What a header holds keeps its type, its octets and its place wherever the broker writes a table anew: only what it
means to change changes."""

from __future__ import annotations

import json
import random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amqp_broker.management.definitions.arguments import describe_arguments, read_arguments
from amqp_broker.protocol import grammar, methods
from amqp_broker.protocol.fields import Table, decode_table
from amqp_broker.protocol.frames import encode_method_frame
from amqp_broker.protocol.properties import encode_properties, read_property
from tests.example_counts import examples
from tests.node.node_driver import Client, NodeDriver, consume, declare, frame_octets, small_config
from tests.protocol.protocol_strategies import LEAVES, TABLES

MANY = settings(deadline=None, max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])
TOP_LEVEL = {f"x-{which}-death-{name}" for which in ("first", "last") for name in ("reason", "queue", "exchange")}
OURS = {"CC", "BCC", "x-death", "x-delivery-count", "x-delay"} | TOP_LEVEL
Fields = list[dict[str, Any]]

THEIRS = TABLES.map(lambda fields: [field for field in fields if field["key"] not in OURS])
DEATHS = st.lists(LEAVES | st.builds(lambda fields: {"kind": b"F", "value": fields}, TABLES), max_size=4)


def longstr(text: str) -> dict[str, Any]:
    return {"kind": b"S", "value": text.encode()}


def fields_of(raw: bytes) -> Fields:
    """A table as the grammar reads it: key, type letter and value of each field, in order."""
    return [plain(each) for each in grammar.TableContents.parse(raw)]


def plain(parsed: Any) -> Any:
    """Without what construct adds."""
    if isinstance(parsed, dict):
        return {key: plain(value) for key, value in parsed.items() if not key.startswith("_")}
    return [plain(each) for each in parsed] if isinstance(parsed, list) else parsed


def rest_of(fields: Fields) -> Fields:
    return [field for field in fields if field["key"] not in OURS]


def with_longs(fields: Any) -> Any:
    """The same with l for L: the only thing that the broker writes otherwise wherever it stands."""
    if isinstance(fields, list):
        return [with_longs(each) for each in fields]
    if not isinstance(fields, dict):
        return fields
    changed = {key: with_longs(value) for key, value in fields.items()}
    return {**changed, "kind": b"l"} if changed.get("kind") == b"L" else changed


def octets_of(fields: Fields) -> bytes:
    return bytes(grammar.TableContents.build(fields))


def published(fields: Fields, exchange: str, key: str, **properties: object) -> bytes:
    section = encode_properties({**properties, "headers": Table({}, octets_of(fields))})
    return b"".join(
        (
            encode_method_frame(1, methods.BasicPublish(0, exchange, key, False, False)),
            frame_octets(2, 1, b"\x00\x3c\x00\x00" + (4).to_bytes(8, "big") + section),
            frame_octets(3, 1, b"body"),
        )
    )


def rejected(driver: NodeDriver, client: Client, queue: str, *, requeue: bool = False) -> None:
    """The one message of a queue is fetched and refused."""
    client.send(1, methods.BasicGet(0, queue, False))
    driver.settle()
    tags = [event.method.delivery_tag for event in client.take() if event.method.name == "basic.get-ok"]
    client.send(1, methods.BasicReject(tags[0], requeue))
    driver.settle()


def fetched(driver: NodeDriver, client: Client, queue: str) -> Fields:
    """The headers of the one message of a queue, which is gone then."""
    client.send(1, methods.BasicGet(0, queue, True))
    driver.settle()
    sections = [event.properties for event in client.take() if event.method.name == "basic.get-ok"]
    assert len(sections) == 1
    headers = read_property(sections[0], "headers")
    assert isinstance(headers, Table)
    return fields_of(headers.raw)


def value_of(fields: Fields, key: str) -> Any:
    [field] = [field["field"] for field in fields if field["key"] == key]
    return field["kind"], field["value"]


def started(*said: Any) -> tuple[NodeDriver, Client]:
    driver = NodeDriver()
    client = driver.client(1)
    client.send(1, *said)
    driver.settle()
    client.take()
    return driver, client


def letter_box(name: str, to: str, **arguments: Any) -> Any:
    return declare(name, x_dead_letter_exchange="", x_dead_letter_routing_key=to, **arguments)


def test_every_type_letter_is_tried() -> None:
    """The strategy and the program know the same ones."""
    seen = set()

    def note(value: Any) -> None:
        seen.add(value["kind"].decode())

    given(LEAVES)(settings(max_examples=500, derandomize=True)(note))()  # all of them: a part need not see each
    assert seen >= set("tbBsuIilLfdDSxTV")


def test_a_dead_letter_and_its_letters() -> None:
    """Three deaths in two queues: the second one changes an entry that is there, the third leaves one as it is."""
    driver, client = started(letter_box("one", "two"), letter_box("two", "one"))

    @MANY
    @given(THEIRS)
    def check(fields: Fields) -> None:
        client.send_octets(published(fields, "", "one"))
        driver.settle()
        for queue in ("one", "two", "one"):
            rejected(driver, client, queue)
        found = fetched(driver, client, "two")
        assert rest_of(found) == with_longs(fields)
        kind, deaths = value_of(found, "x-death")
        assert kind == b"A"
        kinds = [[(f["key"], f["field"]["kind"]) for f in death["value"]] for death in deaths]
        names = {"count": b"l", "reason": b"S", "queue": b"S", "time": b"T", "exchange": b"S", "routing-keys": b"A"}
        assert kinds == [list(names.items())] * 2
        counts = [{f["key"]: f["field"]["value"] for f in death["value"]} for death in deaths]
        assert [(each["queue"], each["count"]) for each in counts] == [(b"one", 2), (b"two", 1)]
        assert value_of(found, "x-first-death-queue") == (b"S", b"one")
        assert value_of(found, "x-last-death-queue") == (b"S", b"one")

    check()


def test_an_x_death_that_a_publisher_has_set() -> None:
    """Whatever it is, the letter comes; what is an array goes on behind the new death, as it is."""
    driver, client = started(letter_box("one", "two"), declare("two"))

    @MANY
    @given(THEIRS, st.builds(lambda items: {"kind": b"A", "value": items}, DEATHS) | LEAVES, THEIRS)
    def check(before: Fields, deaths: dict[str, Any], after: Fields) -> None:
        fields = [*before, {"key": "x-death", "field": deaths}, *after]
        client.send_octets(published(fields, "", "one"))
        driver.settle()
        rejected(driver, client, "one")
        found = fetched(driver, client, "two")
        assert rest_of(found) == with_longs([*before, *after])
        assert [field["key"] for field in found].index("x-death") == len(before)
        _, history = value_of(found, "x-death")
        assert history[1:] == (with_longs(deaths["value"]) if deaths["kind"] == b"A" else [])

    check()


def test_a_count_of_any_type_goes_on_as_a_long() -> None:
    """3.13 adds one to whatever integer is there."""
    driver, client = started(letter_box("one", "two"), declare("two"))
    own = [{"key": "queue", "field": longstr("one")}, {"key": "reason", "field": longstr("rejected")}]
    top = (1 << 63) - 1
    cases: list[tuple[bytes, Any, int]] = [
        *((kind.encode(), 7, 8) for kind in "bBsuIilL"),
        *((b"l", top, top), (b"b", -1, 0), (b"S", b"7", 1), (b"V", None, 1)),
    ]
    for kind, value, expected in cases:
        count = {"key": "count", "field": {"kind": kind, "value": value}}
        other = {"key": "mine", "field": {"kind": b"u", "value": 5}}
        entry = {"kind": b"F", "value": [own[0], other, count, own[1]]}
        again = {"kind": b"F", "value": [*own, count]}
        fields = [{"key": "x-death", "field": {"kind": b"A", "value": [longstr("odd"), entry, again]}}]
        client.send_octets(published(fields, "", "one"))
        driver.settle()
        rejected(driver, client, "one")
        _, history = value_of(fetched(driver, client, "two"), "x-death")
        assert len(history) == 2
        assert history[1] == longstr("odd")
        values = {field["key"]: (field["field"]["kind"], field["field"]["value"]) for field in history[0]["value"]}
        assert values["count"] == (b"l", expected)
        assert values["mine"] == (b"u", 5)
    unknown = [{"key": "x-death", "field": {"kind": b"A", "value": [{"kind": b"F", "value": own}]}}]
    client.send_octets(published(unknown, "", "one"))
    driver.settle()
    rejected(driver, client, "one")
    _, [first] = value_of(fetched(driver, client, "two"), "x-death")
    assert first["value"] == [{"key": "count", "field": {"kind": b"l", "value": 1}}, *own]


def test_the_first_death_is_that_of_the_history() -> None:
    """Without an x-death the header is a leftover, and the first death is this one."""
    driver, client = started(letter_box("one", "two"), declare("two"))
    leftover = {"key": "x-first-death-queue", "field": longstr("another")}
    history = {"key": "x-death", "field": {"kind": b"A", "value": []}}
    for fields, expected in (([leftover], b"one"), ([leftover, history], b"another")):
        client.send_octets(published(fields, "", "one"))
        driver.settle()
        rejected(driver, client, "one")
        found = fetched(driver, client, "two")
        assert value_of(found, "x-first-death-queue") == (b"S", expected)
        assert value_of(found, "x-last-death-queue") == (b"S", b"one")
        assert value_of(found, "x-first-death-reason") == (b"S", b"rejected")


def test_an_x_death_does_not_grow_for_ever() -> None:
    """The oldest deaths are left out, the newest never."""
    limit = 1000
    driver = NodeDriver(small_config(max_death_history_bytes=limit))
    client = driver.client(1)
    client.send(1, letter_box("one", "two"), declare("two"))
    driver.settle()
    entry = {"kind": b"F", "value": [{"key": "n", "field": {"kind": b"x", "value": bytes(88)}}]}
    history = {"kind": b"A", "value": [longstr("newer"), *[entry] * 20, longstr("older")]}
    client.send_octets(published([{"key": "x-death", "field": history}], "", "one"))
    driver.settle()
    rejected(driver, client, "one")
    _, deaths = value_of(fetched(driver, client, "two"), "x-death")
    assert deaths[1] == longstr("newer")
    assert deaths[-1] == entry
    newest = len(octets_of([{"key": "", "field": {"kind": b"A", "value": deaths[:1]}}]))
    assert 2 < len(deaths) < 11
    assert limit - 100 < newest + 100 * (len(deaths) - 2) < limit + 100


def test_a_blind_copy() -> None:
    """BCC is taken out; it routes."""
    driver, client = started(declare("one"), declare("hidden"))

    @MANY
    @given(THEIRS, THEIRS)
    def check(before: Fields, after: Fields) -> None:
        blind = {"key": "BCC", "field": {"kind": b"A", "value": [longstr("hidden")]}}
        client.send_octets(published([*before, blind, *after], "", "one"))
        driver.settle()
        for queue in ("one", "hidden"):
            assert fetched(driver, client, queue) == with_longs([*before, *after])

    check()


def test_a_reply_address() -> None:
    """The property reply-to is another; the headers are not touched."""
    driver, client = started(declare("one"), consume("amq.rabbitmq.reply-to", "replies", no_ack=True))

    @MANY
    @given(THEIRS)
    def check(fields: Fields) -> None:
        client.send_octets(published(fields, "", "one", reply_to="amq.rabbitmq.reply-to"))
        driver.settle()
        assert fetched(driver, client, "one") == with_longs(fields)

    check()


def test_a_delivery_count() -> None:
    """It is a long, in the place of one that the publisher has set."""
    driver, client = started(declare("one", x_delivery_limit=5))

    @MANY
    @given(THEIRS, st.lists(LEAVES, max_size=1), THEIRS)
    def check(before: Fields, faked: list[Any], after: Fields) -> None:
        count = [{"key": "x-delivery-count", "field": each} for each in faked]
        client.send_octets(published([*before, *count, *after], "", "one"))
        driver.settle()
        rejected(driver, client, "one", requeue=True)
        found = fetched(driver, client, "one")
        assert rest_of(found) == with_longs([*before, *after])
        assert value_of(found, "x-delivery-count") == (b"l", 1)
        if count:
            assert [field["key"] for field in found].index("x-delivery-count") == len(before)

    check()


def test_a_message_that_was_held_back() -> None:
    """All but x-delay, which says that it has waited."""
    kind = Table({"x-delayed-type": "fanout"})
    later = methods.ExchangeDeclare(0, "later", "x-delayed-message", False, True, False, False, False, kind)
    driver, client = started(declare("one"), later, methods.QueueBind(0, "one", "later", "", False, Table({})))

    @MANY
    @given(THEIRS, st.sampled_from("bBsuIilL"))
    def check(fields: Fields, kind: str) -> None:
        delay = {"key": "x-delay", "field": {"kind": kind.encode(), "value": 5}}
        client.send_octets(published([delay, *fields], "later", ""))
        driver.wait(10)
        waited = {"key": "x-delay", "field": {"kind": b"I", "value": -5}}
        assert fetched(driver, client, "one") == with_longs([waited, *fields])

    check()


def test_a_capital_l_arrives_as_an_l() -> None:
    """Whatever becomes of the message, and of the arguments that have one: stock clients but py-amqp do not know L."""
    capital = {"key": "ts", "field": {"kind": b"L", "value": 1_700_000_000_000}}
    arguments = octets_of([{"key": "x-message-ttl", "field": {"kind": b"L", "value": 60_000}}])
    again = Table({"x-message-ttl": 60_000})
    driver, client = started(
        methods.QueueDeclare(0, "one", False, True, False, False, False, decode_table(arguments)),
        methods.QueueDeclare(0, "one", False, True, False, False, False, again),
    )
    nested = {"key": "deep", "field": {"kind": b"A", "value": [{"kind": b"F", "value": [capital]}, capital["field"]]}}
    client.send_octets(published([capital, nested], "", "one"))
    driver.settle()
    assert fetched(driver, client, "one") == with_longs([capital, nested])
    client.send(1, methods.TxSelect())
    client.send_octets(published([capital], "", "one"))
    client.send(1, methods.TxCommit())
    driver.settle()
    assert fetched(driver, client, "one") == with_longs([capital])


@MANY
@given(TABLES)
def test_the_arguments_of_definitions(fields: Fields) -> None:
    """Through JSON and back."""
    names = [field["key"] for field in fields]
    raw = octets_of([field for index, field in enumerate(fields) if field["key"] not in names[:index]])
    described = json.loads(json.dumps(describe_arguments(raw)))
    assert read_arguments(described["arguments"], described.get("arguments_raw")).raw == raw


def test_the_arguments_of_what_is_declared() -> None:
    """Over a restart, as they were sent."""
    driver = NodeDriver()
    client = driver.client(1)
    rng = random.Random(5)
    tables: list[bytes] = []

    @settings(deadline=None, max_examples=examples(40), derandomize=True)
    @given(TABLES)
    def collect(fields: Fields) -> None:
        theirs = [{**field, "key": f"my-{field['key']}"[:60]} for field in fields]
        raw = octets_of(theirs)
        decode_table(raw)
        tables.append(raw)

    collect()
    rng.shuffle(tables)
    for number, raw in enumerate(tables):
        client.send(
            1,
            methods.QueueDeclare(0, f"q{number}", False, True, False, False, False, Table(decode_table(raw), raw)),
            methods.QueueBind(0, f"q{number}", "amq.headers", f"{number}", False, Table(decode_table(raw), raw)),
        )
        driver.settle()
    driver.crash()
    metadata = driver.node.broker.metadata
    for number, raw in enumerate(tables):
        assert metadata.queue("/", f"q{number}").arguments_raw == raw
