"""Prospects: what would become of one more message in a queue: limits, time to live, and who would get it.

It looks, and changes nothing: not even that a consumer is found without credit.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from amqp_broker.channel.consumer import ChannelConsumer
from amqp_broker.management.objects.channels import channel_name
from amqp_broker.protocol.json_values import JsonObject
from queues.arguments import Overflow, QueueArguments
from queues.sums import QueueSums

if TYPE_CHECKING:
    from queues.queue import Queue

#: So many consumers of a queue are looked at.
MOST_CONSUMERS = 50


def prospects_of(queue: Queue, size: int, expiration: int) -> JsonObject:
    """Of a message of so many octets. expiration: its own, milliseconds, -1 for none."""
    settings: QueueArguments = queue.settings
    sums = QueueSums()
    queue.add_counts(sums)
    ready = queue.message_count()
    times = [each for each in (settings.message_ttl, expiration if expiration >= 0 else None) if each is not None]
    consumers = [_describe(queue, each) for each in islice(queue.attached(), MOST_CONSUMERS)]
    return {
        "name": queue.name,
        "type": queue.declaration.type,
        "home": queue.home or None,
        "messages_ready": ready,
        "limits": _limits(settings, ready, sums.ready_bytes, size),
        "expires_after_ms": min(times) if times else None,
        "dead_letter_exchange": settings.dead_letter_exchange,
        "consumer_count": queue.consumer_count(),
        "consumers": consumers,
        "delivery": _delivery(queue, ready, consumers),
    }


def _limits(settings: QueueArguments, ready: int, ready_bytes: int, size: int) -> JsonObject | None:
    """would: take, reject, or drop the first. Of a queue of another node the octets are not known here."""
    if settings.max_length is None and settings.max_length_bytes is None:
        return None
    refuses = settings.overflow is not Overflow.DROP_HEAD
    has_too_many = settings.max_length is not None and ready >= settings.max_length
    is_too_large = settings.max_length_bytes is not None and ready_bytes + size > settings.max_length_bytes
    full = [name for name, is_full in (("max-length", has_too_many), ("max-length-bytes", is_too_large)) if is_full]
    would = "take" if not full else "reject" if refuses else "drop-head"
    return {
        "max_length": settings.max_length,
        "max_length_bytes": settings.max_length_bytes,
        "overflow": settings.overflow.value,
        "reached": full,
        "would": would,
    }


def _delivery(queue: Queue, ready: int, consumers: list[JsonObject]) -> str:
    """What happens next, as a sentence."""
    elsewhere = queue.consumer_count() - len(consumers)
    if not queue.consumer_count():
        return "waits: there is no consumer"
    if any(each["takes"] for each in consumers):
        return f"a consumer takes it, behind {ready} that are ready" if ready else "a consumer takes it at once"
    if elsewhere > 0:
        return f"none of those who are looked at takes it now; {elsewhere} more are there or on other nodes"
    return "waits: no consumer can take one more now"


def _describe(queue: Queue, consumer: object) -> JsonObject:
    if not isinstance(consumer, ChannelConsumer):
        return {"consumer_tag": None, "channel": None, "takes": None, "why_not": "it is on another node"}
    why_not = _why_not(queue, consumer)
    return {
        "consumer_tag": consumer.tag,
        "channel": channel_name(consumer.channel),
        "takes": not why_not,
        "why_not": why_not or None,
    }


def _why_not(queue: Queue, consumer: ChannelConsumer) -> str:
    """Why it takes no message now; empty if it does (ChannelConsumer.has_credit)."""
    channel, connection = consumer.channel, consumer.channel.connection
    if queue.is_active(consumer) is False:
        return "another one is the single active consumer"
    if not channel.is_flowing:
        return "its client has stopped the channel (channel.flow)"
    held = channel.unacked_deliveries
    if channel.prefetch and held >= channel.prefetch:
        return f"its channel holds {held} unacknowledged messages, which is its prefetch"
    if not consumer.no_ack and consumer.credit <= 0:
        return f"it holds {consumer.prefetch - consumer.credit} unacknowledged messages, which is its prefetch"
    if not consumer.no_ack and held >= channel.max_unacked:
        return f"its channel holds {held} unacknowledged messages (max_unacked_per_channel)"
    output = connection.output
    if not connection.is_writable or output.size() >= connection.output_limit:
        return "its client does not read what it was sent"
    return ""
