"""Routine: what applications of a simulated cluster do next, drawn from the run's Random. They keep to the protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from amqp_broker.protocol.fields import Table
from tests.cluster_simulation.application import AppChannel, Application
from tests.cluster_simulation.client_model import Sent
from tests.cluster_simulation.queue_kinds import DEAD, DELAYED, FAN, HOME_SCRATCH, LATER, LETTERS, LOCK, SCRATCH

if TYPE_CHECKING:
    from tests.cluster_simulation.cluster_world import ClusterWorld

_NOBODY = "nobody"
_MOST_OUTGOING = 20_000


class Routine:
    """Gives applications something to do."""

    def __init__(self, world: ClusterWorld) -> None:
        self._world = world
        self._chance = world.chance
        self._kinds = world.kinds
        names = [name for name, kind in world.kinds.items() if kind.takes_publishes]
        self._favourites = self._chance.sample(names, 4)
        self._all = names
        self._next_producer = 1
        Step = Callable[[Application, AppChannel], None]  # noqa: N806
        steps: list[tuple[int, Step]] = [
            (24, self.publish),
            (44, self.settle),
            (10, self.consume),
            (4, self.get),
            (3, self.qos),
            (4, self.cancel),
            (4, self.declare),
            (2, self.bind),
            (1, self.purge),
            (1, self.delete),
            (4, self.publish_again),
            (1, self.close_channel),
        ]
        self._steps = steps
        self._total = sum(weight for weight, _ in steps)

    # -- the beginning -------------------------------------------------------------------------------------------------

    def set_up(self, application: Application) -> AppChannel:
        """Exchanges, queues and bindings that are always there, and the lock."""
        channel = application.open_channel()
        for name in (FAN, DEAD):
            application.declare_exchange(channel, name, "fanout")
        application.declare_exchange(channel, LATER, "x-delayed-message", {"x-delayed-type": "fanout"})
        for kind in self._kinds.values():
            application.declare(channel, kind.name)
            if kind.in_fan:
                application.bind(channel, kind.name, FAN)
        application.bind(channel, LETTERS, DEAD)
        application.bind(channel, DELAYED, LATER)
        application.confirm_select(channel)
        self.publish_lock(application, channel)
        return channel

    def publish_lock(self, application: Application, channel: AppChannel) -> None:
        """A message that is a lock: whoever holds it has it."""
        message = self._message((LOCK,), (LOCK,), 10, is_persistent=True)
        application.publish(channel, message, "", LOCK, {"delivery_mode": 2}, is_mandatory=True)

    # -- choosing ------------------------------------------------------------------------------------------------------

    def act(self, application: Application) -> None:
        """Let an application do one thing."""
        chance = self._chance
        assert application.client is not None
        if len(application.client.outgoing) > _MOST_OUTGOING:
            return
        channels = [each for each in application.channels.values() if not each.is_leaving]
        if not channels or (len(channels) < 3 and chance.random() < 0.05):
            channel = application.open_channel()
            if chance.random() < 0.7:
                application.confirm_select(channel)
            if chance.random() < 0.5:
                application.qos(channel, chance.choice([1, 2, 5, 20]), is_global=chance.random() < 0.2)
            return
        if chance.random() < 0.003:
            application.close()
            return
        number = chance.randrange(self._total)
        for weight, step in self._steps:
            number -= weight
            if number < 0:
                step(application, chance.choice(channels))
                return

    def _queue(self) -> str:
        return self._chance.choice(self._favourites if self._chance.random() < 0.7 else self._all)

    def _scratch(self) -> str:
        return self._chance.choice([SCRATCH, HOME_SCRATCH])

    # -- publishing ----------------------------------------------------------------------------------------------------

    def _message(
        self,
        targets: tuple[str, ...],
        may_reach: tuple[str, ...],
        size: int,
        *,
        is_persistent: bool,
        producer: str = "",
    ) -> Sent:
        number = self._world.next_message()
        body = b"%d:" % number + bytes([number % 251]) * size
        return Sent(number, body, is_persistent, targets, may_reach, producer)

    def publish(self, application: Application, channel: AppChannel) -> None:
        """One message or a burst of them."""
        chance = self._chance
        queue = self._queue()
        for _ in range(chance.choice([1, 1, 1, 2, 2, 6])):
            draw = chance.random()
            if draw < 0.15:
                self._publish_to_fan(application, channel)
            elif draw < 0.18:
                self._publish_later(application, channel)
            elif draw < 0.21:
                message = self._message((), (), 10, is_persistent=True)
                application.publish(channel, message, "", _NOBODY, {}, is_mandatory=chance.random() < 0.5)
            else:
                self._publish_to(application, channel, queue)

    def _publish_to_fan(self, application: Application, channel: AppChannel) -> None:
        targets = tuple(kind.name for kind in self._kinds.values() if kind.in_fan)
        message = self._message(targets, (*targets, SCRATCH, HOME_SCRATCH), self._size(), is_persistent=True)
        application.publish(channel, message, FAN, "", {"delivery_mode": 2}, is_mandatory=False)

    def _publish_later(self, application: Application, channel: AppChannel) -> None:
        delay = self._chance.choice([20, 200, 1500])
        message = self._message((DELAYED,), (DELAYED,), self._size(), is_persistent=True)
        message.delay = delay * 1000
        properties: dict[str, object] = {"delivery_mode": 2, "headers": Table({"x-delay": delay})}
        application.publish(channel, message, LATER, "", properties, is_mandatory=False)

    def _publish_to(self, application: Application, channel: AppChannel, queue: str) -> None:
        chance = self._chance
        kind = self._kinds[queue]
        is_persistent = kind.is_quorum or chance.random() < 0.8
        properties: dict[str, object] = {"delivery_mode": 2 if is_persistent else 1}
        is_certain = kind.is_durable and not kind.is_scratch
        priority = chance.randrange(5) if kind.max_priority is not None and chance.random() < 0.8 else 0
        producer = ""
        if kind.is_quorum and channel.model.is_confirming and chance.random() < 0.2:
            producer = f"p{self._next_producer}"
            self._next_producer += 1
        targets = (queue,) if is_certain else ()
        message = self._message(targets, (queue,), self._size(), is_persistent=is_persistent, producer=producer)
        message.priority = priority
        self._add_properties(message, properties)
        is_mandatory = kind.is_scratch or (is_certain and chance.random() < 0.2)
        application.publish(channel, message, "", queue, properties, is_mandatory=is_mandatory)

    @staticmethod
    def _add_properties(message: Sent, properties: dict[str, object]) -> None:
        if message.priority:
            properties["priority"] = message.priority
        if message.producer:
            properties["headers"] = Table({"x-producer-id": message.producer, "x-producer-sequence": 1})

    def _size(self) -> int:
        return self._chance.choice([0, 20, 100, 100, 700]) if self._chance.random() < 0.99 else 9000

    def publish_again(self, application: Application, channel: AppChannel) -> None:
        """What may have been lost, under the same producer's number."""
        if not channel.model.is_confirming or not application.doubtful:
            return
        message = application.doubtful.pop(self._chance.randrange(len(application.doubtful)))
        properties: dict[str, object] = {"delivery_mode": 2}
        self._add_properties(message, properties)
        queue = message.may_reach[0]
        self._world.clients.counts["published again"] += 1
        application.publish(channel, message, "", queue, properties, is_mandatory=self._kinds[queue].is_scratch)

    # -- queues --------------------------------------------------------------------------------------------------------

    def declare(self, application: Application, channel: AppChannel) -> None:
        queue = self._queue() if self._chance.random() < 0.5 else self._scratch()
        application.declare(channel, queue, is_passive=self._chance.random() < 0.3)

    def bind(self, application: Application, channel: AppChannel) -> None:
        queue = self._scratch()
        if self._chance.random() < 0.6:
            application.bind(channel, queue, FAN)
        else:
            application.unbind(channel, queue, FAN)

    def purge(self, application: Application, channel: AppChannel) -> None:
        application.purge(channel, self._scratch())

    def delete(self, application: Application, channel: AppChannel) -> None:
        application.delete(channel, self._scratch())

    def close_channel(self, application: Application, channel: AppChannel) -> None:
        application.close_channel(channel)

    # -- consuming -----------------------------------------------------------------------------------------------------

    def consume(self, application: Application, channel: AppChannel) -> None:
        queue = LOCK if self._chance.random() < 0.2 else self._queue()
        no_ack = queue != LOCK and self._chance.random() < 0.08
        application.consume(channel, queue, no_ack=no_ack, priority=self._chance.choice([0, 0, 0, 5]))

    def cancel(self, application: Application, channel: AppChannel) -> None:
        if channel.consumers:
            application.cancel(channel, channel.consumers[self._chance.choice(list(channel.consumers))])

    def get(self, application: Application, channel: AppChannel) -> None:
        queue = self._queue()
        if self._kinds[queue].is_single_active:
            return  # RabbitMQ refuses it
        application.get(channel, queue, no_ack=self._chance.random() < 0.2)

    def qos(self, application: Application, channel: AppChannel) -> None:
        application.qos(channel, self._chance.choice([0, 1, 2, 5, 20]), is_global=self._chance.random() < 0.2)

    def settle(self, application: Application, channel: AppChannel) -> None:
        """Acknowledge or refuse deliveries."""
        for _ in range(self._chance.choice([1, 2, 4])):
            if channel.model.unsettled:
                self._settle_one(application, channel)

    def _settle_one(self, application: Application, channel: AppChannel) -> None:
        """One delivery, or all up to one. A lock is passed on, or replaced by a new one."""
        chance = self._chance
        unsettled = channel.model.unsettled
        tag = chance.choice(list(unsettled)[:10])
        draw = chance.random()
        how = "ack" if draw < 0.7 else "requeue" if draw < 0.88 else "reject"
        if unsettled[tag].queue == LOCK:
            if draw < 0.5:
                application.settle(channel, tag, "requeue", is_multiple=False)
            else:
                application.settle(channel, tag, "ack", is_multiple=False)
                self.publish_lock(application, channel)
            return
        is_multiple = chance.random() < 0.4 and all(
            each.queue != LOCK for number, each in unsettled.items() if number <= tag
        )
        application.settle(channel, tag, how, is_multiple=is_multiple)
