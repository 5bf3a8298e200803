"""ConnectionVerbs: connections are closed, and consumers cancelled, because somebody asks for it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from amqp_broker.channel.lifecycle import cancel_consumer
from amqp_broker.connection.connection import connections_of
from amqp_broker.flow.state import CLOSING
from amqp_broker.management.objects.kind import Scope
from amqp_broker.management.refused import not_found
from amqp_broker.metadata.access import ADMINISTRATOR
from amqp_broker.protocol.constants import ReplyCode
from amqp_broker.turn.task import Steps

if TYPE_CHECKING:
    from amqp_broker.connection.connection import Connection
    from amqp_broker.management.node_counts import NodeCounts
    from amqp_broker.management.objects.connections import Connections
    from amqp_broker.management.peer_questions import PeerQuestions
    from amqp_broker.management.request import Request

log = logging.getLogger("amqp_broker.connection")

#: RabbitMQ's text where no reason is given.
_REASON = "Closed via management plugin"
#: A text in connection.close is a short string, with the code's name in front.
_MOST_REASON = 200
#: So many connections are closed in one slice.
_SLICE = 8


class ConnectionVerbs:
    """They may be connections of other nodes, which do it then."""

    def __init__(self, counts: NodeCounts, connections: Connections, peers: PeerQuestions) -> None:
        self._clients = counts.clients
        self._peers = peers
        self._connections = connections
        self.verbs: dict[str, Callable[[Request], Steps]] = {
            "connection.close": self._close,
            "consumer.cancel": self._cancel,
        }

        peers.serve({"close": self._serve_close, "cancel": self._serve_cancel})

    def _close(self, request: Request) -> Steps:
        """One by its name, or all of a user, with 320. Whoever does not administer closes the own ones only."""
        if not request.has("name"):
            request.asker.check(None if request.text("user") == request.asker.name else ADMINISTRATOR)
        closed = yield from self._close_here(request)
        if closed is None or not request.has("name"):
            others = self._peers.others()
            answers = yield from self._peers.ask_all(others, "close", request.fields, request.asker)
            for answer in answers.values():
                if answer is not None and answer.fields["closed"] is not None:
                    closed = (closed or 0) + answer.fields["closed"]
        if closed is None:
            raise not_found("connection", request.text("name"))
        return {"closed": closed}

    def _serve_close(self, request: Request) -> Steps:
        closed = yield from self._close_here(request)
        return {"closed": closed}, ""

    def _close_here(self, request: Request) -> Steps:
        """Its result: how many; None where there is none of that name."""
        asker, reason = request.asker, request.text("reason", "")
        reason = reason.encode("utf-8", "surrogateescape")[:_MOST_REASON].decode("utf-8", "ignore") or _REASON
        if request.has("name"):
            found = yield from self._connections.named(request.text("name"))
            if found is None or not self._connections.shows(Scope(asker, None), found):
                return None
            asker.check(None if found.session is not None and found.session.user == asker.name else ADMINISTRATOR)
            chosen: list[Connection] = [found]
        else:
            chosen = connections_of(list(self._clients.of_user(request.text("user"))))
        closed = 0
        for number, each in enumerate(chosen):
            if each.state < CLOSING:
                log.info("connection %s is closed for user %r: %s", each.peer, asker.name, reason)
                each.control.close(each, ReplyCode.CONNECTION_FORCED, reason)
                closed += 1
            if number % _SLICE == _SLICE - 1:
                yield None
        return closed

    def _cancel(self, request: Request) -> Steps:
        """basic.cancel from the broker: what it holds stays with its channel."""
        is_done = yield from self._cancel_here(request)
        if not is_done:
            answers = yield from self._peers.ask_all(self._peers.others(), "cancel", request.fields, request.asker)
            is_done = any(answer is not None and answer.fields["is_done"] for answer in answers.values())
        if not is_done:
            raise not_found("consumer", request.text("tag"))
        return {}

    def _serve_cancel(self, request: Request) -> Steps:
        is_done = yield from self._cancel_here(request)
        return {"is_done": is_done}, ""

    def _cancel_here(self, request: Request) -> Steps:
        """Its result: whether it is this node's."""
        name, number, tag = request.text("connection"), request.number("channel", None, 0, 0xFFFF), request.text("tag")
        one = yield from self._connections.named(name)
        if one is None or number not in one.channels:
            return False
        channel = one.channels[number]
        consumer = channel.consumers.get(tag) if not channel.is_closing else None
        if consumer is None:
            return False
        log.info("consumer %r on channel %d of %s is cancelled for user %r", tag, number, one.peer, request.asker.name)
        cancel_consumer(channel, consumer)
        channel.on_consumer_cancelled(consumer)
        return True
