"""Connections of this node: those that are in their handshake, too."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from amqp_broker.connection.connection import Connection, connection_of
from amqp_broker.flow.reason import Reason
from amqp_broker.flow.state import CLOSED, CLOSING, OPEN
from amqp_broker.management.objects.kind import LOOK, Cursor, Kind, Scope, Things
from amqp_broker.management.objects.values import as_object, connection_name
from amqp_broker.protocol.json_values import JsonValue
from amqp_broker.turn.task import Steps

if TYPE_CHECKING:
    from amqp_broker.management.node_counts import NodeCounts
    from amqp_broker.management.request import Request

_PORT = re.compile(r":(\d{1,5}) -> ")
#: For these a connection is not read because of what it does itself, for a moment.
_FLOW = int(Reason.SHARE | Reason.OUTPUT | Reason.REPLIES)


class Connections(Kind[Connection, Connection]):
    """In the order in which they came."""

    name = "connections"
    singular = "connection"
    cursor = (int,)
    is_by_node = True

    def __init__(self, counts: NodeCounts) -> None:
        super().__init__(counts)
        self._alarms = counts.alarms
        self.columns = {
            "name": connection_name,
            "node": lambda one: self.node_name,
            "user": _of_session("user", ""),
            "user_who_performed_action": lambda one: (one.session.acting or one.session.user) if one.session else "",
            "vhost": _of_session("vhost", ""),
            "state": self._state,
            "type": lambda one: "network",
            "protocol": lambda one: "AMQP 0-9-1",
            "auth_mechanism": _of_session("mechanism", ""),
            "channels": lambda one: len(one.channels),
            "channel_max": _of_session("channel_max", 0),
            "frame_max": lambda one: one.frame_max,
            "timeout": lambda one: one.session.heartbeat_ms // 1000 if one.session is not None else 0,
            "connected_at": lambda one: one.connected_at,
            "client_properties": lambda one: as_object(one.session.client_properties) if one.session else {},
            "user_provided_name": _of_session("connection_name", ""),
            "host": lambda one: one.peer.local_host,
            "port": lambda one: one.peer.local_port,
            "peer_host": lambda one: one.peer.host,
            "peer_port": lambda one: one.peer.port,
            "ssl": lambda one: one.peer.is_tls,
            "peer_cert_subject": lambda one: f"CN={one.peer.certificate_name}" if one.peer.certificate_name else None,
            "recv_oct": lambda one: one.received_bytes,
            "send_oct": lambda one: one.sent_bytes,
            "send_pend": lambda one: one.output.size() + one.unsent_bytes,
        }

    def _state(self, one: Connection) -> str:
        if one.state < OPEN:
            return "starting"
        if one.state >= CLOSING:
            return "closed" if one.state == CLOSED else "closing"
        if one.has_published and self._alarms.is_on:
            return "blocked" if one.paused_for & Reason.GATE else "blocking"
        return "flow" if one.paused_for & (_FLOW | Reason.GATE) else "running"

    def shows(self, scope: Scope, one: Connection) -> bool:
        """Whether a connection is to be shown."""
        session = one.session
        if session is None:
            return scope.asker.sees_all and scope.vhost is None
        return scope.vhost in (None, session.vhost) and (scope.asker.sees_all or session.user == scope.asker.name)

    def things(self, scope: Scope, after: Cursor | None) -> Things[Connection]:
        """See Kind."""
        return self.walk(after, lambda one: self.shows(scope, one))

    def walk(self, after: Cursor | None, is_shown: Callable[[Connection], bool]) -> Things[Connection]:
        """As `things`, of those that somebody wants."""
        clients = self.clients
        last = after[0] if after is not None else None
        while numbers := clients.numbers.after(last, LOOK):
            for number in numbers:
                client = clients.find(number)
                if client is not None and is_shown(one := connection_of(client)):
                    yield (number,), one
            last = numbers[-1]
            yield None

    def is_there(self, thing: Connection) -> bool:
        """See Kind."""
        return bool(thing.state != CLOSED)

    def find(self, scope: Scope, request: Request) -> Steps:
        """See Kind."""
        found = yield from self.named(request.text("name"))
        return found if found is not None and self.shows(scope, found) else None

    def named(self, name: str) -> Steps:
        """Its result: the one of that name, or None. There is no index of names: all are looked through by their
        ports."""
        said = _PORT.search(name)
        port = int(said[1]) if said is not None else -1
        for found in self.walk(None, lambda one: one.peer.port == port and connection_name(one) == name):
            if found is not None:
                return found[1]
            yield None
        return None


def _of_session(attribute: str, default: JsonValue) -> Callable[[Connection], JsonValue]:
    """A column that there is from the login on."""
    return lambda one: getattr(one.session, attribute) if one.session is not None else default
