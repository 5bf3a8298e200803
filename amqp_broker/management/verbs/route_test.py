"""RouteTest: the verb `route.test`: where a message would go, and what would become of it there. None is published.

The way is Router.route's, gone in slices, exchange by exchange: what is behind each (Exchange.each_reached), and of
its bindings those that match and some that do not (Exchange.leads_alone). No type of exchange is known here. What costs
by the number of bindings and queues is done in slices, and bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count as numbers_from
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from amqp_broker.auth.permissions import Action, Permission, TopicPermission
from amqp_broker.management.definitions.arguments import read_arguments
from amqp_broker.management.objects.values import as_object
from amqp_broker.management.refused import not_found
from amqp_broker.management.verbs.prospects import prospects_of
from amqp_broker.management.written_json import JsonChunks, JsonText, encode_value
from amqp_broker.messages.facts import MessageFacts, copy_keys
from amqp_broker.metadata.access import ADMINISTRATOR
from amqp_broker.protocol.errors import EncodeError
from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.protocol.properties import encode_properties
from amqp_broker.queue_types.remote.counts import RemoteCounts
from amqp_broker.turn.gradual_table import GradualTable
from amqp_broker.turn.task import Steps
from exchanges.bindings import QUEUE, Binding, Destination
from exchanges.delayed import delay_of
from exchanges.registry import DEFAULT_EXCHANGE
from queues.message import Address, build_message

if TYPE_CHECKING:
    from amqp_broker.management.request import Request
    from amqp_broker.metadata.metadata import Metadata
    from amqp_broker.routing.vhost import VHost
    from amqp_broker.vhosts.broker import Broker
    from exchanges.router import ExchangeEntry

#: So many bindings of each sort are shown of an exchange, and so many queues; unless less is asked for.
MOST_SHOWN = 200
#: So many exchanges are shown.
MOST_EXCHANGES = 50
#: So many bindings of one exchange are tried, those that match not counted.
MOST_TRIED = 2000
#: So many bindings are tried, and queues looked at, in one slice.
_SLICE = 8
#: So many destinations are handed on, and bindings passed over, in one slice.
_HANDED = 16
#: Properties that a type of exchange may look at.
_PROPERTIES = ("message_id", "correlation_id", "app_id", "type", "user_id", "reply_to")


class Asked(NamedTuple):
    """What would be published. limit: so much is shown of each sort. skip: so many bindings are passed over.
    size: octets of the body. expiration: milliseconds, -1 for none."""

    exchange: str
    routing_keys: list[str]
    facts: MessageFacts
    limit: int
    skip: int
    size: int
    expiration: int


class RouteTest:
    """See the module's docstring."""

    def __init__(self, broker: Broker) -> None:
        self._vhosts = broker.vhosts
        self._timers = broker.timers
        self._clock = broker.clock
        self._metadata = broker.metadata
        self.verbs: dict[str, Callable[[Request], Steps]] = {
            "route.test": self._test,
        }

    def _test(self, request: Request) -> Steps:
        """As the user who is named, who asks unless another one is."""
        name, asker = request.text("vhost"), request.asker
        vhost = self._vhosts.get(name)
        if vhost is None:
            raise not_found("vhost", name)
        asker.check_vhost(name)
        user = request.text("user", asker.name)
        if user != asker.name:
            asker.check(ADMINISTRATOR)
            if self._metadata.user(user) is None:
                raise not_found("user", user)
        yield None
        asked = _read(request)
        yield None
        entry = vhost.router.get(asked.exchange)
        if entry is None:
            raise not_found("exchange", asked.exchange, name)
        walk = Walk(vhost, asked)
        exchanges = yield from walk.from_exchange(entry)
        queues, refusing = yield from self._queues(vhost, list(islice(walk.queues, asked.limit)), asked)
        refusal = refusal_of(self._metadata, user, name, entry, asked.routing_keys)
        count = len(walk.queues)
        yield from walk.queues.let_go()
        return {
            "user": user,
            "permitted": not refusal,
            "refusal": refusal or None,
            "routing_keys": asked.routing_keys,
            "exchanges": exchanges,
            "exchanges_left_out": walk.left_out,
            "queue_count": count,
            "queues": queues,
            "queues_left_out": max(0, count - asked.limit),
            "waits_before": walk.delayed,
            "summary": _summary(refusal, count, walk.delayed, refusing),
        }

    def _queues(self, vhost: VHost, names: list[str], asked: Asked) -> Steps:
        """Its result: what is known of each, and the names of those that would refuse it."""
        counts = RemoteCounts(self._timers, self._clock.now)
        shown = [queue for name in names if (queue := vhost.queues.look(name)) is not None]
        for number, queue in enumerate(shown):
            counts.ask(queue)
            if number % _SLICE == _SLICE - 1:
                yield None
        yield counts.asked()
        found, refusing = JsonChunks("[]"), []
        for queue in shown:
            yield None
            if queue.is_deleted:
                continue
            prospects = prospects_of(queue, asked.size, asked.expiration)
            found.add(encode_value(prospects))
            if prospects["limits"] and prospects["limits"]["would"] == "reject":
                refusing.append(queue.name)
        return found, refusing


