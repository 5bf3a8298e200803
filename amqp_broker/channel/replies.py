"""How a handler answers: at once, when what it did is on the disk, or when it is true on all nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from amqp_broker.channel.audited import recorder_of
from amqp_broker.errors import ConnectionException
from amqp_broker.protocol import methods
from amqp_broker.protocol.constants import ReplyCode

if TYPE_CHECKING:
    from amqp_broker.channel.channel import Channel
    from amqp_broker.metadata.commands import Command
    from amqp_broker.metadata.stream import Proposal
    from amqp_broker.protocol.methods import Method


Handler: TypeAlias = Callable[["Channel", Any], None]  # own class: each takes that of its method
M = TypeVar("M", bound=methods.Method)
#: A declaration that others are always faster with is given up after so many times.
_MAX_TRIES = 10


def reply(channel: Channel, method: Method) -> None:
    """Put a method into the output."""
    channel.output.put_frame(1, channel.channel_id, methods.encode_method(method))
    channel.connection.touch()


def reply_when_synced(channel: Channel, ticket: int, method: Method) -> None:
    """Answer once everything up to `ticket` is on the disk (0: now). The connection's other frames wait until then, so
    that the order of its answers is kept."""
    if ticket:

        def answer() -> None:
            if channel.is_open and not channel.is_closing:
                reply(channel, method)

        channel.services.answers.park(channel.connection, ticket, answer)
    else:
        reply(channel, method)


def reply_when_applied(
    channel: Channel,
    proposal: Proposal | None,
    method: Method,
    no_wait: bool = False,
    then: Callable[[], None] | None = None,
) -> None:
    """Answer once the proposal is applied (None: now), and do what comes `then`. The connection's other frames wait
    until then."""

    def answer() -> None:
        if not no_wait:
            reply(channel, method)
        if then is not None:
            then()

    if proposal is None or proposal.is_done:
        answer()
        return
    pending = channel.services.answers.begin(channel.connection, method.name.removesuffix("-ok"))
    proposal.when_done(lambda result: pending.release(answer))


def reply_when_known(channel: Channel, method: Method, no_wait: bool, tries: int) -> None:
    """Answer that something is there once the other nodes know it too. It has been waited for that when `tries`."""
    waits = None if tries else channel.services.settling()
    reply_when_applied(channel, waits, method, no_wait)


def ask_again_when_applied(
    handler: Callable[[Channel, M, int], None], channel: Channel, method: M, command: Command, tries: int
) -> None:
    """Propose what the method wants first, and handle the method again when that is applied. The connection's other
    frames wait until then. tries: how often it was handled again already; each time somebody else was faster."""
    if tries >= _MAX_TRIES:
        raise ConnectionException(
            ReplyCode.INTERNAL_ERROR,
            f"{method.name}: its command was applied {tries} times and nothing came of it; the broker's log says why",
        )
    services = channel.services
    pending = services.answers.begin(channel.connection, method.name)
    record = recorder_of(channel, method.name, command)

    def applied(result: object) -> None:
        if record is not None and result:  # whether the client is still there or not
            record()
        pending.release(lambda: handler(channel, method, tries + 1))

    services.propose(command, applied)
