"""Pages: the verbs `objects.page` and `object`: rows of one kind, in columns.

A page costs by what is in it, wherever it begins. It is made in slices: the things are found, then there is a row of
each that is still there. What lives on another node is described there; what each node has of its own is shown node by
node.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from amqp_broker.management.objects.accounts import Permissions, TopicPermissions, Users
from amqp_broker.management.objects.bindings import Bindings
from amqp_broker.management.objects.channels import Channels
from amqp_broker.management.objects.connections import Connections
from amqp_broker.management.objects.consumers import Consumers
from amqp_broker.management.objects.exchanges import Exchanges
from amqp_broker.management.objects.kind import Cursor, Scope
from amqp_broker.management.objects.limits import UserLimits, VhostLimits
from amqp_broker.management.objects.oldest_deliveries import OldestDeliveries
from amqp_broker.management.objects.parameters import GlobalParameters, Parameters
from amqp_broker.management.objects.policies import OperatorPolicies, Policies
from amqp_broker.management.objects.queues import Queues
from amqp_broker.management.objects.records import AnyRecords
from amqp_broker.management.objects.rows import AnyKind, Columns, as_lines, make_rows, of_lines
from amqp_broker.management.objects.sorted_copies import SortedCopies
from amqp_broker.management.objects.unroutable import UnroutableMessages
from amqp_broker.management.objects.vhosts import VHosts
from amqp_broker.management.refused import not_found
from amqp_broker.management.request import Request
from amqp_broker.management.written_json import JsonText, encode_value, list_of
from amqp_broker.protocol.json_values import JsonValue
from amqp_broker.turn.task import Steps

if TYPE_CHECKING:
    from amqp_broker.management.access import Asker
    from amqp_broker.management.node_counts import NodeCounts
    from amqp_broker.management.peer_questions import PeerQuestions
    from amqp_broker.queue_types.remote.home import Home

#: So many rows has a page at most.
MOST_ROWS = 500
#: So many things are found in one slice: one may take several objects that the processor has long forgotten.
_SLICE = 16


def make_kinds(counts: NodeCounts, connections: Connections, channels: Channels, home: Home) -> dict[str, AnyKind]:
    """All kinds, by name. home: the sessions of other nodes with the queues of this one."""
    copies = SortedCopies(counts.broker.timers, counts.broker.clock, counts.broker.background)
    consumers = Consumers(counts, connections, channels)
    channels.detail_with(consumers)
    queues = Queues(counts, consumers, OldestDeliveries(channels, home))
    records: list[type[AnyRecords]] = [
        Users, Permissions, TopicPermissions, Policies, OperatorPolicies, VhostLimits, UserLimits, Parameters,
        GlobalParameters,
    ]  # fmt: skip
    kinds: list[AnyKind] = [
        connections, channels, consumers, queues, Exchanges(counts), Bindings(counts, copies), VHosts(counts),
        UnroutableMessages(counts),
        *(each(counts, copies) for each in records),
    ]  # fmt: skip
    return {kind.name: kind for kind in kinds}


class Pages:
    """See the module's docstring."""

    def __init__(self, counts: NodeCounts, peers: PeerQuestions, home: Home) -> None:
        self._vhosts = counts.broker.vhosts
        self._clock = counts.broker.clock
        self._peers = peers
        self.connections = Connections(counts)
        self.channels = Channels(counts, self.connections)
        self.kinds = make_kinds(counts, self.connections, self.channels, home)
        self.verbs: dict[str, Callable[[Request], Steps]] = {
            "objects.page": self._page,
            "object": self._object,
        }
        peers.serve({"page": self._serve_page, "rows": self._serve_rows, "object": self._serve_object})

    def _kind(self, request: Request) -> AnyKind:
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
        if name not in self._vhosts:
            raise not_found("vhost", name)
        request.asker.check_vhost(name)
        return Scope(request.asker, name)

    # -- pages ---------------------------------------------------------------------------------------------------------

    def _page(self, request: Request) -> Steps:
        kind, scope = self._kind(request), self._scope(request, is_wanted=False)
        limit = request.number("limit", MOST_ROWS, 1, MOST_ROWS)
        columns = _columns(kind, request)
        after = _cursor(kind, request.text("after")) if request.has("after") else None
        if kind.is_by_node:
            rows, following, stale = yield from self._of_nodes(kind, scope, request, after, limit, columns)
        else:
            things, following = yield from _collect(kind, scope, after, limit)
            rows, stale = yield from self._rows_of(kind, things, columns, request.asker)
        return {
            "columns": list(columns),
            "rows": list_of([row for row in rows if row is not None]),
            "next": json.dumps(following) if following is not None else None,
            "at": self._clock.now,
            "node": self._peers.own_node,
            "stale": stale,
        }

    def _rows_of(self, kind: AnyKind, things: list[object], columns: Columns, asker: Asker) -> Steps:
        """Its result: rows, and who has not answered. Of what lives elsewhere its home makes the row; if that does not
        answer, it is what is known here."""
        homes: dict[str, list[int]] = {}
        for number, thing in enumerate(things):
            if home := kind.home_of(thing):
                homes.setdefault(home, []).append(number)
        asked = {}
        for home, numbers in homes.items():
            names = [kind.key_of(things[number]) for number in numbers]
            fields = {"kind": kind.name, "columns": list(columns), "names": names}
            asked[home] = self._peers.ask(home, "rows", fields, asker)
            yield None
        rows = yield from make_rows(kind, things, columns)
        stale = []
        for home, question in asked.items():
            answer = yield question
            made = of_lines(answer.text) if answer is not None else []
            if len(made) != len(homes[home]):
                stale.append(home)
                continue
            for number, row in zip(homes[home], made, strict=True):
                # One that is just being made there, or has just gone, is what is known here.
                rows[number] = row or rows[number]
        return rows, stale

    def _of_nodes(
        self, kind: AnyKind, scope: Scope, request: Request, after: Cursor | None, limit: int, columns: Columns
    ) -> Steps:
        """Its result: rows, the next cursor, and who has not answered. One node after the other, in the order of their
        names: a cursor begins with one."""
        own = self._peers.own_node
        first, behind = (after[0], tuple(after[1])) if after is not None else ("", ())
        names = [name for name in sorted([own, *self._peers.others()]) if name >= first]
        rows: list[JsonText | None] = []
        stale: list[str] = []
        for number, name in enumerate(names):
            inner = behind if name == first and behind else None
            left = limit - len(rows)
            if name == own:
                things, last = yield from _collect(kind, scope, inner, left)
                rows += yield from make_rows(kind, things, columns)
            else:
                fields = {**request.fields, "limit": left, "columns": list(columns), "after": list(inner or ())}
                answer = yield self._peers.ask(name, "page", fields, request.asker)
                if answer is None:
                    stale.append(name)
                    continue
                rows += of_lines(answer.text)
                last = answer.fields["next"]
            if last is not None:
                return rows, (name, list(last)), stale
            if len(rows) >= limit and number + 1 < len(names):
                return rows, (names[number + 1], []), stale
        return rows, None, stale

    def _serve_page(self, request: Request) -> Steps:
        """What another node shows of this one's."""
        kind, scope = self._kind(request), self._scope(request, is_wanted=False)
        limit, behind = request.number("limit", MOST_ROWS, 1, MOST_ROWS), request.get("after")
        columns = _columns(kind, request, is_own=False)
        things, last = yield from _collect(kind, scope, tuple(behind) or None, limit)
        rows = yield from make_rows(kind, things, columns)
        return {"next": last}, as_lines([row for row in rows if row is not None])

    def _serve_rows(self, request: Request) -> Steps:
        """Rows of things whose home this is."""
        kind, columns = self._kind(request), _columns(self._kind(request), request, is_own=False)
        things = [kind.keyed(tuple(name)) for name in request.fields["names"]]
        are_there = [thing is not None and kind.is_there(thing) for thing in things]
        there = [thing for thing, is_there in zip(things, are_there, strict=True) if is_there]
        rows = yield from make_rows(kind, there, columns)
        made = iter(rows)
        return {}, as_lines([next(made) if is_there else None for is_there in are_there])

    # -- one object ----------------------------------------------------------------------------------------------------

    def _object(self, request: Request) -> Steps:
        kind = self._kind(request)
        scope = self._scope(request, is_wanted=kind.is_in_vhosts)
        thing = yield from kind.find(scope, request)
        is_here = thing is not None and kind.is_there(thing)
        home = kind.home_of(thing) if is_here else ""
        asked = [home] if home else ([] if is_here or not kind.is_by_node else self._peers.others())
        answers = yield from self._peers.ask_all(asked, "object", request.fields, request.asker)
        for name, answer in answers.items():
            if answer is not None and answer.text:
                return {"object": JsonText(answer.text), "at": self._clock.now, "node": name, "stale": []}
        if not is_here:
            names = [request.text(each) for each in ("name", "user", "component", "source") if request.has(each)]
            raise not_found(kind.singular, " ".join(names), scope.vhost)
        return {
            "object": (yield from self._describe(kind, scope, thing)),
            "at": self._clock.now,
            "node": self._peers.own_node,
            "stale": [name for name, answer in answers.items() if answer is None],
        }

    @staticmethod
    def _describe(kind: AnyKind, scope: Scope, thing: object) -> Steps:
        prepared = yield from kind.prepare([thing], kind.columns)
        details = yield from kind.details(scope, thing)
        return encode_value({**kind.row(thing, prepared), **details})

    def _serve_object(self, request: Request) -> Steps:
        kind = self._kind(request)
        scope = self._scope(request, is_wanted=kind.is_in_vhosts)
        thing = yield from kind.find(scope, request)
        if thing is None or not kind.is_there(thing) or kind.home_of(thing):
            return {}, ""
        return {}, (yield from self._describe(kind, scope, thing))


