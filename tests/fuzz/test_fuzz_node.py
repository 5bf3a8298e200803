"""Hypothesis against a whole node in process: octets, conversations and damaged conversations, cut anywhere.

What has to hold is in harness.py: no defect, no exception, bounded memory, sensible closes, an untouched neighbour.
"""

from __future__ import annotations

import logging
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amqp_broker.protocol import constants as c
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.frames import encode_content, encode_frame
from tests.example_counts import examples
from tests.fuzz.conversation import conversation
from tests.fuzz.found_inputs import FOUND
from tests.fuzz.harness import attack, handshake, on_channel


@pytest.fixture(autouse=True)
def _few_words(caplog: pytest.LogCaptureFixture) -> None:
    """What is logged of nonsense is nonsense: names that are no UTF-8, which no report of a test can take."""
    caplog.set_level(logging.CRITICAL)


QUICK = settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])

VALID = b"".join(
    (
        handshake(),
        on_channel(
            1,
            m.ChannelOpen(),
            m.ConfirmSelect(),
            m.QueueDeclare(queue="q1", durable=True),
            m.QueueBind(queue="q1", exchange="amq.topic", routing_key="#"),
            m.BasicQos(0, 2, False),
            m.BasicConsume(queue="q1", consumer_tag="tag"),
            (m.BasicPublish(0, "amq.topic", "a.b", True), b"\x10\x00\x02", b"persistent"),
            (m.BasicPublish(0, "", "q1", True), b"\x00\x00", b"t" * 20_000),
            m.BasicAck(1),
            m.BasicNack(2, False, True),
            m.BasicGet(0, "q1", True),
            m.QueueDelete(queue="q1"),
            m.ChannelClose(200, "done"),
        ),
        on_channel(2, m.ChannelOpen(), m.TxSelect(), m.TxCommit(), m.BasicRecover(True)),
    )
)


def cut(octets: bytes, at: list[int]) -> list[bytes]:
    """The octets in chunks that end at these places."""
    ends = sorted({0, len(octets), *(place % (len(octets) + 1) for place in at)})
    return [octets[start:end] for start, end in pairwise(ends)]


CUTS = st.lists(st.integers(0, len(VALID)), max_size=6)


@QUICK
@given(st.binary(max_size=300), CUTS)
def test_any_octets(octets: bytes, at: list[int]) -> None:
    attack(cut(octets, at))


@QUICK
@given(st.binary(max_size=200), st.sampled_from([c.PROTOCOL_HEADER, handshake()]), CUTS)
def test_any_octets_behind_a_good_beginning(octets: bytes, beginning: bytes, at: list[int]) -> None:
    attack(cut(beginning + octets, at))


@QUICK
@given(
    st.sampled_from([1, 2, 3, 8, 0, 4]),
    st.sampled_from([0, 1, 2, 65535]),
    st.sampled_from(sorted(method.index for method in m.METHODS.values())),
    st.binary(max_size=60),
    CUTS,
)
def test_any_arguments_of_any_method(kind: int, channel: int, index: int, arguments: bytes, at: list[int]) -> None:
    """Whole frames whose payloads are nonsense behind the method's ids."""
    frame = encode_frame(kind, channel, index.to_bytes(4, "big") + arguments)
    attack(cut(handshake() + on_channel(1, m.ChannelOpen()) + frame + on_channel(1, m.ConfirmSelect()), at))


@QUICK
@given(st.binary(max_size=80), st.binary(max_size=40), st.integers(0, (1 << 64) - 1), CUTS)
def test_any_content_header(properties: bytes, body: bytes, size: int, at: list[int]) -> None:
    """Property sections and body sizes at will, then the body."""
    header = b"\x00\x3c\x00\x00" + size.to_bytes(8, "big") + properties
    octets = on_channel(1, m.ChannelOpen(), m.BasicPublish(0, "", "q", True)) + encode_frame(2, 1, header)
    attack(cut(handshake() + octets + encode_frame(3, 1, body) + encode_content(1, b"\x00\x00", b"", 4096), at))


@QUICK
@given(st.lists(st.tuples(st.integers(0, len(VALID) - 1), st.integers(0, 255)), max_size=4), CUTS)
def test_a_damaged_conversation(damage: list[tuple[int, int]], at: list[int]) -> None:
    """A conversation that uses most of the protocol, with some octets changed."""
    octets = bytearray(VALID)
    for place, octet in damage:
        octets[place] = octet
    attack(cut(bytes(octets), at))


@QUICK
@given(st.integers(0, len(VALID)), st.integers(0, len(VALID)), CUTS)
def test_a_conversation_with_a_hole(start: int, end: int, at: list[int]) -> None:
    attack(cut(VALID[: min(start, end)] + VALID[max(start, end) :], at))


@settings(QUICK, max_examples=examples(400))
@given(st.binary(max_size=150), st.booleans())
def test_conversations_from_programs(program: bytes, waits: bool) -> None:
    """Sensible and senseless steps in any order (conversation.py), and then some time."""
    attack(conversation(program), 3000 if waits else 0)


@pytest.mark.parametrize("name", sorted(FOUND))
def test_what_was_found(name: str) -> None:
    """Every program that once broke something, with its cause as its name."""
    attack(conversation(FOUND[name]), 3000)


def test_the_undamaged_conversation() -> None:
    """The beginning of all this is fine, whole and octet by octet."""
    assert attack([VALID]) == []
    assert attack([VALID[i : i + 1] for i in range(len(VALID))]) == []
