"""How a handler answers: at once, when what it did is on the disk, or when it is true on all nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from amqp_broker.protocol import methods

if TYPE_CHECKING:
    from amqp_broker.channel.channel import Channel
    from amqp_broker.cluster.commands import Command
    from amqp_broker.cluster.metadata_stream import Proposal


def reply(channel: Channel, method: Any) -> None:
    """Put a method into the output."""
    channel.output.put_frame(1, channel.channel_id, methods.encode_method(method))
    channel.connection.touch()


def reply_when_synced(channel: Channel, ticket: int, method: Any, no_wait: bool = False) -> None:
    """Answer once everything up to `ticket` is on the disk (0: now). The connection's other frames wait until then, so
    that the order of its answers is kept."""
    if ticket:

        def answer() -> None:
            if channel.is_open and not channel.is_closing and not no_wait:
                reply(channel, method)

        channel.connection.node.park(channel.connection, ticket, answer)
    elif not no_wait:
        reply(channel, method)


def reply_when_applied(channel: Channel, proposal: Proposal | None, method: Any, no_wait: bool = False) -> None:
    """Answer once the proposal is applied (None: now). The connection's other frames wait until then."""

    def answer() -> None:
        if not no_wait:
            reply(channel, method)

    if proposal is None or proposal.is_done:
        answer()
        return
    hold = channel.connection.node.hold(channel.connection, method.name.removesuffix("-ok"))
    proposal.when_done(lambda result: hold.release(answer))


def go_on_when_applied(channel: Channel, what: str, command: Command, go_on: Callable[[], None]) -> None:
    """Propose a command, and call `go_on` when it is applied. The connection's other frames wait until then."""
    node = channel.connection.node
    hold = node.hold(channel.connection, what)
    node.broker.propose(command, lambda result: hold.release(go_on))
