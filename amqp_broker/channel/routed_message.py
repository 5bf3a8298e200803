"""RoutedMessage: one that a channel has published, checked and with its way, to be handed over: now, or by a commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from amqp_broker.routing.routes import PublishRoute

if TYPE_CHECKING:
    from amqp_broker.messages.facts import MessageFacts
    from amqp_broker.routing.vhost import VHost
    from queues.message import Message


class RoutedMessage(NamedTuple):
    """message: as its queues get it. held: as the x-delayed-message exchanges named in `delayed` hold it back, which
    need to know the keys of its blind copies. facts: by which it was routed."""

    route: PublishRoute
    delayed: list[str]
    message: Message
    held: Message
    facts: MessageFacts
    is_mandatory: bool


def present_route(vhost: VHost, route: PublishRoute) -> PublishRoute:
    """A route that was found before, without the queues that are gone since. Its exchange and its bindings counted
    then."""
    if route.entry is None:
        return route
    queues = []
    for queue in route.queues:
        present = vhost.queues.get(queue.name)  # another one stands for it while its home changes
        if present is not None and present.queue_id == queue.queue_id:
            queues.append(present)
    if queues == route.queues:
        return route
    return PublishRoute(route.entry, queues, route.is_plain, vhost.generation, route.is_observed)
