"""Quorum queues for the tests of them: made with their arguments, which are written as x_max_length=1."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.wire_channel import Channel
from tests.conformance.wire_frames import Message

#: What RabbitMQ 3.10 does otherwise in its quorum queues, or does not have.
NEWER = "its quorum queues do not have it"

ours_only = pytest.mark.ours_only(NEWER)


def declare(channel: Channel, name: str, **arguments: Any) -> str:
    """A quorum queue."""
    table = {key.replace("_", "-"): value for key, value in arguments.items()}
    return channel.declare(name, durable=True, arguments={"x-queue-type": "quorum", **table})


def take(channel: Channel, queue: str) -> Message:
    """The first message, which is held until it is acknowledged."""
    message = channel.get(queue, no_ack=False)
    assert message is not None, f"queue {queue} is empty"
    return message


def wait_for_counts(channel: Channel, queue: str, ready: int, consumers: int) -> None:
    """What a client has settled without an answer takes its time in a log: ask until the counts are these."""
    for _ in range(2000):
        found = channel.counts(queue)
        if found == (ready, consumers):
            return
    raise AssertionError(f"queue {queue} has {found} (messages, consumers) and should have {(ready, consumers)}")
