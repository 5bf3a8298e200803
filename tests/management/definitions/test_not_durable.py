"""Definitions of a cluster, whose metadata know more than what is durable."""

from __future__ import annotations

from amqp_broker.management.definitions import export
from amqp_broker.metadata import commands
from amqp_broker.metadata.entities import BindingRecord
from amqp_broker.metadata.metadata import Metadata


def test_what_is_not_durable_is_not_exported() -> None:
    metadata = Metadata()
    for command in (
        commands.put_vhost("v"),
        commands.declare_exchange("v", "brief", "fanout", durable=False),
        commands.declare_queue("v", "own", 1, durable=False, exclusive=True, home="n1"),
        commands.declare_queue("v", "kept", 1),
        commands.add_binding("v", BindingRecord("amq.topic", "queue", "own", "k", b"")),
        commands.add_binding("v", BindingRecord("brief", "queue", "kept", "k", b"")),
        commands.add_binding("v", BindingRecord("amq.topic", "exchange", "brief", "k", b"")),
        commands.add_binding("v", BindingRecord("amq.topic", "queue", "kept", "k", b"")),
    ):
        assert metadata.apply(command)
    found = export(metadata)
    assert found["exchanges"] == []
    assert [each["name"] for each in found["queues"]] == ["kept"]
    assert [(each["source"], each["destination"]) for each in found["bindings"]] == [("amq.topic", "kept")]
