"""The queues of runs with lease groups and transactions, and what other clients do with them besides."""

from __future__ import annotations

from collections.abc import Mapping

from tests.cluster_simulation.application import AppChannel, Application
from tests.cluster_simulation.queue_kinds import QueueKind
from tests.cluster_simulation.routine import Routine

#: Lease groups take from these: a quorum queue, and a classic one that lives on one node.
ORDERS = "orders"
HOME_ORDERS = "home-orders"
SOURCES = (ORDERS, HOME_ORDERS)
#: Transactions publish to these, by name or by way of the exchange behind which both are.
BOOKED = "booked"
HOME_BOOKED = "home-booked"
SINKS = (BOOKED, HOME_BOOKED)
BOOK = "book"

_ENDLESS: Mapping[str, object] = {"x-delivery-limit": -1}


def leased_kinds() -> dict[str, QueueKind]:
    """The queues that are there besides those of every run."""
    kinds = [
        QueueKind(ORDERS, arguments=_ENDLESS, is_leased=True),
        QueueKind(HOME_ORDERS, is_quorum=False, is_leased=True),
        QueueKind(BOOKED, arguments=_ENDLESS, is_sink=True),
        QueueKind(HOME_BOOKED, is_quorum=False, is_sink=True),
    ]
    return {kind.name: kind for kind in kinds}


class LeasedRoutine(Routine):
    """Applications publish mostly to the queues that are leased, and sometimes take something away from them."""

    def set_up(self, application: Application) -> AppChannel:
        """See Routine."""
        channel = super().set_up(application)
        application.declare_exchange(channel, BOOK, "fanout")
        for name in SINKS:
            application.bind(channel, name, BOOK)
        return channel

    def publish(self, application: Application, channel: AppChannel) -> None:
        """See Routine."""
        if self._chance.random() < 0.4:
            super().publish(application, channel)
            return
        queue = self._chance.choice(SOURCES)
        for _ in range(self._chance.choice([1, 3, 8])):
            self._publish_to(application, channel, queue)

    def get(self, application: Application, channel: AppChannel) -> None:
        """See Routine."""
        if self._chance.random() < 0.5:
            super().get(application, channel)
        else:
            application.get(channel, self._chance.choice(SOURCES), no_ack=self._chance.random() < 0.1)
