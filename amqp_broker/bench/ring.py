"""Ring: prebuilt publishes that a producer sends over and over, all of one length, so that arithmetic finds
the n-th.

It knows the wire format of a publish (AMQP 0-9-1 §4.2.6) and nothing of sockets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from amqp_broker.bench.scenario import Route, Scenario
from amqp_broker.protocol import constants, methods
from amqp_broker.protocol.frames import encode_content, encode_method_frame
from amqp_broker.protocol.properties import encode_properties

STAMP_SIZE = 8  # octets at the start of a body that hold the time of sending
MAX_OCTETS = 8 << 20  # of a ring: more would push the broker out of the processor's caches
MAX_MESSAGES = 16384


@dataclass(frozen=True, slots=True)
class Ring:
    """`octets`: messages of `pitch` octets each; `stamp_at`: where in each its time of sending goes, or
    -1.
    """

    octets: bytearray
    pitch: int
    stamp_at: int


def build_ring(scenario: Scenario, producer: int, frame_max: int, channel: int) -> Ring:
    """A producer's ring, at least a batch long, in which every one of its routes occurs equally often.

    Of very many routes, as many as a ring may hold are taken, evenly spread. Bodies of fewer than eight
    octets go without a timestamp, and so without a latency.
    """
    routes = scenario.routes_of(producer)
    first = build_publish(scenario, routes[0], frame_max, channel)
    room = max(1, min(MAX_MESSAGES, MAX_OCTETS // len(first)))
    taken = routes[:: math.ceil(len(routes) / room)]
    turn = [build_publish(scenario, route, frame_max, channel) for route in taken]
    if any(len(publish) != len(first) for publish in turn):
        raise ValueError(f"routes of one producer must be of one length; those from {taken[0]} on are not")
    repeats = max(1, math.ceil(min(scenario.publish_batch, room) / len(turn)))
    head = len(build_publish(scenario, routes[0], frame_max, channel, has_body=False))
    stamp_at = head + constants.FRAME_HEADER_SIZE if scenario.size >= STAMP_SIZE else -1
    return Ring(bytearray(b"".join(turn) * repeats), len(first), stamp_at)


def build_publish(
    scenario: Scenario, route: Route, frame_max: int, channel: int, has_body: bool = True
) -> bytes:
    """The frames of one publish; without its body, if asked so."""
    exchange = "" if scenario.exchange_type == "default" else scenario.exchange
    publish = methods.BasicPublish(exchange=exchange, routing_key=route.routing_key)
    properties: dict[str, object] = {}
    if route.headers:
        properties["headers"] = route.headers
    if scenario.persistent:
        properties["delivery_mode"] = constants.DELIVERY_MODE_PERSISTENT
    body = b"x" * (scenario.size if has_body else 0)
    content = encode_content(channel, encode_properties(properties), body, frame_max)
    return encode_method_frame(channel, publish) + content
