"""Hints about a queue: which sentence, when, and when it will be empty."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.web.hints import NEVER, eta_of, hints_of, with_hints


def queue(ready: int = 0, unacked: int = 0, consumers: list[dict[str, Any]] | None = None, **rates: float) -> Any:
    found: dict[str, Any] = {
        "messages_ready": ready,
        "messages_unacknowledged": unacked,
        "consumers": len(consumers or ()),
        "consumer_details": consumers or [],
    }
    if rates:
        found["message_stats"] = {f"{name}_details": {"rate": rate} for name, rate in rates.items()}
    return found


def consumer(prefetch: int, held: int = 0, **more: object) -> dict[str, Any]:
    return {
        "consumer_tag": "<c>", "prefetch_count": prefetch, "messages_unacknowledged": held, "ack_required": True,
        "active": True, **more,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "eta"),
    [
        (queue(), 0),
        (queue(100, ack=30.0, publish=10.0), 5000),
        (queue(100, deliver_no_ack=30.0, publish=10.0), 5000),
        (queue(100, ack=10.0, publish=10.0), NEVER),
        (queue(100, publish=1.0), NEVER),
        (queue(100), NEVER),
        (queue(100, consumers=[consumer(1)]), None),
    ],
)
def test_when_it_is_empty(given: Any, eta: object) -> None:
    assert eta_of(given) == eta
    assert with_hints(given)["amqp_broker"]["eta_ms"] == eta


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (queue(3), ["3 messages wait and there is no consumer"]),
        (queue(1), ["1 message waits and there is no consumer"]),
        (queue(5, 1, [consumer(1, 1)], ack=200.0), ["with prefetch 1"]),
        (queue(5, 1, [consumer(1, 1), consumer(1, 0)], ack=3.0), ["with prefetch 1"]),
        (queue(5, 2, [consumer(1, 1), consumer(1, 1)], ack=3.0), []),
        (queue(5, 2, [consumer(10, 1), consumer(1, 1)], ack=900.0), []),
        (queue(0, 500, [consumer(0, 500), consumer(0, 0)]), ["'<c>' has no prefetch limit and holds 500"]),
        (queue(0, 500, [consumer(0, 500)]), ["The only consumer has no prefetch limit"]),
        (queue(0, 500, [consumer(0, 250), consumer(0, 250)]), []),
        (queue(0, 500, [consumer(0, 500, ack_required=False), consumer(0)]), []),
        (queue(2, 1, [consumer(5, 1)], redeliver=90.0, deliver_get=100.0, ack=10.0), ["go in a circle. Set x-"]),
        (queue(9, 1, [consumer(5, 1)], ack=5.0, publish=9.0), ["More comes in"]),
        ({**queue(9, 0, [consumer(5)]), "state": "down"}, ["does not answer"]),
        (queue(9, 0, [consumer(5, active=False)]), ["single active consumer"]),
        (queue(0, 1, [consumer(5, 1)], ack=10.0, publish=10.0), []),
    ],
)
def test_what_is_said(given: Any, words: list[str]) -> None:
    said = list(hints_of(given))
    assert len(said) == len(words), said
    assert all(word in text for word, text in zip(words, said, strict=True)), said
