"""What the arguments of a quorum queue over a stream mean, beside those of every quorum queue: CursorSettings.

    x-stream-source       the stream that has its messages
    x-stream-offset       where it begins (queue_types/stream/offsets.py)
    x-stream-filter, x-stream-match-unfiltered    which messages (queue_types/stream/filters.py)
    x-stream-key-order    of messages with one routing key one at a time is out, in order
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from amqp_broker.queue_types.contract.policy_keys import Definition
from amqp_broker.queue_types.stream.filters import FILTER, UNFILTERED, parse_filter
from amqp_broker.queue_types.stream.offsets import OFFSET, parse_start
from queues.arguments import ArgumentError, Overflow, read_boolean, read_string
from queues.quorum.arguments import parse_quorum_arguments
from queues.quorum.cursor_queue import CursorQueue
from queues.quorum.cursor_settings import CursorSettings, with_cursor
from queues.rule import check_lacks

SOURCE: Final = "x-stream-source"
KEY_ORDER: Final = "x-stream-key-order"
#: By which declarations are compared, besides what other quorum queues have.
CURSOR_ARGUMENTS: Final = (SOURCE, OFFSET, FILTER, UNFILTERED, KEY_ORDER)
#: A filter has so many values at most, of so many octets each.
MOST_VALUES: Final = 256
_MOST_OCTETS: Final = 255


def source_of(arguments: Mapping[str, object]) -> str | None:
    """The name of the stream that a queue is over; None for a queue of its own. Raises ArgumentError."""
    return read_string(SOURCE, arguments[SOURCE]) if SOURCE in arguments else None


def parse_cursor_arguments(
    arguments: Mapping[str, object], stream_id: int, policy: Definition = None, operator_policy: Definition = None
) -> CursorSettings:
    """The settings in force. What policies say of lengths is nothing to a queue that has no messages. Raises
    ArgumentError, WrongArgument."""
    check_lacks(arguments, CursorQueue.lacks, f"a queue over a stream ({SOURCE}) has no messages of its own")
    settings = parse_quorum_arguments(arguments, policy, operator_policy)
    limited = replace(
        settings.arguments, max_length=None, max_length_bytes=None, overflow=Overflow.DROP_HEAD, max_priority=None
    )
    wanted = parse_filter(arguments)
    values = tuple(sorted(wanted.values)) if wanted is not None else ()
    if len(values) > MOST_VALUES or any(len(value) > _MOST_OCTETS for value in values):
        raise ArgumentError(FILTER, f"at most {MOST_VALUES} values of {_MOST_OCTETS} octets are possible")
    has_key_order = read_boolean(KEY_ORDER, arguments.get(KEY_ORDER, False))
    start, takes_unfiltered = parse_start(arguments), wanted is not None and wanted.takes_unfiltered
    return with_cursor(replace(settings, arguments=limited), stream_id, start, values, takes_unfiltered, has_key_order)
