"""How a channel begins and ends, and how a consumer leaves."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from amqp_broker.channel.channel import Channel
from amqp_broker.channel.replies import reply
from amqp_broker.channel.settlement import FEW, put_back_many
from amqp_broker.errors import ConnectionException
from amqp_broker.protocol import methods
from amqp_broker.protocol.constants import ReplyCode

if TYPE_CHECKING:
    from amqp_broker.channel.consumer import ChannelConsumer
    from amqp_broker.channel.services import ChannelServices
    from amqp_broker.flow.client import Client
    from amqp_broker.flow.clients import Clients
    from queues.message import Delivery
    from queues.queue import Parting, Queue

#: So many consumers, channels and queues are dealt with in a slice.
_LEAVING = 64


def open_channel(
    connection: Client, channel_id: int, services: ChannelServices, clients: Clients, beside: int = 0
) -> Channel:
    """channel.open. Returns the channel, which is its connection's to keep. beside: so many the user has at other
    workers of the node, if he has a limit. Raises ConnectionException when there are too many (530), or the virtual
    host is deleted (320)."""
    declarer = connection.declarer
    assert declarer is not None  # the connection is open
    declarer.vhost.check_is_there()
    session = declarer.session
    limit = session.channel_max
    if limit and connection.channel_count() >= limit:
        raise ConnectionException(
            ReplyCode.NOT_ALLOWED, f"number of channels opened ({connection.channel_count()}) has reached the "
            f"negotiated channel_max ({limit})", 20, 10
        )
    user = services.metadata.user(session.user)
    allowed = user.limits.get("max-channels", -1) if user is not None else -1
    if 0 <= allowed <= clients.count_channels(session.user) + beside:
        raise ConnectionException(
            ReplyCode.NOT_ALLOWED,
            f"number of channels opened for user '{session.user}' "
            f"has reached the maximum allowed limit ({allowed})",
            20,
            10,
        )
    channel = Channel(connection, declarer, channel_id, services)
    clients.count_channel()
    reply(channel, methods.ChannelOpenOk())
    return channel


def close_channel(channel: Channel, what: str = "", then: Callable[[], None] | None = None) -> None:
    """Give back everything that a channel holds: consumers leave, deliveries return to their queues. what: the method
    that asks for it, if one does; then: its answer, when all is done."""
    close_channels([channel], what, then)


def close_channels(channels: list[Channel], what: str = "", then: Callable[[], None] | None = None) -> None:
    """Close channels of one connection together: what one gives back is not handed to the consumers of another. As
    close_channel."""
    if not channels:
        return
    clients = channels[0].connection.clients
    for channel in channels:
        channel.retire(clients)
        end_replies(channel)
    if _are_many(channels):
        held = (channel.take_places(0) for channel in reversed(channels))
        put_back_many(channels[0], held, _leave(channels), what, then)
        return
    queues: dict[Queue, None] = {}
    now = channels[0].clock.now
    for channel in channels:
        for consumer in list(channel.consumers.values()):
            consumer.end()
            queue = consumer.queue
            queue.cancel(consumer, True, now)
            queue.mark_used(now)
            queues[queue] = None
        _forget_consumers(channel)
    _return_all(channels, queues)
    abandoned: list[Queue] = []
    for queue in queues:
        _go_on_without(queue, abandoned, now)
    channels[0].services.declarations.remove_queues(channels[0].vhost, abandoned)
    if then is not None:
        then()


def _are_many(channels: list[Channel]) -> bool:
    """Whether they, what they hold and who consumes on them are too many to be dealt with at once."""
    count = 0
    for channel in channels:
        count += 1 + channel.places_until(0) + len(channel.consumers)
        for consumer in channel.consumers.values():
            count += consumer.queue.count_unseen(consumer)  # assigned, and not handed to it yet
        if count > FEW:
            return True
    return False


def _leave(channels: list[Channel]) -> Generator[None, None, list[tuple[Queue, Parting]]]:
    """All consumers of the channels leave their queues, in slices. None of them is given anything meanwhile: their
    channels deliver no more (`Channel.retire`). Returns what the queues are to be told later."""
    services, vhost = channels[0].services, channels[0].vhost
    parting: list[tuple[Queue, Parting]] = []
    queues: dict[Queue, None] = {}
    done = 0
    for channel in channels:
        # Queues go and move in between: one of its consumers may be gone, and another one have taken its place.
        while channel.consumers:
            for tag, consumer in list(channel.consumers.items()):
                if channel.consumers.get(tag) is not consumer:
                    continue
                del channel.consumers[tag]
                consumer.end()
                queue, now = consumer.queue, services.clock.now
                parted = queue.part(consumer, now)
                if parted is not None:
                    parting.append((queue, parted))
                queue.mark_used(now)
                queues[queue] = None
                done += 1
                if done % _LEAVING == 0:
                    yield None
        _forget_consumers(channel)
        done += 1
        if done % _LEAVING == 0:
            yield None
    abandoned: list[Queue] = []
    for queue in queues:
        _go_on_without(queue, abandoned, services.clock.now)
        done += 1
        if done % _LEAVING == 0:
            # Before anybody else consumes from one of them.
            services.declarations.remove_queues(vhost, abandoned)
            abandoned = []
            yield None
    services.declarations.remove_queues(vhost, abandoned)
    return parting


def _forget_consumers(channel: Channel) -> None:
    """They have left, and with them who holds what basic.get has fetched."""
    channel.consumers.clear()
    channel.getters.clear()


def end_replies(channel: Channel) -> None:
    """Nobody is replied to on the channel any more (amq.rabbitmq.reply-to)."""
    if channel.reply_consumer is not None:
        channel.services.reply_consumers.remove(channel.reply_consumer.address)
        channel.reply_consumer = None


def _go_on_without(queue: Queue, abandoned: list[Queue], now: int) -> None:
    """Consumers of the queue have left: others may get what they do not, or it is to be deleted and added to
    `abandoned`."""
    if queue.is_deleted:
        return
    if queue.had_consumers and queue.is_abandoned():
        abandoned.append(queue)
    else:
        queue.dispatch(now)


def _return_all(channels: list[Channel], queues: dict[Queue, None]) -> None:
    """Everything that the channels hold returns to its queues, which are added to `queues`. A queue gets all of it
    together: to take back a few of very many, of thousands of channels each, would be to sort it thousands of times."""
    by_queue: dict[Queue, list[Delivery]] = {}
    for channel in channels:
        entries = channel.take_all()
        for entry in entries:
            by_queue.setdefault(entry.consumer.queue, []).append(entry)
        channel.forget_holders(entries)
    for queue, group in by_queue.items():
        queue.fail(group, channels[0].clock.now)
        queues[queue] = None


def return_entries(
    channel: Channel, entries: list[Delivery], queues: dict[Queue, None], has_failed: bool
) -> None:
    """Put deliveries back into their queues, which are added to `queues`, to be dispatched by the caller."""
    by_queue: dict[Queue, list[Delivery]] = {}
    for entry in entries:
        by_queue.setdefault(entry.consumer.queue, []).append(entry)
    for queue, group in by_queue.items():
        channel.forget_holders(group)
        if has_failed:
            queue.fail(group, channel.clock.now)
        else:
            queue.put_back(group, channel.clock.now)
        queues[queue] = None


def cancel_consumer(channel: Channel, consumer: ChannelConsumer) -> None:
    """The client or the broker ends a consumer; what it holds stays with the channel."""
    channel.consumers.pop(consumer.tag, None)
    channel.short.pop(consumer, None)
    consumer.end()
    queue = consumer.queue
    queue.cancel(consumer, False, channel.clock.now)
    queue.mark_used(channel.clock.now)
    if queue.is_abandoned():
        channel.services.declarations.remove_queue(channel.vhost, queue)
    else:
        queue.dispatch(channel.clock.now)
