"""How many queues messages went to, and how large they were: as a simple model counts them."""

from __future__ import annotations

import random
from bisect import bisect_left
from typing import Any

import pytest

from amqp_broker.flow.message_sizes import BOUNDS, CLASSES, bound_of, class_of
from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame
from amqp_broker.protocol.properties import encode_properties
from tests.management.counters import totals
from tests.management.publishing import publish
from tests.node.node_driver import Client, NodeDriver, declare, frame_octets
from tests.node.system_service import SystemService

QUEUES = ("a", "b", "c", "quorum")
PLAIN, CONFIRMING, TRANSACTIONAL = CHANNELS = (1, 2, 3)
KEYS = ("a", "b", "x", "nowhere")
KINDS = ("direct", "fanout", "headers", "later")
SIZES = (0, 99, 100, 101, 1_000, 1_001)


class Model:
    """What is bound to what, and what was counted. births: how often a queue of a name has gone. open: of a channel's
    transaction, by exchange, the queues that get a copy at the commit."""

    def __init__(self, driver: NodeDriver) -> None:
        self.driver = driver
        self.bindings: dict[str, set[tuple[str, str]]] = {kind: set() for kind in KINDS}
        self.queues: set[str] = set()
        self.routed = 0
        self.came: dict[str, int] = dict.fromkeys(("", *KINDS), 0)
        self.went: dict[str, int] = dict.fromkeys(("", *KINDS), 0)
        self.births: dict[str, int] = {}
        self.open: list[tuple[str, set[tuple[str, int]]]] = []
        self.sizes = [0] * CLASSES
        self.client = self._connect()

    def _connect(self) -> Client:
        client = self.driver.client(*CHANNELS)
        client.send(CONFIRMING, methods.ConfirmSelect(False))
        client.send(TRANSACTIONAL, methods.TxSelect())
        self.driver.settle()
        return client

    def copies(
        self, exchange: str, key: str, has_header: bool, more_keys: tuple[str, ...]
    ) -> set[tuple[str, int]]:
        """The queues to which a message goes; none of those that are held back."""
        return self._there() & {
            (queue, self.births.get(queue, 0)) for queue in self._names(exchange, key, has_header, more_keys)
        }

    def _there(self) -> set[tuple[str, int]]:
        return {(queue, self.births.get(queue, 0)) for queue in self.queues}

    def _names(self, exchange: str, key: str, has_header: bool, more_keys: tuple[str, ...]) -> set[str]:
        keys = {key, *more_keys}
        if not exchange:
            return keys
        if exchange == "later":
            return set()
        takes_all = exchange == "fanout" or (exchange == "headers" and has_header)
        return {
            queue for queue, bound in self.bindings[exchange] if takes_all or (exchange == "direct" and bound in keys)
        }  # fmt: skip

    # -- what may happen ---------------------------------------------------------------------------------------------

    def publish(self, chance: random.Random) -> None:
        channel, exchange = chance.choice(CHANNELS), chance.choice(("", *KINDS))
        key, has_header, size = chance.choice((*KEYS, "quorum")), chance.random() < 0.5, chance.choice(SIZES)
        more_keys = ("b", "c") if chance.random() < 0.2 else ()
        headers: dict[str, Any] = {"kind": 1} if has_header else {}
        if more_keys:
            headers["CC"] = list(more_keys)
        if exchange == "later":
            headers["x-delay"] = 100_000
        for _ in range(chance.choice((1, 1, 3))):
            publish(
                self.client, exchange, key, b"x" * size, channel=channel, mandatory=chance.random() < 0.3,
                **({"headers": Table(headers)} if headers else {}),
            )  # fmt: skip
            self.came[exchange] += 1
            self.sizes[bisect_left(BOUNDS, size)] += 1
            copies = self.copies(exchange, key, has_header, more_keys)
            if channel == TRANSACTIONAL:
                self.open.append((exchange, copies))
            else:
                self._route(exchange, len(copies))

    def _route(self, exchange: str, copies: int) -> None:
        self.routed += copies
        self.went[exchange] += copies

    def commit(self, chance: random.Random) -> None:
        self.client.send(TRANSACTIONAL, methods.TxCommit())
        self.driver.settle()
        for exchange, copies in self.open:
            self._route(exchange, len(copies & self._there()))
        self.open.clear()

    def roll_back(self, chance: random.Random) -> None:
        self.client.send(TRANSACTIONAL, methods.TxRollback())
        self.open.clear()

    def bind(self, chance: random.Random) -> None:
        if self.queues:
            kind, queue, key = chance.choice(KINDS), chance.choice(sorted(self.queues)), chance.choice(KEYS)
            arguments = Table({"x-match": "any", "kind": 1} if kind == "headers" else {})
            self.client.send(PLAIN, methods.QueueBind(0, queue, kind, key, False, arguments))
            self.bindings[kind].add((queue, key))

    def unbind(self, chance: random.Random) -> None:
        kind = chance.choice(KINDS)
        if self.bindings[kind]:
            queue, key = chance.choice(sorted(self.bindings[kind]))
            arguments = Table({"x-match": "any", "kind": 1} if kind == "headers" else {})
            self.client.send(PLAIN, methods.QueueUnbind(0, queue, kind, key, arguments))
            self.bindings[kind].discard((queue, key))

    def declare(self, chance: random.Random) -> None:
        name = chance.choice(QUEUES)
        self.client.send(PLAIN, declare(name, **({"x_queue_type": "quorum"} if name == "quorum" else {})))
        self.queues.add(name)

    def delete(self, chance: random.Random) -> None:
        name = chance.choice(QUEUES)
        self.client.send(PLAIN, methods.QueueDelete(0, name, False, False, False))
        self.queues.discard(name)
        self.births[name] = self.births.get(name, 0) + 1
        for bindings in self.bindings.values():
            bindings -= {each for each in bindings if each[0] == name}

    def leave(self, chance: random.Random) -> None:
        self.driver.lose(self.client)
        self.open.clear()
        self.client = self._connect()


