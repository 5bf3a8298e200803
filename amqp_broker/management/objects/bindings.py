"""Bindings: by where they lead, then from where. With the one that each queue has of the default exchange."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from amqp_broker.management.definitions.arguments import describe_arguments
from amqp_broker.management.objects.kind import LOOK, Cursor, Kind, Scope, Things
from amqp_broker.management.objects.values import as_object, properties_key
from amqp_broker.protocol.fields import Table, encode_table
from amqp_broker.turn.task import Steps
from exchanges.bindings import EXCHANGE, QUEUE, Binding, Destination
from exchanges.registry import DEFAULT_EXCHANGE

if TYPE_CHECKING:
    from amqp_broker.management.node_counts import NodeCounts
    from amqp_broker.management.objects.sorted_copies import SortedCopies
    from amqp_broker.management.request import Request
    from amqp_broker.routing.vhost import VHost


class Bound(NamedTuple):
    """A binding where it is."""

    vhost: VHost
    source: str
    binding: Binding


class Bindings(Kind[Bound, Bound]):
    """A cursor has virtual host, kind and name of the destination, source, and properties_key."""

    name = "bindings"
    singular = "binding"
    cursor = (str, str, str, str, str)
    is_in_vhosts = True

    def __init__(self, counts: NodeCounts, copies: SortedCopies) -> None:
        super().__init__(counts)
        self._copies = copies
        self.columns = {
            "source": lambda one: one.source,
            "vhost": lambda one: one.vhost.name,
            "destination": lambda one: one.binding.destination.name,
            "destination_type": lambda one: one.binding.destination.kind,
            "routing_key": lambda one: one.binding.binding_key,
            "arguments": lambda one: as_object(one.binding.arguments),
            "properties_key": lambda one: _key_of(one.binding),
        }

    def things(self, scope: Scope, after: Cursor | None) -> Things[Bound]:
        """See Kind."""
        for name in self.vhosts_of(scope, after[0] if after is not None else None):
            if name is None:
                yield None
                continue
            behind = after[1:] if after is not None and after[0] == name else None
            for found in self._in(self.broker.vhosts[name], behind):
                yield found if found is None else ((name, *found[0]), found[1])

    def _in(self, vhost: VHost, after: Cursor | None) -> Things[Bound]:
        for kind, names in ((EXCHANGE, vhost.router.names), (QUEUE, vhost.queue_names)):
            if after is not None and after[0] > kind:
                continue
            behind = after[1:] if after is not None and after[0] == kind else None
            last = None
            if behind is not None:
                last = behind[0]
                yield from self._to(vhost, Destination(kind, last), behind[1:])
            while found := names.after(last, LOOK):
                for name in found:
                    yield from self._to(vhost, Destination(kind, name), None)
                last = found[-1]
                yield None

    def _to(self, vhost: VHost, destination: Destination, after: Cursor | None) -> Things[Bound]:
        """Those of one destination; after: source and properties_key."""
        sources = sorted(vhost.router.sources_of(destination))
        if destination.kind == QUEUE and destination.name in vhost.queues:
            sources.insert(0, DEFAULT_EXCHANGE)
        for source in sources:
            if after is not None and source < after[0]:
                continue
            key = after[1:] if after is not None and source == after[0] else None
            for found in self._between(vhost, source, destination, key):
                yield found if found is None else ((destination.kind, destination.name, source, *found[0]), found[1])

    def _between(self, vhost: VHost, source: str, destination: Destination, after: Cursor | None) -> Things[Bound]:
        """Those between two ends, which may be very many."""
        if source == DEFAULT_EXCHANGE:
            if after is None:
                implied = Binding(destination, destination.name, {})
                yield (_key_of(implied),), Bound(vhost, source, implied)
            return
        what = (self.name, vhost.name, source, *destination[:2])

        def present() -> Iterator[_Keyed]:
            return self._held(vhost, source, destination)

        for key in self._copies.keys(what, after, present, itemgetter(0)):
            if key is None:
                yield None
            elif self._is_bound(bound := Bound(vhost, source, key[1])):
                yield (key[0],), bound

    @staticmethod
    def _held(vhost: VHost, source: str, destination: Destination) -> Iterator[_Keyed]:
        entry = vhost.router.get(source)
        if entry is not None:
            for binding in entry.exchange.each_binding_to(destination):
                yield _Keyed((_key_of(binding), binding))

    @staticmethod
    def _is_bound(bound: Bound) -> bool:
        entry = bound.vhost.find_exchange(bound.source)
        binding = bound.binding
        return entry is not None and (
            bound.source == DEFAULT_EXCHANGE
            or entry.exchange.has_binding(binding.destination, binding.binding_key, binding.arguments)
        )

    def find(self, scope: Scope, request: Request) -> Steps:
        """See Kind: by source, destination, destination_type and properties_key."""
        vhost = self.broker.vhosts[scope.vhost or ""]
        destination = Destination(request.text("destination_type", QUEUE), request.text("destination"))
        wanted = request.text("properties_key")
        for found in self._between(vhost, request.text("source"), destination, None):
            if found is None:
                yield None
            elif found[0] == (wanted,):
                return found[1]
        return None

    def details(self, scope: Scope, thing: Bound) -> Steps:
        """See Kind: `arguments_raw`, base64 of the table's octets, where JSON does not say them: so whoever removes
        this binding names it and no other."""
        arguments = thing.binding.arguments
        if not arguments:
            return {}
        raw = arguments.raw if isinstance(arguments, Table) else encode_table(arguments)
        described = describe_arguments(raw)
        return {"arguments_raw": described["arguments_raw"]} if "arguments_raw" in described else {}
        yield


class _Keyed(tuple[str, Binding]):
    """A key of a copy, and what it is of, which has no order."""

    __slots__ = ()

    def __lt__(self, other: tuple[object, ...]) -> bool:
        return self[0] < str(other[0])

    def __gt__(self, other: tuple[object, ...]) -> bool:
        return self[0] > str(other[0])


def _key_of(binding: Binding) -> str:
    return properties_key(binding.binding_key, as_object(binding.arguments))
