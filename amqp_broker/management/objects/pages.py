"""Pages: the verbs `objects.page` and `object`: rows of one kind, in columns.

A page costs by what is in it, wherever it begins. It is made in slices: the things are found, what has to be asked
elsewhere is asked, then there is a row of each that is still there.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from amqp_broker.management.objects.accounts import Permissions, TopicPermissions, Users
from amqp_broker.management.objects.bindings import Bindings
from amqp_broker.management.objects.channels import Channels
from amqp_broker.management.objects.connections import Connections
from amqp_broker.management.objects.consumers import Consumers
from amqp_broker.management.objects.exchanges import Exchanges
from amqp_broker.management.objects.kind import Cursor, Kind, Scope
from amqp_broker.management.objects.limits import UserLimits, VhostLimits
from amqp_broker.management.objects.parameters import GlobalParameters, Parameters
from amqp_broker.management.objects.policies import OperatorPolicies, Policies
from amqp_broker.management.objects.queues import Queues
from amqp_broker.management.objects.sorted_copies import SortedCopies
from amqp_broker.management.objects.vhosts import VHosts
from amqp_broker.management.refused import not_found
from amqp_broker.management.request import JsonText, Request, encode_value, list_of
from amqp_broker.turn.task import Steps

if TYPE_CHECKING:
    from amqp_broker.management.node_counts import NodeCounts

#: So many rows has a page at most.
MOST_ROWS = 500
#: So many rows are made in one slice.
_SLICE = 8


def make_kinds(node: NodeCounts, connections: Connections) -> dict[str, Kind]:
    """All kinds, by name."""
    copies = SortedCopies(node.broker.timers, node.broker.clock)
    channels, queues = Channels(node, connections), Queues(node)
    channels.consumers = queues.consumers = consumers = Consumers(node, connections, channels)
    kinds: list[Kind] = [
        connections, channels, consumers, queues, Exchanges(node), Bindings(node, copies), VHosts(node),
        Users(node, copies), Permissions(node, copies), TopicPermissions(node, copies), Policies(node, copies),
        OperatorPolicies(node, copies), VhostLimits(node, copies), UserLimits(node, copies), Parameters(node, copies),
        GlobalParameters(node, copies),
    ]  # fmt: skip
    return {kind.name: kind for kind in kinds}


class Pages:
    """See the module's docstring."""

    def __init__(self, node: NodeCounts) -> None:
        self._node = node
        self.connections = Connections(node)
        self.kinds = make_kinds(node, self.connections)
        self.verbs: dict[str, Callable[[Request], Steps]] = {
            "objects.page": self._page,
            "object": self._object,
        }

    def _kind(self, request: Request) -> Kind:
        name = request.text("kind")
        kind = self.kinds.get(name)
        if kind is None:
            raise ValueError(f"field kind has to be one of {', '.join(self.kinds)}, got {name[:100]!r}")
        request.asker.check(kind.needs_tag)
        return kind

    def _scope(self, request: Request, *, is_wanted: bool) -> Scope:
        """Raises Refused."""
        if not is_wanted and not request.has("vhost"):
            return Scope(request.asker, None)
        name = request.text("vhost")
        if name not in self._node.broker.vhosts:
            raise not_found("vhost", name)
        request.asker.check_vhost(name)
        return Scope(request.asker, name)

    def _page(self, request: Request) -> Steps:
        kind, scope = self._kind(request), self._scope(request, is_wanted=False)
        limit = request.number("limit", MOST_ROWS, 1, MOST_ROWS)
        after = _cursor(kind, request.text("after")) if request.has("after") else None
        columns = _columns(kind, request)
        things: list[Any] = []
        last: Cursor | None = None
        for found in kind.things(scope, after):
            if found is None:
                yield None
                continue
            things.append(found[1])
            if len(things) == limit:
                last = found[0]
                break
        yield from kind.prepare(things)
        rows: list[JsonText] = []
        for number, thing in enumerate(things):
            if kind.is_there(thing):
                seen = kind.look(thing)
                rows.append(encode_value([column(seen) for column in columns.values()]))
            if number % _SLICE == 0:
                yield None
        return {
            "columns": list(columns),
            "rows": list_of(rows),
            "next": json.dumps(last) if last is not None else None,
            "at": self._node.broker.clock.now,
            "node": self._node.config.node_name,
            "stale": [],
        }

    def _object(self, request: Request) -> Steps:
        kind = self._kind(request)
        scope = self._scope(request, is_wanted=kind.is_in_vhosts)
        thing = yield from kind.find(scope, request)
        if thing is None or not kind.is_there(thing):
            names = [request.text(each) for each in ("name", "user", "component", "source") if request.has(each)]
            raise not_found(kind.singular, " ".join(names), scope.vhost)
        yield from kind.prepare([thing])
        details = yield from kind.details(scope, thing)
        return {
            "object": {**kind.row(thing), **details},
            "at": self._node.broker.clock.now,
            "node": self._node.config.node_name,
        }


def _columns(kind: Kind, request: Request) -> dict[str, Callable[[Any], Any]]:
    if not request.has("columns"):
        return dict(kind.columns)
    names = request.texts("columns")
    for name in names:
        if name not in kind.columns:
            raise ValueError(f"field columns: {kind.name} have no '{name[:100]}'; these are: {', '.join(kind.columns)}")
    return {name: kind.columns[name] for name in names}


def _cursor(kind: Kind, text: str) -> Cursor:
    """What a page before has said was `next`. Raises ValueError."""
    try:
        cursor = json.loads(text)
    except (ValueError, RecursionError):
        cursor = None
    fits = isinstance(cursor, list) and len(cursor) == len(kind.cursor)
    if not fits or not all(map(isinstance, cursor, kind.cursor)) or any(isinstance(each, bool) for each in cursor):
        raise ValueError(f"field after is none that a page of {kind.name} gave as next: {text[:100]!r}")
    return tuple(cursor)