def _read(request: Request) -> Asked:
    """Raises ValueError."""
    exchange, key = request.text("exchange"), request.text("routing_key", "")
    headers = read_arguments(_object(request, "headers"))
    given = _object(request, "properties")
    unknown = [name for name in given if name not in _PROPERTIES]
    if unknown:
        known = ", ".join(_PROPERTIES)
        raise ValueError(f"field properties: '{unknown[0][:100]}' decides on no route; these may: {known}")
    try:
        section = encode_properties({**given, "headers": headers} if headers else given)
    except EncodeError as error:
        raise ValueError(f"field properties: {error}") from None
    message = build_message(Address(b"\0\0"), section, b"", False, -1, -1, 0)
    facts = MessageFacts(message)
    return Asked(
        exchange,
        [key, *copy_keys(facts)],
        facts,
        request.number("limit", 100, 1, MOST_SHOWN),
        request.number("skip", 0, 0, 1 << 40),
        request.number("size", 0, 0, 1 << 40),
        request.number("expiration", -1, -1, 1 << 40),
    )


def _object(request: Request, key: str) -> JsonObject:
    value = request.get(key, {})
    if not isinstance(value, dict):
        raise ValueError(f"field {key} has to be an object, got {str(value)[:100]!r}")
    return value


# -- the walk ----------------------------------------------------------------------------------------------------------


class Walk:
    """A message on its way from an exchange on: where Router.route leads it, in slices, and shown. queues, delayed: as
    there. left_out: so many exchanges on its way are not shown."""

    def __init__(self, vhost: VHost, asked: Asked) -> None:
        self.queues: GradualTable[str, None] = GradualTable()
        self.delayed: list[str] = []
        self.left_out = 0
        self._router = vhost.router
        self._asked = asked

    def from_exchange(self, first: ExchangeEntry) -> Steps:
        """Its result: the exchanges that a message comes to, in order."""
        asked, found = self._asked, JsonChunks("[]")
        visited: dict[str, None] = {first.name: None}
        pending: list[tuple[ExchangeEntry, str, str | None]] = [(first, "publish", None)]
        for number, (entry, how, source) in enumerate(pending):
            waits = entry.exchange.delays and delay_of(asked.facts.headers) > 0
            reached, queues, following = yield from self._reached_by(entry, waits)
            yield None
            takes_alternate = not reached and not waits and entry.alternate is not None
            ways = [(name, "binding") for name in following]
            if takes_alternate:
                ways.append((entry.alternate or "", "alternate"))
            for name, way in ways:
                behind = self._router.get(name)
                if name not in visited and behind is not None:
                    visited[name] = None
                    pending.append((behind, way, entry.name))
            if number >= MOST_EXCHANGES:
                self.left_out += 1
                yield from reached.let_go()
                continue
            shown = JsonChunks("{}")
            for key, value in {
                "name": entry.name, "type": entry.exchange.type_name, "internal": bool(entry.internal),
                "reached_by": how, "reached_from": source, "waits": waits, "alternate_exchange": entry.alternate,
                "takes_alternate": takes_alternate, "destination_count": len(reached),
                "queues": queues, "exchanges": following[: asked.limit],
            }.items():  # fmt: skip
                shown.add(encode_value(value), key)
            yield None
            for key, rows in (yield from _bindings_of(entry, reached, asked)).items():
                shown.add(rows if isinstance(rows, JsonChunks) else encode_value(rows), key)
            found.add(shown)
            yield from reached.let_go()
        return found

    def _reached_by(self, entry: ExchangeEntry, waits: bool) -> Steps:
        """Its result: what is behind an exchange for this message, each once, in order; the names of those queues that
        are shown; those of the exchanges."""
        reached: GradualTable[Destination, None] = GradualTable()
        queues: list[str] = []
        following: list[str] = []
        if waits:
            self.delayed.append(entry.name)
            return reached, queues, following
        exchange, asked = entry.exchange, self._asked
        destinations = exchange.each_reached(asked.routing_keys, asked.facts)
        changes = exchange.changes
        for number in numbers_from(1):
            if number % _HANDED == 0:
                yield None
                if exchange.changes != changes:  # all as it is now, at once
                    changes = exchange.changes
                    destinations = iter(exchange.reached_by_all(asked.routing_keys, asked.facts))
            each = next(destinations, None)
            if each is None:
                break
            if each not in reached:
                reached[each] = None
                if each.kind == QUEUE:
                    self.queues[each.name] = None
                    shown = queues if len(queues) < asked.limit else None
                else:
                    shown = following
                if shown is not None:
                    shown.append(each.name)
        return reached, queues, following


