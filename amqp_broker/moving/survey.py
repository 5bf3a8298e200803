"""Survey: what a queue holds, asked of the broker by whoever wants to see or to move it: `queue.peek`, page by page.

Nothing is taken for it, so a dry run changes nothing. `ask` sends a verb of amq.system and returns the answer's fields.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from amqp_broker.client.messages import Delivery
from amqp_broker.moving.destinations import Destination
from amqp_broker.moving.mover import CannotMove
from amqp_broker.protocol.errors import MalformedInput
from amqp_broker.protocol.json_values import JsonObject, properties_as_json
from amqp_broker.protocol.message_filter import BODY_OCTETS, MessageFilter

Ask = Callable[..., JsonObject]
#: The most that one answer of the broker has.
PAGE_MESSAGES: Final = 100
PART_BYTES: Final = 256 * 1024
#: So many messages a dry run looks at.
SURVEYED: Final = 10_000
_UNKNOWN: Final = "unknown"


def pages(ask: Ask, vhost: str, queue: str, **fields: object) -> Iterator[JsonObject]:
    """The answers, one behind the other; `fields` as in queue.peek."""
    begin, backwards = fields.pop("from", "oldest"), bool(fields.pop("backwards", False))
    while begin is not None:
        answer = ask("queue.peek", vhost=vhost, name=queue, backwards=backwards, **{**fields, "from": begin})
        yield answer
        begin, backwards = answer["next"], answer["backwards"]


def whole_body(ask: Ask, vhost: str, queue: str, position: int, state: str = "ready") -> bytes | None:
    """Of the message at a position; None where it is not there, or has just gone."""
    parts, done, size = [], 0, None
    while size is None or done < size:
        begin = {"from": position, "body_from": done}
        answer = ask(
            "queue.peek", vhost=vhost, name=queue, limit=1, state=state, max_body_bytes=PART_BYTES, **begin
        )
        if not answer["messages"] or answer["messages"][0]["position"] != position:
            return None
        (found,) = answer["messages"]
        part, size = base64.b64decode(found["payload"]), found["payload_bytes"]
        parts.append(part)
        done += len(part)
    return b"".join(parts)


def survey(ask: Ask, vhost: str, queue: str, filter_text: str, destination: Destination) -> JsonObject:
    """What would be moved, counted by where it came from and where it goes. is_all: the whole queue was looked at."""
    counted: Counter[tuple[str, str, str]] = Counter()
    looked_at, ready, is_all = 0, 0, True
    for answer in pages(ask, vhost, queue, filter=filter_text, limit=PAGE_MESSAGES, max_body_bytes=0):
        looked_at, ready = looked_at + answer["looked_at"], answer["messages_ready"]
        for message in answer["messages"]:
            headers = message["properties"].get("headers", {})
            place = destination(headers)
            came_from = headers.get("x-first-death-queue") or _UNKNOWN
            reason = headers.get("x-first-death-reason") or _UNKNOWN
            counted[str(came_from), str(reason), str(place) if place is not None else ""] += 1
        if looked_at >= SURVEYED and answer["next"] is not None:
            is_all = False
            break
    return {
        "messages_ready": ready,
        "looked_at": looked_at,
        "is_all": is_all,
        "wanted": counted.total(),
        "moved": sum(count for (_, _, place), count in counted.items() if place),
        "origins": [
            {"queue": came_from, "reason": reason, "to": place or None, "messages": count}
            for (came_from, reason, place), count in counted.most_common()
        ],
    }


def filtered(text: str) -> Callable[[Delivery], bool]:
    """Those that a filter takes. Raises ValueError."""
    wanted = MessageFilter(text)
    return lambda delivery: wanted.takes(
        delivery.exchange, delivery.routing_key, delivery.raw_properties, delivery.body
    )


class Selected:
    """Those at some positions, each once. What a client is given has no position: a message is known by what it is, and
    of two that are the same in all that can be seen either one is as good."""

    def __init__(self, ask: Ask, vhost: str, queue: str, positions: Sequence[int]) -> None:
        """Raises CannotMove where there is no message at one of them."""
        self._wanted: Counter[str] = Counter()
        for position in positions:
            begin = {"from": position}
            answer = ask("queue.peek", vhost=vhost, name=queue, limit=1, max_body_bytes=BODY_OCTETS, **begin)
            if not answer["messages"] or answer["messages"][0]["position"] != position:
                raise CannotMove(f"there is no message at position {position} of queue '{queue}' any more: look again")
            (found,) = answer["messages"]
            body = base64.b64decode(found["payload"])
            names = (found["exchange"], found["routing_key"])
            self._wanted[_looks(*names, found["properties"], found["payload_bytes"], body)] += 1

    def __call__(self, delivery: Delivery) -> bool:
        try:
            properties = properties_as_json(delivery.properties)
        except MalformedInput:
            return False
        body = delivery.body[:BODY_OCTETS]
        looks = _looks(delivery.exchange, delivery.routing_key, properties, len(delivery.body), body)
        if self._wanted[looks] <= 0:
            return False
        self._wanted[looks] -= 1
        return True


def _looks(exchange: str, routing_key: str, properties: JsonObject, size: int, body: bytes) -> str:
    """All that can be seen, but for the count that is added when a message is delivered again."""
    headers = {name: value for name, value in properties.get("headers", {}).items() if name != "x-delivery-count"}
    shown = {**properties, "headers": headers}
    return json.dumps([exchange, routing_key, shown, size, body.hex()], sort_keys=True)
