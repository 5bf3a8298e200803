"""The prebuilt publishes, decoded with the protocol package."""

from __future__ import annotations

import struct

import pytest

from amqp_broker.bench.ring import MAX_MESSAGES, Ring, build_ring
from amqp_broker.bench.scenario import Scenario
from amqp_broker.protocol import constants, methods
from amqp_broker.protocol.frames import Frame, FrameParser, decode_content_header
from amqp_broker.protocol.properties import decode_properties

CHANNEL = 1


def frames_of(ring: Ring, number: int = 0) -> list[Frame]:
    octets = bytes(ring.octets[number * ring.pitch : (number + 1) * ring.pitch])
    parser = FrameParser()
    frames = list(parser.receive_data(octets))
    assert len(parser._received) == 0
    return frames


@pytest.mark.parametrize("size", [0, 7, 8, 128, 131064, 131065, 1 << 20])
def test_a_publish_is_method_header_and_bodies(size: int) -> None:
    ring = build_ring(Scenario(size=size), 0, constants.DEFAULT_FRAME_MAX, CHANNEL)
    method, header, *bodies = frames_of(ring)
    assert methods.decode_method(method.payload) == methods.BasicPublish(routing_key="bench")
    assert decode_content_header(header.payload).body_size == size
    assert all(body.type == constants.FRAME_BODY for body in bodies)
    assert sum(len(body.payload) for body in bodies) == size


def test_the_timestamp_lies_at_the_start_of_the_first_body() -> None:
    ring = build_ring(Scenario(size=200, exchange_type="topic"), 0, 4096, CHANNEL)
    struct.pack_into(">Q", ring.octets, ring.pitch + ring.stamp_at, 0x0102030405060708)
    assert frames_of(ring, 1)[2].payload == bytes(range(1, 9)) + b"x" * 192


def test_a_body_without_room_for_a_timestamp_has_none() -> None:
    assert build_ring(Scenario(size=7), 0, 4096, CHANNEL).stamp_at == -1


def test_persistence_is_a_property() -> None:
    ring = build_ring(Scenario(persistent=True), 0, 4096, CHANNEL)
    properties = decode_properties(decode_content_header(frames_of(ring)[1].payload).properties)
    assert properties.delivery_mode == constants.DELIVERY_MODE_PERSISTENT


def test_every_route_takes_its_turn() -> None:
    scenario = Scenario(exchange_type="headers", bindings=100, exchange="bench-h")
    ring = build_ring(scenario, 0, 4096, CHANNEL)
    count = len(ring.octets) // ring.pitch
    assert count % 100 == 0
    seen = []
    for number in range(100):
        method, header, _ = frames_of(ring, number)
        assert methods.decode_method(method.payload) == methods.BasicPublish(exchange="bench-h", routing_key="bench")
        headers = decode_properties(decode_content_header(header.payload).properties).headers
        seen.append(dict(headers or {}))
    assert seen == [dict(route.headers) for route in scenario.routes()]


def test_a_ring_holds_a_batch_and_stays_within_its_room() -> None:
    small = build_ring(Scenario(), 0, 4096, CHANNEL)
    assert len(small.octets) // small.pitch == 64
    many = build_ring(Scenario(exchange_type="direct", bindings=100_000), 0, 4096, CHANNEL)
    assert len(many.octets) // many.pitch <= MAX_MESSAGES
    large = build_ring(Scenario(size=1 << 20), 0, constants.DEFAULT_FRAME_MAX, CHANNEL)
    assert len(large.octets) == large.pitch