def set_up(model: Model) -> None:
    for kind in ("direct", "fanout", "headers"):
        model.client.send(PLAIN, methods.ExchangeDeclare(exchange=kind, type=kind))
    later = Table({"x-delayed-type": "fanout"})
    model.client.send(PLAIN, methods.ExchangeDeclare(exchange="later", type="x-delayed-message", arguments=later))
    model.driver.settle()


def exchange(service: SystemService, name: str) -> tuple[int, int]:
    found = service.ask("object", kind="exchanges", vhost="/", name=name)["object"]
    return found["publish_in"], found["publish_out"]


@pytest.mark.parametrize("seed", range(6))
def test_what_was_routed_is_what_a_model_says(driver: NodeDriver, service: SystemService, seed: int) -> None:
    chance = random.Random(seed)
    model = Model(driver)
    set_up(model)
    steps = [model.publish] * 12 + [model.declare, model.bind] * 3
    steps += [model.commit, model.commit, model.roll_back, model.unbind, model.delete, model.leave]
    before = totals(driver, service)
    for number in range(150):
        chance.choice(steps)(chance)
        driver.settle()
        if number % 50 == 49:
            found = totals(driver, service)
            assert found["routed"] - before["routed"] == model.routed, number
            for name in ("", *KINDS):
                assert exchange(service, name) == (model.came[name], model.went[name]), (number, name)
            sizes = [now - was for now, was in zip(found["message_sizes"], before["message_sizes"], strict=True)]
            assert sizes[1:] == model.sizes[1:]
    assert model.routed > 20
    assert "channel.close" not in model.client.names()


def test_the_class_of_a_size_is_that_of_its_bound() -> None:
    sizes = [bound + more for bound in (0, *BOUNDS) for more in (0, 1, 2)] + [1 << 40]
    assert [class_of(size) for size in sizes] == [bisect_left(BOUNDS, size) for size in sizes]
    assert [bound_of(number) for number in range(CLASSES - 1)] == list(BOUNDS)
    assert bound_of(CLASSES - 1) > 1 << 40


@pytest.mark.parametrize(
    ("section", "is_message"),
    [
        (encode_properties({"delivery_mode": 1}), True),
        (b"\x20\x00" + (9999).to_bytes(4, "big") + bytes(8), False),  # headers that end behind their frame
        (b"\x80\x00" + b"\xff" + bytes(8), False),  # a content type that does
    ],
)
def test_what_is_no_message_has_no_size(
    driver: NodeDriver, service: SystemService, section: bytes, is_message: bool
) -> None:
    before = totals(driver, service)["publish_oct"]
    client = driver.client(1)
    octets = encode_method_frame(1, methods.BasicPublish(0, "", "q", False, False))
    header = b"\x00\x3c\x00\x00" + (3000).to_bytes(8, "big") + section
    client.send_octets(octets + frame_octets(2, 1, header) + frame_octets(3, 1, bytes(3000)))
    driver.settle()
    assert (totals(driver, service)["publish_oct"] - before >= 3000) == is_message
    assert ("connection.close" in client.names()) != is_message
