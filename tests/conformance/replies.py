"""The reply texts that stock clients see, as RabbitMQ words them; the suite compares them to the letter."""

from __future__ import annotations


def cut(text: str) -> str:
    """A reply text is a short string: what is longer ends in three dots."""
    return text if len(text) <= 255 else text[:252] + "..."


def no_queue(queue: str, vhost: str) -> str:
    return f"NOT_FOUND - no queue '{queue}' in vhost '{vhost}'"


def no_exchange(exchange: str, vhost: str) -> str:
    return f"NOT_FOUND - no exchange '{exchange}' in vhost '{vhost}'"


def locked_queue(queue: str, vhost: str) -> str:
    return cut(
        f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue}' in vhost '{vhost}'. "
        "It could be originally declared on another connection or the exclusive property value "
        "does not match that of the original declaration."
    )


def inequivalent(argument: str, kind: str, name: str, vhost: str, received: str, current: str) -> str:
    """kind is "queue" or "exchange"; received and current as they appear in the text, quotes included."""
    return (
        f"PRECONDITION_FAILED - inequivalent arg '{argument}' for {kind} '{name}' in vhost '{vhost}': "
        f"received {received} but current is {current}"
    )


def invalid_argument(argument: str, queue: str, vhost: str, cause: str) -> str:
    return f"PRECONDITION_FAILED - invalid arg '{argument}' for queue '{queue}' in vhost '{vhost}': {cause}"


def unknown_delivery_tag(tag: int) -> str:
    return f"PRECONDITION_FAILED - unknown delivery tag {tag}"


def refused(verb: str, kind: str, name: str, vhost: str, user: str) -> str:
    return f"ACCESS_REFUSED - {verb} access to {kind} '{name}' in vhost '{vhost}' refused for user '{user}'"


NO_PREVIOUS_QUEUE = "NOT_FOUND - no previously declared queue"
DEFAULT_EXCHANGE = "ACCESS_REFUSED - operation not permitted on the default exchange"
EXPECTED_CHANNEL_OPEN = "CHANNEL_ERROR - expected 'channel.open'"
