"""Hints: what somebody who looks at a queue wants to be told, in plain sentences, and when it will be empty.

Made of what the API shows anyway: counts, rates of the last two readings, and consumers with their prefetch. Nothing is
asked of the node for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from amqp_broker.protocol.json_values import JsonObject, JsonValue

#: The key under which hints stand in an object of the API: ours, so that it is nobody else's.
OWN_KEY: Final = "amqp_broker"
NEVER: Final = "never"
#: A consumer that acknowledges so many a second one by one mostly waits for the next one.
_FAST_ACKS: Final = 50.0
#: Whoever holds so much of what is held, and so many at least, holds all of it.
_MOST_OF_IT: Final = 0.9
_MANY: Final = 100
#: More than so much of what is delivered came back before.
_CIRCLING: Final = 0.5


def with_hints(queue: JsonObject) -> JsonObject:
    """The queue as it is shown, with what there is to say about it."""
    return {**queue, OWN_KEY: {"hints": list(hints_of(queue)), "eta_ms": eta_of(queue)}}


def eta_of(queue: JsonObject) -> JsonValue:
    """In how many milliseconds nothing is ready any more, if all goes on as it does; `never`, or None: not known."""
    ready = queue.get("messages_ready", 0)
    if not ready:
        return 0
    if "message_stats" not in queue:
        return NEVER if not queue.get("consumers") else None
    acked = _rate(queue, "ack") + _rate(queue, "deliver_no_ack") + _rate(queue, "get_no_ack")
    gain = acked - _rate(queue, "publish")
    return round(ready / gain * 1000) if gain > 0 else NEVER


def hints_of(queue: JsonObject) -> Iterator[str]:
    """The most urgent first."""
    ready, unacked = queue.get("messages_ready", 0), queue.get("messages_unacknowledged", 0)
    consumers = queue.get("consumers", 0)
    details = queue.get("consumer_details") or []
    if queue.get("state") == "down":
        yield "Its node does not answer: what is shown is what it said last."
    if ready and not consumers:
        yield f"{_messages(ready)} and there is no consumer."
    elif ready and details and all(each.get("active") is False for each in details):
        yield f"{_messages(ready)} and the single active consumer is on another node, or takes nothing."
    yield from _of_prefetch(queue, ready, consumers, details)
    yield from _of_holders(unacked, consumers, details)
    yield from _of_returns(queue)
    if ready and consumers and eta_of(queue) == NEVER and _rate(queue, "publish") > 0:
        yield "More comes in than is acknowledged: the queue grows."


def _of_prefetch(queue: JsonObject, ready: int, consumers: int, details: list[JsonObject]) -> Iterator[str]:
    taking = [each for each in details if each.get("ack_required", True)]
    if not ready or not taking or any(each.get("prefetch_count") != 1 for each in taking):
        return
    each_rate = _rate(queue, "ack") / max(1, consumers)
    held = sum(each.get("messages_unacknowledged") or 0 for each in taking)
    if each_rate >= _FAST_ACKS or held < len(taking):
        yield (
            f"{_messages(ready)} although its consumers are quick: with prefetch 1 each mostly waits for its next "
            "message. Raise the prefetch (basic.qos)."
        )


def _of_holders(unacked: int, consumers: int, details: list[JsonObject]) -> Iterator[str]:
    for each in details:
        held = each.get("messages_unacknowledged") or 0
        if each.get("prefetch_count") or not each.get("ack_required", True) or held < _MANY:
            continue
        if consumers > 1 and held >= _MOST_OF_IT * unacked:
            yield (
                f"Consumer '{each.get('consumer_tag')}' has no prefetch limit and holds {held} messages, so the "
                "others get none. Give it one (basic.qos)."
            )
            return
        if consumers == 1:
            yield (
                f"The only consumer has no prefetch limit and holds {held} messages: others that come will find none. "
                "Give it one (basic.qos)."
            )
            return


def _of_returns(queue: JsonObject) -> Iterator[str]:
    again, delivered = _rate(queue, "redeliver"), _rate(queue, "deliver_get")
    if again > 1 and again > _CIRCLING * delivered and again > _rate(queue, "ack"):
        limit = "" if queue.get("delivery_limit") else " Set x-delivery-limit, and a dead letter exchange."
        yield f"{again:.0f} messages a second come back and are delivered again: they go in a circle.{limit}"


def _messages(count: int) -> str:
    return "1 message waits" if count == 1 else f"{count} messages wait"


def _rate(queue: JsonObject, name: str) -> float:
    stats = queue.get("message_stats") or {}
    return float((stats.get(f"{name}_details") or {}).get("rate", 0.0))
