"""What the driver of a simulated node must do, where a seed has shown that it did not."""

from __future__ import annotations

from amqp_broker.protocol import methods
from amqp_broker.protocol.properties import encode_properties
from tests.simulation.client import FRAME_MAX, Operation, SimulatedClient
from tests.simulation.state import ModelChannel, Published
from tests.simulation.world import World

_PERSISTENT: dict[str, object] = {"delivery_mode": 2}


def _publish(client: SimulatedClient, channel: ModelChannel, number: int) -> None:
    body = f"{number}:".encode()
    message = Published(number, body, encode_properties(_PERSISTENT), is_persistent=True, priority=0, ttl=None)
    values: dict[str, object] = {"message": message, "exchange": "", "key": "plain", "delay": 0, "mandatory": False}
    values["split"] = FRAME_MAX - 8
    method = methods.BasicPublish(0, "", "plain", False, False)
    client.publish(Operation("publish", channel, values), channel.number, method, _PERSISTENT, body)


def test_who_waits_for_the_disk_goes_on_after_who_waits_for_a_command() -> None:
    """Seed 449 of a workload of old. One connection was parked until its transaction was on the disk, and then another
    one until its binding was committed. The same sync let both go on: the latter first, whatever came first; and the
    model was told the other way round, and took the order of what they published next for a defect."""
    world = World(1)
    world._boot()
    world._set_up()
    transacting, binding = world._connect(), world._connect()
    world._settle_down()
    first, second = world.workload.open_channel(transacting), world.workload.open_channel(binding)
    first.client_in_tx = True
    transacting.send(Operation("tx_select", first, {}), first.number, methods.TxSelect())
    world._settle_down()
    _publish(transacting, first, 1)
    transacting.send(Operation("tx_commit", first, {}), first.number, methods.TxCommit())
    third = world.workload.open_channel(transacting)
    _publish(transacting, third, 2)
    world._feed_client(transacting, len(transacting.outgoing))
    world.workload.bind_queue(binding, second, "plain")
    _publish(binding, second, 3)
    world._feed_client(binding, len(binding.outgoing))
    assert transacting.transport.is_parked
    assert binding.transport.is_parked
    world._settle_down()
    places = {number: copy.place for (number, _), copy in world.model.live["plain"].copies.items()}
    entries = list(world.node.broker.vhosts["/"].queues["plain"].ready.head)
    assert [int(entry.message.body_bytes()[:-1]) for entry in entries] == sorted(places, key=places.__getitem__)
    assert len(entries) == 3
    world._finish()
