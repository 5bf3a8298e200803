"""RouteTest: the verb `route.test`: where a message would go, and what would become of it there. None is published.

Which queues, the router says as it does for a publish. How it comes there is shown exchange by exchange: what is
behind each (Exchange.reached_by_all), and of its bindings those that match and some that do not
(Exchange.leads_alone). No type of exchange is known here. What costs by the number of bindings and queues is done in
slices, and bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from amqp_broker.auth.permissions import Action, Permission, TopicPermission
from amqp_broker.management.definitions.arguments import read_arguments
from amqp_broker.management.objects.values import as_object
from amqp_broker.management.prospects import prospects_of
from amqp_broker.management.refused import not_found
from amqp_broker.messages.facts import MessageFacts, copy_keys
from amqp_broker.metadata.access import ADMINISTRATOR
from amqp_broker.protocol.errors import EncodeError
from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.protocol.properties import encode_properties
from amqp_broker.queue_types.remote.counts import RemoteCounts
from amqp_broker.turn.task import Steps
from exchanges.bindings import EXCHANGE, QUEUE, Binding, Destination
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
_SLICE = 16
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
        route = vhost.router.route(asked.exchange, asked.routing_keys, asked.facts)
        yield None
        exchanges, left_out = yield from _walk(vhost, entry, asked)
        queues = yield from self._queues(vhost, route.queues, asked)
        yield None
        refusal = refusal_of(self._metadata, user, name, entry, asked.routing_keys)
        return {
            "user": user,
            "permitted": not refusal,
            "refusal": refusal or None,
            "routing_keys": asked.routing_keys,
            "exchanges": exchanges,
            "exchanges_left_out": left_out,
            "queue_count": len(route.queues),
            "queues": queues,
            "queues_left_out": max(0, len(route.queues) - asked.limit),
            "waits_before": route.delayed,
            "summary": _summary(refusal, route.queues, route.delayed, queues),
        }

    def _queues(self, vhost: VHost, names: list[str], asked: Asked) -> Steps:
        counts = RemoteCounts(self._timers, self._clock.now)
        shown = [vhost.queues[name] for name in names[: asked.limit] if name in vhost.queues]
        for number, queue in enumerate(shown):
            counts.ask(queue)
            if number % _SLICE == _SLICE - 1:
                yield None
        yield counts.asked()
        found = []
        for queue in shown:
            yield None
            if not queue.is_deleted:
                found.append(prospects_of(queue, asked.size, asked.expiration))
        return found


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


def _walk(vhost: VHost, first: ExchangeEntry, asked: Asked) -> Steps:
    """Its result: the exchanges that a message comes to, in order (Router.route), and how many are not shown."""
    router = vhost.router
    found: list[JsonObject] = []
    visited: dict[str, None] = {first.name: None}
    pending: list[tuple[ExchangeEntry, str, str | None]] = [(first, "publish", None)]
    for number, (entry, how, source) in enumerate(pending):
        if number >= MOST_EXCHANGES:
            break
        waits = entry.exchange.delays and delay_of(asked.facts.headers) > 0
        destinations = [] if waits else list(
            dict.fromkeys(entry.exchange.reached_by_all(asked.routing_keys, asked.facts))
        )  # fmt: skip
        yield None
        takes_alternate = not destinations and not waits and entry.alternate is not None
        following = [(each.name, "binding") for each in destinations if each.kind == EXCHANGE]
        if takes_alternate:
            following.append((entry.alternate or "", "alternate"))
        for name, way in following:
            reached = router.get(name)
            if name not in visited and reached is not None:
                visited[name] = None
                pending.append((reached, way, entry.name))
        bindings = yield from _bindings_of(entry, destinations, asked)
        found.append({
            "name": entry.name, "type": entry.exchange.type_name, "internal": bool(entry.internal),
            "reached_by": how, "reached_from": source, "waits": waits, "alternate_exchange": entry.alternate,
            "takes_alternate": takes_alternate, "destination_count": len(destinations),
            "queues": [each.name for each in destinations if each.kind == QUEUE][: asked.limit],
            "exchanges": [each.name for each in destinations if each.kind == EXCHANGE][: asked.limit],
            **bindings,
        })  # fmt: skip
    return found, len(pending) - len(found)


def _bindings_of(entry: ExchangeEntry, destinations: list[Destination], asked: Asked) -> Steps:
    """Its result: bindings that match, and some of those that do not; and how many there are altogether."""
    exchange = entry.exchange
    if entry.name == DEFAULT_EXCHANGE:
        matched = [_shown(Binding(each, each.name, {})) for each in destinations[: asked.limit]]
        return {"binding_count": None, "matched": matched, "not_matched": [], "next_skip": None}
    matched = []
    for each in destinations:
        if len(matched) >= asked.limit:
            break
        for number, binding in enumerate(exchange.some_bindings_to(each, asked.limit)):
            if exchange.leads_alone(binding, asked.routing_keys, asked.facts):
                matched.append(_shown(binding))
            if number % _SLICE == _SLICE - 1:
                yield None
        yield None
    others, next_skip = yield from _others(entry, destinations, asked)
    return {
        "binding_count": exchange.binding_count, "matched": matched[: asked.limit], "not_matched": others,
        "next_skip": next_skip,
    }  # fmt: skip


def _others(entry: ExchangeEntry, destinations: list[Destination], asked: Asked) -> Steps:
    """Its result: bindings that do not match, and from where on there may be more, None where all were tried."""
    exchange, reached = entry.exchange, set(destinations)
    found: list[JsonObject] = []
    place = tried = 0
    for each in exchange.destinations():
        for binding in exchange.some_bindings_to(each, asked.limit):
            place += 1
            if place % 256 == 0:
                yield None
            if place <= asked.skip:
                continue
            if len(found) >= asked.limit or tried >= MOST_TRIED:
                return found, place - 1
            tried += 1
            if tried % _SLICE == 0:
                yield None
            if each not in reached or not exchange.leads_alone(binding, asked.routing_keys, asked.facts):
                found.append(_shown(binding))
    return found, None


def _shown(binding: Binding) -> JsonObject:
    return {
        "destination": binding.destination.name,
        "destination_type": binding.destination.kind,
        "routing_key": binding.binding_key,
        "arguments": as_object(binding.arguments),
    }


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


def _summary(refusal: str, names: list[str], delayed: list[str], queues: list[JsonObject]) -> str:
    """In a sentence."""
    if refusal:
        return f"refused: {refusal}"
    if not names and not delayed:
        return "goes nowhere: no binding matches; it is dropped, or returned if it is mandatory"
    said = []
    if names:
        said.append(f"goes to {len(names)} queue{'s' if len(names) != 1 else ''}")
    if delayed:
        said.append(f"waits before {', '.join(delayed)}")
    refusing = [each["name"] for each in queues if each["limits"] and each["limits"]["would"] == "reject"]
    if refusing:
        said.append(f"is refused by {', '.join(refusing)}, so its publisher hears basic.nack")
    return "; ".join(said)
