"""StreamModel has to complain of a stream that keeps more than its limit, and of no other."""

from __future__ import annotations

import pytest

from tests.cluster_simulation.stream_model import Published, StreamKind, StreamModel
from tests.queues.stream.stream_world import chunk_of
from tests.simulation.state import Violation

LIMIT = 3_000
KIND = StreamKind("kept", max_bytes=LIMIT)
CLOCK = 1_000
OF_A_CHUNK = 10
ROOM = bytes(100)


def model_of(messages: int) -> StreamModel:
    """Somebody has published so many messages to the stream, numbered from 0."""
    model = StreamModel()
    for number in range(messages):
        model.messages[number] = Published(number, KIND.name, body_of(number), producer="p", sequence=number)
    return model


def body_of(number: int) -> bytes:
    return b"%d:" % number + ROOM


def append(model: StreamModel, first: int, end: int) -> int:
    """A chunk with these messages is applied. Returns its octets."""
    chunk = chunk_of(*[body_of(number) for number in range(first, end)], producer=b"p", sequence=first)
    model.append(KIND.name, chunk, CLOCK)
    return len(chunk)


def test_what_is_beyond_the_limit_has_to_go() -> None:
    model = model_of(10 * OF_A_CHUNK)
    for first in range(0, 10 * OF_A_CHUNK, OF_A_CHUNK):
        append(model, first, first + OF_A_CHUNK)
    with pytest.raises(Violation, match="its limit is 3000"):
        model.limits(KIND, CLOCK)
    model.has(KIND, 8 * OF_A_CHUNK, 10 * OF_A_CHUNK, ("n1", 1))
    model.limits(KIND, CLOCK)


def test_what_was_known_of_a_chunk_takes_no_room() -> None:
    """A producer without a link sends all again each time that it has one, and one message more."""
    model = model_of(20)
    sizes = [append(model, 0, end) for end in range(OF_A_CHUNK, 20)]
    assert sum(sizes) > 5 * LIMIT
    assert model.content(KIND.name).numbers == list(range(19))
    model.limits(KIND, CLOCK)


def test_what_was_not_known_of_a_chunk_does() -> None:
    model = model_of(100)
    for first in range(0, 90, 5):
        append(model, first, first + OF_A_CHUNK)
    assert model.counts["known sequences"] > 80
    with pytest.raises(Violation, match="its limit is 3000"):
        model.limits(KIND, CLOCK)
