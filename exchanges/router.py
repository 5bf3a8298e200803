"""Router: the exchanges of one virtual host, the graph of their bindings, and a message's walk through it.

It knows queues by name only (and asks whether the default exchange's queue is there), and it judges nothing:
permissions, reserved names, equivalence of declarations and refusals are the caller's, as are the deletions
that `is_abandoned` calls for.

Invariants:
1. `_sources[destination]` names the exchanges with a binding to the destination; beside them only removed ones whose
   many bindings are still being forgotten.
2. No binding leads to an exchange that is not there. An alternate exchange may be missing: then it is passed
   over.
3. A walk visits an exchange once, whatever cycles the bindings and alternates make.
4. `binding_count` counts the bindings.
5. Before anything returns that may have changed routes, `touched` was called with the exchanges at which they begin
   and, where only messages with one routing key are concerned, that key.
6. What costs by the number of bindings when a queue or an exchange goes is left to a job (`later`), in slices. Nobody
   sees that it is not done yet: what has gone is reached by no message and listed nowhere.
7. `_targets[source]` names exactly the exchanges that a binding leads to from there, `_alternates[name]` exactly those
   that have it as their alternate, whether it is there or not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from amqp_broker.octets.sorted_keys import SortedKeys
from exchanges.bindings import EXCHANGE, QUEUE, Binding, Destination
from exchanges.default import DefaultExchange
from exchanges.delayed import delay_of
from exchanges.exchange import MOST_AT_ONCE, Exchange, MessageFacts
from exchanges.registry import DEFAULT_EXCHANGE, PREDECLARED, create_exchange

Key = TypeVar("Key")
Value = TypeVar("Value")


class UnknownExchange(LookupError):
    """There is no exchange of that name (a 404 to a client)."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no exchange {name!r}; declare it first")
        self.name = name


@dataclasses.dataclass
class ExchangeEntry:
    """An exchange as it was declared; `alternate` is the alternate exchange in force (argument or policy).
    published_in: how many messages came to it, published_out: to how many queues they went; both as far as who
    publishes has counted them."""

    name: str
    exchange: Exchange
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    alternate: str | None = None
    was_bound: bool = False
    arguments: Mapping[str, object] | None = None
    published_in: int = 0
    published_out: int = 0

    @property
    def is_topic(self) -> bool:
        """Whether it routes by patterns, for which users have permissions of their own."""
        return self.exchange.type_name == "topic"

    def count(self, messages: int, copies: int) -> None:
        """So many messages more came to it, and went to so many queues all together."""
        self.published_in += messages
        self.published_out += copies

    def count_copies(self, copies: int) -> None:
        """What came to it before, in a transaction, went to so many queues."""
        self.published_out += copies


class Route:
    """Where a message goes.

    `queues`: their names, each once. `delayed`: the x-delayed-message exchanges before which it has to wait.
    `is_cacheable`: the same exchange and routing keys give the same route until it is touched.
    """

    __slots__ = ("delayed", "is_cacheable", "queues")

    def __init__(self, queues: list[str], is_cacheable: bool, delayed: list[str]) -> None:
        self.queues = queues
        self.is_cacheable = is_cacheable
        self.delayed = delayed

    def __repr__(self) -> str:
        return f"Route(queues={self.queues!r}, is_cacheable={self.is_cacheable!r}, delayed={self.delayed!r})"


#: Of one exchange more keys than this are not told one by one.
_MANY_KEYS = 32
#: Of more exchanges than this that lead to one queue no keys are told at all.
_MANY_SOURCES = 64
#: Told of routes that may have changed: the exchanges at which they begin, and their routing key (None: any).
Touched = Callable[[list[str], str | None], None]
#: Takes a job: `job(now)` does a slice of it and returns whether there is more.
Later = Callable[[Callable[[int], bool]], None]


def _nobody(exchanges: list[str], routing_key: str | None) -> None:
    """Nobody is told."""


def at_once(job: Callable[[int], bool]) -> None:
    """Nobody else waits."""
    while job(0):
        pass