def _bindings_of(entry: ExchangeEntry, reached: GradualTable[Destination, None], asked: Asked) -> Steps:
    """Its result: bindings that match, and some of those that do not; and how many there are altogether."""
    exchange = entry.exchange
    matched, count = JsonChunks("[]"), 0
    if entry.name == DEFAULT_EXCHANGE:
        for each in islice(reached, asked.limit):
            matched.add(_shown(Binding(each, each.name, {})))
        return {"binding_count": None, "matched": matched, "not_matched": [], "next_skip": None}
    for each in reached:
        if count >= asked.limit:
            break
        for number, binding in enumerate(exchange.some_bindings_to(each, asked.limit)):
            if exchange.leads_alone(binding, asked.routing_keys, asked.facts) and count < asked.limit:
                matched.add(_shown(binding))
                count += 1
            if number % _SLICE == _SLICE - 1:
                yield None
        yield None
    others, next_skip = yield from _others(entry, reached, asked)
    return {
        "binding_count": exchange.binding_count, "matched": matched, "not_matched": others, "next_skip": next_skip
    }  # fmt: skip


def _others(entry: ExchangeEntry, reached: GradualTable[Destination, None], asked: Asked) -> Steps:
    """Its result: bindings that do not match, and from where on there may be more, None where all were tried. Where
    bindings to something else come meanwhile, or the last of one goes, it ends there."""
    exchange = entry.exchange
    found, count = JsonChunks("[]"), 0
    place = tried = 0
    destinations = exchange.each_destination()
    while True:
        try:
            each = next(destinations, None)
        except RuntimeError:
            return found, place
        if each is None:
            return found, None
        for binding in exchange.some_bindings_to(each, asked.limit):
            place += 1
            if place % _HANDED == 0:
                yield None
            if place <= asked.skip:
                continue
            if count >= asked.limit or tried >= MOST_TRIED:
                return found, place - 1
            tried += 1
            if tried % _SLICE == 0:
                yield None
            if each not in reached or not exchange.leads_alone(binding, asked.routing_keys, asked.facts):
                found.add(_shown(binding))
                count += 1


def _shown(binding: Binding) -> JsonText:
    return encode_value({
        "destination": binding.destination.name,
        "destination_type": binding.destination.kind,
        "routing_key": binding.binding_key,
        "arguments": as_object(binding.arguments),
    })  # fmt: skip


# -- permission --------------------------------------------------------------------------------------------------------


def refusal_of(
    metadata: Metadata, user: str, vhost: str, entry: ExchangeEntry, routing_keys: Sequence[str]
) -> str:
    """Why the user may not publish so; empty if he may."""
    exchange = entry.name
    if entry.internal:
        return f"exchange '{exchange}' is internal: nobody publishes to it"
    grant = metadata.permission(user, vhost)
    if grant is None:
        return f"user '{user}' has no permission for vhost '{vhost}'"
    if not Permission(grant.configure, grant.write, grant.read).allows(Action.WRITE, exchange):
        return f"user '{user}' has no write permission on exchange '{exchange}'"
    topic = metadata.topic_permission(user, vhost, exchange) if entry.exchange.type_name == "topic" else None
    if topic is not None:
        allowed = TopicPermission(topic.write, topic.read, user, vhost)
        for key in routing_keys:
            if not allowed.allows(Action.WRITE, key):
                return f"the topic permission of user '{user}' on exchange '{exchange}' does not cover '{key}'"
    return ""


def _summary(refusal: str, count: int, delayed: list[str], refusing: list[str]) -> str:
    """In a sentence. count: of the queues. refusing: those of them that would not take it."""
    if refusal:
        return f"refused: {refusal}"
    if not count and not delayed:
        return "goes nowhere: no binding matches; it is dropped, or returned if it is mandatory"
    said = []
    if count:
        said.append(f"goes to {count} queue{'s' if count != 1 else ''}")
    if delayed:
        said.append(f"waits before {', '.join(delayed)}")
    if refusing:
        said.append(f"is refused by {', '.join(refusing)}, so its publisher hears basic.nack")
    return "; ".join(said)