def _collect(kind: AnyKind, scope: Scope, after: Cursor | None, limit: int) -> Steps:
    """Its result: the things of a page, and the cursor behind the last of them, None where there are no more."""
    things: list[object] = []
    for found in kind.things(scope, after):
        if found is None:
            yield None
            continue
        things.append(found[1])
        if len(things) == limit:
            return things, found[0]
        if len(things) % _SLICE == 0:
            yield None
    return things, None


def _columns(kind: AnyKind, request: Request, *, is_own: bool = True) -> Columns:
    """is_own: a column that there is not is an error. Another node may be of a version that has others."""
    if not request.has("columns"):
        return dict(kind.columns)
    names = request.texts("columns")
    for name in names:
        if is_own and name not in kind.columns:
            raise ValueError(f"field columns: {kind.name} have no '{name[:100]}'; these are: {', '.join(kind.columns)}")
    return {name: kind.columns.get(name, _unknown) for name in names}


def _unknown(thing: object) -> None:
    return None


def _cursor(kind: AnyKind, text: str) -> Cursor:
    """What a page before has said was `next`. Raises ValueError."""
    try:
        cursor = json.loads(text)
    except (ValueError, RecursionError):
        cursor = None
    fits = isinstance(cursor, list)
    if fits and kind.is_by_node:
        fits = len(cursor) == 2 and isinstance(cursor[0], str) and isinstance(cursor[1], list)
        fits = fits and (not cursor[1] or _has_types(cursor[1], kind.cursor))
    elif fits:
        fits = _has_types(cursor, kind.cursor)
    if not fits:
        raise ValueError(f"field after is none that a page of {kind.name} gave as next: {text[:100]!r}")
    return tuple(cursor)


def _has_types(values: list[JsonValue], types: tuple[type, ...]) -> bool:
    return len(values) == len(types) and all(type(value) is each for value, each in zip(values, types, strict=True))