class Router:
    """One virtual host's exchanges; the predeclared ones are there from the start. touched is told which routes may
    have changed; later gets what is to be done in slices. names: of the exchanges, in their order."""

    def __init__(
        self, queue_exists: Callable[[str], bool], touched: Touched = _nobody, later: Later = at_once
    ) -> None:
        self.binding_count = 0
        self._touched = touched
        self._later = later
        #: With bindings of what has gone; and exchanges that have gone themselves, each with its name.
        self._forgetting: dict[Exchange, None] = {}
        self._removed: dict[Exchange, str] = {}
        self._is_at_it = False
        self._targets: dict[str, dict[str, None]] = {}
        self._alternates: dict[str, dict[str, None]] = {}
        self._entries: dict[str, ExchangeEntry] = {}
        self.names: SortedKeys[str] = SortedKeys()
        self._sources: dict[Destination, dict[str, None]] = {}
        for name, type_name, internal in PREDECLARED:
            exchange = (
                DefaultExchange(queue_exists) if name == DEFAULT_EXCHANGE else create_exchange(type_name, {})
            )
            self.add(name, exchange, durable=True, internal=internal)

    def add(
        self,
        name: str,
        exchange: Exchange,
        *,
        alternate: str | None = None,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Mapping[str, object] | None = None,
    ) -> ExchangeEntry:
        """Add an exchange under a name that is free; ValueError where it is not."""
        if name in self._entries:
            raise ValueError(f"exchange {name!r} is there already; ask get() first")
        entry = ExchangeEntry(name, exchange, durable, auto_delete, internal, alternate, arguments=arguments)
        self._entries[name] = entry
        self.names.add(name)
        if alternate is not None:
            self._alternates.setdefault(alternate, {})[name] = None
        self._touch(name, None)
        return entry

    def get(self, name: str) -> ExchangeEntry | None:
        return self._entries.get(name)

    def entries(self) -> list[ExchangeEntry]:
        """All exchanges in the order of their declaration, the predeclared first."""
        return list(self._entries.values())

    @property
    def declared_count(self) -> int:
        """How many exchanges there are besides the predeclared."""
        return len(self._entries) - len(PREDECLARED)

    def set_alternate(self, name: str, alternate: str | None) -> None:
        """Change the alternate exchange in force (None: none; "": the default exchange). Raises
        UnknownExchange."""
        entry = self._entry(name)
        if entry.alternate != alternate:
            self._leave_alternate(entry)
            entry.alternate = alternate
            if alternate is not None:
                self._alternates.setdefault(alternate, {})[name] = None
            self._touch(name, None)

    def _leave_alternate(self, entry: ExchangeEntry) -> None:
        if entry.alternate is not None:
            take_out(self._alternates, entry.alternate, entry.name)

    def remove(self, name: str) -> list[str]:
        """Remove an exchange with the bindings from it and to it. Returns the other exchanges that had any to it: they
        may now be abandoned.

        Raises UnknownExchange, and ValueError for the default exchange.
        """
        entry = self._entry(name)
        if name == DEFAULT_EXCHANGE:
            raise ValueError("the default exchange cannot be removed: every queue is reached through it")
        self._touch(name, None)
        self._leave_alternate(entry)
        self._targets.pop(name, None)
        del self._entries[name]
        self.names.discard(name)
        self.binding_count -= entry.exchange.binding_count
        sources = self._remove_destination(Destination(EXCHANGE, name))
        self._removed[entry.exchange] = name
        self._forget_more()
        return sources

    def remove_queue(self, name: str) -> list[str]:
        """Remove all bindings to a queue that is going away; returns the exchanges that had any: they may now be
        abandoned.

        To be called for every queue that is deleted, bound or not: cached routes of the default exchange end
        here.
        """
        self._touch_all(Destination(QUEUE, name))
        sources = self._remove_destination(Destination(QUEUE, name))
        self._touch(DEFAULT_EXCHANGE, name)
        self._forget_more()
        return sources

    def touch_queue(self, name: str) -> None:
        """There is a queue of this name now, or another one: routes that lead to it are told of."""
        self._touch_all(Destination(QUEUE, name))
        self._touch(DEFAULT_EXCHANGE, name)

    def bind(
        self, source: str, destination: Destination, binding_key: str, arguments: Mapping[str, object]
    ) -> bool:
        """Add a binding. False: it was there already.

        Raises UnknownExchange (source or destination), and ValueError with a text for a 406 where the
        source's type cannot take it.
        """
        entry = self._entry(source)
        if destination.kind == EXCHANGE:
            self._entry(destination.name)
        if not entry.exchange.bind(destination, binding_key, arguments):
            return False
        entry.was_bound = True
        self.binding_count += 1
        self._sources.setdefault(destination, {})[source] = None
        if destination.kind == EXCHANGE:
            self._targets.setdefault(source, {})[destination.name] = None
        self._touch_binding(entry, destination, binding_key)
        return True

    def unbind(
        self, source: str, destination: Destination, binding_key: str, arguments: Mapping[str, object]
    ) -> bool:
        """Remove a binding; the source may then be abandoned. False: there is none such. Raises
        UnknownExchange."""
        entry = self._entry(source)
        if not entry.exchange.unbind(destination, binding_key, arguments):
            return False
        self.binding_count -= 1
        self._touch_binding(entry, destination, binding_key)
        if not entry.exchange.is_bound_to(destination):
            self._forget_source(source, destination)
        return True

    def is_abandoned(self, name: str) -> bool:
        """An auto-delete exchange that had bindings and has none left: the caller should remove it."""
        entry = self._entries.get(name)
        return entry is not None and entry.auto_delete and entry.was_bound and entry.exchange.is_unused

    def bindings(self) -> list[tuple[str, Binding]]:
        """All bindings, each with its source's name; without the implicit ones of the default exchange."""
        return [
            (entry.name, binding) for entry in self._entries.values() for binding in entry.exchange.bindings()
        ]

    def sources_of(self, destination: Destination) -> list[str]:
        """The exchanges that are bound to one destination."""
        return [source for source in self._sources.get(destination, ()) if source in self._entries]

    def bindings_to(self, destination: Destination) -> list[tuple[str, Binding]]:
        """The bindings to one destination, each with its source's name."""
        return [
            (source, binding)
            for source in self._sources.get(destination, {})
            if source in self._entries
            for binding in self._entries[source].exchange.bindings_to(destination)
        ]

    def route(
        self,
        exchange_name: str,
        routing_keys: Sequence[str],
        facts: MessageFacts | None,
        follow_delayed: bool = False,
    ) -> Route:
        """Walk a message with its routing keys (its own, then CC and BCC) from an exchange to the queues.

        An alternate exchange is tried where an exchange has nothing that matches. Where the message has to
        wait before an exchange, the walk does not go on there, unless `follow_delayed` says that it has
        waited. Raises UnknownExchange for the first exchange only.
        """
        entry = self._entries.get(exchange_name)
        if entry is None:
            raise UnknownExchange(exchange_name)
        exchange = entry.exchange
        if len(routing_keys) == 1 and not exchange.delays:
            # Nearly every message: one key, and nothing but queues behind one exchange.
            destinations = exchange.reached(routing_keys[0], facts)
            queues = [destination.name for destination in destinations if destination.kind == QUEUE]
            is_stranded = not destinations and (
                entry.alternate is not None or exchange_name == DEFAULT_EXCHANGE
            )
            if len(queues) == len(destinations) and not is_stranded:
                return Route(queues, not exchange.routes_by_headers, [])
        return self._walk(entry, routing_keys, facts, follow_delayed)

    def _walk(
        self,
        first: ExchangeEntry,
        routing_keys: Sequence[str],
        facts: MessageFacts | None,
        follow_delayed: bool,
    ) -> Route:
        """The whole walk that `route` describes."""
        queues: dict[str, None] = {}
        delayed: list[str] = []
        is_cacheable = True
        visited: dict[str, None] = {first.name: None}
        pending: list[ExchangeEntry] = [first]
        for entry in pending:
            exchange = entry.exchange
            if exchange.routes_by_headers:
                is_cacheable = False
            if exchange.delays and not follow_delayed and facts is not None and delay_of(facts.headers) > 0:
                delayed.append(entry.name)
                continue
            destinations = exchange.reached_by_all(routing_keys, facts)
            if entry.name == DEFAULT_EXCHANGE and len(destinations) < len(routing_keys):
                is_cacheable = False
            following: list[str] = []
            for destination in destinations:
                if destination.kind == QUEUE:
                    queues[destination.name] = None
                else:
                    following.append(destination.name)
            if not destinations and entry.alternate is not None:
                following.append(entry.alternate)
            for name in following:
                if name not in visited and name in self._entries:
                    visited[name] = None
                    pending.append(self._entries[name])
        return Route(list(queues), is_cacheable, delayed)

    def _entry(self, name: str) -> ExchangeEntry:
        entry = self._entries.get(name)
        if entry is None:
            raise UnknownExchange(name)
        return entry

    def tell_nobody(self) -> None:
        """The virtual host is gone: let go of whoever was told of changes."""
        self._touched = _nobody

    def depends_on_message(self, exchange_name: str) -> bool:
        """Whether an exchange that looks at more than the routing key can be reached from this one. It costs what there
        is of exchanges behind it, however many bindings they have."""
        return any(each.routes_by_headers or each.delays for each in self._behind(exchange_name))

    def depends_on_properties(self, exchange_name: str) -> bool:
        """Whether one can be that looks at more than the routing key and the headers. It costs as much."""
        return any(each.routes_by_properties for each in self._behind(exchange_name))

    def _behind(self, exchange_name: str) -> Iterator[Exchange]:
        """The exchange, and those that messages can come to from it."""
        seen: dict[str, None] = {exchange_name: None}
        pending = [exchange_name]
        for name in pending:
            entry = self._entries.get(name)
            if entry is None:
                continue
            yield entry.exchange
            following = [*self._targets.get(name, ())]
            if entry.alternate is not None:
                following.append(entry.alternate)
            for each in following:
                if each not in seen:
                    seen[each] = None
                    pending.append(each)

    def _touch_binding(self, entry: ExchangeEntry, destination: Destination, binding_key: str) -> None:
        """A binding came or went. One to an exchange concerns messages of all keys: what is behind it may look at more
        than that."""
        key = entry.exchange.only_key(binding_key) if destination.kind == QUEUE else None
        self._touch(entry.name, key)

    def _touch_all(self, destination: Destination) -> None:
        """All that leads to a queue. Of very many bindings the keys are not told."""
        sources = [source for source in self._sources.get(destination, ()) if source in self._entries]
        if len(sources) > _MANY_SOURCES:
            self._touch_together(sources, None)
            return
        for source in sources:
            exchange = self._entries[source].exchange
            keys = exchange.keys_to(destination, _MANY_KEYS)
            only = None if keys is None else dict.fromkeys(map(exchange.only_key, keys))
            if only is None or None in only:
                self._touch(source, None)
            else:
                for key in only:
                    self._touch(source, key)

    def _touch(self, name: str, routing_key: str | None) -> None:
        """Routes through an exchange may have changed: those of all from which it can be reached."""
        self._touch_together([name], routing_key)

    def _touch_together(self, touched: list[str], routing_key: str | None) -> None:
        """The same of several, to which those are added from which they can be reached."""
        if self._targets or self._alternates:
            seen = dict.fromkeys(touched)
            for each in touched:
                for sources in (self._sources.get(Destination(EXCHANGE, each)), self._alternates.get(each)):
                    for source in sources or ():
                        if source not in seen:
                            seen[source] = None
                            touched.append(source)
        self._touched(touched, routing_key)

    def _forget_source(self, source: str, destination: Destination) -> None:
        """The source has no binding to the destination any more."""
        take_out(self._sources, destination, source)
        if destination.kind == EXCHANGE:
            take_out(self._targets, source, destination.name)

    def _remove_destination(self, destination: Destination) -> list[str]:
        """Nothing leads to it any more. Returns whence something did."""
        sources = []
        for source in self._sources.pop(destination, ()):
            entry = self._entries.get(source)
            count = entry.exchange.remove_destination(destination) if entry is not None else 0
            if entry is not None and count:
                sources.append(source)
                self.binding_count -= count
                if destination.kind == EXCHANGE:
                    take_out(self._targets, source, destination.name)
                if entry.exchange.is_forgetting:
                    self._forgetting[entry.exchange] = None
        return sources

    def _forget_more(self) -> None:
        """What has gone is forgotten: at once where it is little."""
        if not self._is_at_it:
            self._is_at_it = True
            if self._forget(0):
                self._later(self._forget)

    def _forget(self, now: int) -> bool:
        """A slice of what has gone. Returns whether there is more."""
        most = MOST_AT_ONCE
        while most > 0 and self._forgetting:
            exchange, _ = self._forgetting.popitem()
            most -= exchange.forget(most)
            if exchange.is_forgetting:
                self._forgetting[exchange] = None
        while most > 0 and self._removed:
            exchange, name = self._removed.popitem()
            if exchange.is_unused:
                continue
            destination, count = exchange.remove_last_destination()
            most -= count
            entry = self._entries.get(name)
            if entry is None or not entry.exchange.is_bound_to(destination):
                self._forget_source(name, destination)
            if exchange.is_forgetting:
                self._forgetting[exchange] = None
            self._removed[exchange] = name
        self._is_at_it = bool(self._forgetting or self._removed)
        return self._is_at_it


def take_out(index: dict[Key, dict[Value, None]], key: Key, value: Value) -> None:
    """A value is no longer under a key."""
    values = index.get(key)
    if values is not None:
        values.pop(value, None)
        if not values:
            del index[key]
