"""The walk over the queues of all virtual hosts, in slices, between which queues and virtual hosts come and go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_broker.routing.vhost import VHost
    from amqp_broker.vhosts.broker import Broker


def queues_in_slices(broker: Broker, most: int) -> Iterator[tuple[VHost, list[str]]]:
    """At most so many names at a time, each with a queue, of one virtual host."""
    for name in broker.vhost_names.after(None, len(broker.vhost_names)):
        vhost = broker.vhosts.get(name)
        if vhost is not None:
            for names in vhost.queue_names.in_slices(most):
                yield vhost, names
