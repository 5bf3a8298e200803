"""Assemblies: the messages of which a part has come, on all channels of a node, and what they may hold together.

A message that comes in one chunk is none of them. `Pager.assembling` counts their octets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_broker.errors import ChannelException
from amqp_broker.protocol.constants import ReplyCode
from queues.pager import Pager

if TYPE_CHECKING:
    from amqp_broker.channel.channel import Channel


class Assemblies:
    """Channels that wait for the rest of a body, the one that has waited longest first."""

    def __init__(self, pager: Pager, limit_bytes: int) -> None:
        self._pager = pager
        self._limit_bytes = limit_bytes
        self._channels: dict[Channel, None] = {}

    def begin(self, channel: Channel) -> None:
        """A header has come without its whole body."""
        self._channels[channel] = None

    def end(self, channel: Channel) -> None:
        """The message is whole, or given up: the channel holds nothing of it any more."""
        self._pager.assemble(-channel.forget_content())
        self._channels.pop(channel, None)

    def make_room(self, channel: Channel) -> None:
        """They hold too much, and `channel` has just got more: whoever began first has had the longest chance. One
        alone is never refused. Raises ChannelException when it is `channel` itself."""
        while self._pager.assembling > self._limit_bytes and len(self._channels) > 1:
            oldest = next(iter(self._channels))
            refusal = ChannelException(
                ReplyCode.CONTENT_TOO_LARGE,
                f"messages received in part hold {self._pager.assembling} octets, "
                f"the limit is {self._limit_bytes} (max_partial_messages)",
                60,
                40,
            )
            if oldest is channel:
                raise refusal
            oldest.connection.refuse(oldest.channel_id, refusal)
