"""What the model must know, where a seed has shown that it did not."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from amqp_broker.protocol import methods
from tests.simulation.client import Event, Operation
from tests.simulation.model import Model
from tests.simulation.observer import Observer
from tests.simulation.settings import QueueSpec
from tests.simulation.state import GONE, READY, Incarnation, ModelChannel, Published, Violation


@pytest.mark.parametrize(("first", "state"), [("close_channel", GONE), ("purge", READY)])
def test_a_channels_end_and_a_purge_in_the_turn_of_a_delivery(first: str, state: str) -> None:
    """Seed 319. Which of the two came first was taken for unknown, so that the message was maybe there; and the confirm
    behind them, which only says that the queue had room for it, was taken for word that it was."""
    spec = QueueSpec("full", True, {"x-max-length": 8, "x-overflow": "reject-publish"})
    model = Model({spec.name: spec})
    observer = Observer(model)
    queue = model.live[spec.name] = Incarnation(spec, model.turn)
    client = SimpleNamespace(channels={}, consumers={})
    publisher, reader = (client.channels.setdefault(number, ModelChannel(client, number)) for number in (1, 2))
    message = Published(1, b"1:", b"\0\0", is_persistent=True, priority=0, ttl=None)
    published = {"message": message, "exchange": "", "key": spec.name, "mandatory": False}
    model.apply(Operation("confirm_select", publisher, {}))
    model.apply(Operation("publish", publisher, published))
    observer.end_turn(False)

    work = {
        "close_channel": Operation("close_channel", reader, {}),
        "purge": Operation("purge", publisher, {"name": spec.name}),
    }
    model.apply(Operation("consume", reader, {"name": spec.name, "tag": "tag", "no_ack": False}))
    model.apply(work.pop(first))
    model.apply(*work.values())
    observer.observe(client, Event(2, methods.BasicConsumeOk("tag")))
    observer.observe(client, Event(2, methods.BasicDeliver("tag", 1, False, "", spec.name), b"\0\0", b"1:"))
    observer.end_turn(False)
    copy = queue.copies[1, ""]
    assert (copy.state, copy.is_maybe) == (state, False)

    model.durable_turn = model.turn
    observer.observe(client, Event(1, methods.BasicAck(1, False)))
    observer.end_turn(False)
    assert (copy.state, copy.is_maybe) == (state, False)


@pytest.mark.parametrize("count", [1, 2])
def test_a_purge_finds_what_an_earlier_one_has_spared(count: int) -> None:
    """Seed 3112. A message was delivered, spared by a purge, given back, and purged, all in one turn: the model had
    taken it for gone with the first purge, and refused the count of the second."""
    spec = QueueSpec("plain", True)
    model = Model({spec.name: spec})
    observer = Observer(model)
    queue = model.live[spec.name] = Incarnation(spec, model.turn)
    client = SimpleNamespace(channels={}, consumers={})
    publisher, reader = (client.channels.setdefault(number, ModelChannel(client, number)) for number in (1, 2))
    message = Published(1, b"1:", b"\0\0", is_persistent=True, priority=0, ttl=None)
    published = {"message": message, "exchange": "", "key": spec.name, "mandatory": False}
    model.apply(Operation("publish", publisher, published))
    observer.end_turn(False)

    model.apply(Operation("consume", reader, {"name": spec.name, "tag": "tag", "no_ack": False}))
    model.apply(Operation("purge", publisher, {"name": spec.name}))
    model.apply(Operation("close_channel", reader, {}))
    model.apply(Operation("purge", publisher, {"name": spec.name}))
    observer.observe(client, Event(2, methods.BasicConsumeOk("tag")))
    observer.observe(client, Event(2, methods.BasicDeliver("tag", 1, False, "", spec.name), b"\0\0", b"1:"))
    observer.observe(client, Event(1, methods.QueuePurgeOk(0)))
    observer.observe(client, Event(1, methods.QueuePurgeOk(count)))
    if count > 1:
        with pytest.raises(Violation, match="purge-ok counts 2 messages, there were 1"):
            observer.end_turn(False)
    else:
        observer.end_turn(False)
        assert queue.copies[1, ""].state == GONE
