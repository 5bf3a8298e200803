"""WhoHolds: which consumers hold messages of a queue, and whose they are.

Where the queue itself does not know (queues/queue.py: holdings), the channels of its node are looked through, and the
sessions of other nodes. Of a consumer on another node only its number is known here: that node is asked.

Invariant: a slice looks at a few hundred deliveries at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from amqp_broker.management.access import Asker
from amqp_broker.management.objects.values import connection_name
from amqp_broker.management.request import Request
from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.turn.task import Steps
from queues.queue import Held, Queue

if TYPE_CHECKING:
    from amqp_broker.channel.channel import Channel
    from amqp_broker.channel.consumer import ChannelConsumer
    from amqp_broker.management.node_counts import NodeCounts
    from amqp_broker.management.objects.channels import Channels
    from amqp_broker.management.peer_questions import PeerQuestions
    from amqp_broker.queue_types.remote.home import Home
    from queues.message import Delivery

#: So many deliveries are looked at in one slice.
_SLICE = 256

#: Who holds a delivery, and since when.
_Found = tuple["ChannelConsumer", "Delivery", int]


class WhoHolds:
    """home: the sessions of other nodes with the queues of this one."""

    def __init__(self, counts: NodeCounts, peers: PeerQuestions, channels: Channels, home: Home) -> None:
        self._vhosts = counts.broker.vhosts
        self._peers = peers
        self._channels = channels
        self._sessions = home.sessions
        #: Whose a consumer is, nodes tell each other; who asks was checked before.
        self._nobody = Asker(counts.broker.metadata, "", ())
        peers.serve({"holders": self._serve})

    # -- what is held --------------------------------------------------------------------------------------------------

    def on_channels(self, queue: Queue) -> Iterator[Held | None]:
        """Of a queue whose messages this node has; as Queue.holdings."""
        for found in self._deliveries(queue):
            yield None if found is None else Held(found[1], self._peers.own_node, 0, found[0].tag, found[2])
        for session in list(self._sessions.values()):
            for consumer in list(session.consumers.values()):
                if consumer.queue is queue:
                    for entry, since in list(consumer.held.values()):
                        yield Held(entry, session.peer, consumer.number, consumer.tag, since)
                    yield None

    def _deliveries(self, queue: Queue) -> Iterator[_Found | None]:
        """What the channels of this node hold of a queue. None: a slice is over."""
        vhost = queue.declaration.vhost
        for found in self._channels.walk(None, lambda one: one.vhost is not None and one.vhost.name == vhost):
            if found is None:
                yield None
            else:
                yield from _of_channel(found[1], queue)

    # -- whose it is ---------------------------------------------------------------------------------------------------

    def describe(self, queue: Queue, held: list[Held]) -> Steps:
        """Its result: of each, the node, and as far as it is known the connection, the channel, the user and the tag.
        Nodes are asked all at once."""
        own = self._peers.own_node
        wanted: dict[str, set[int]] = {}
        for each in held:
            if not _is_of_channel(each.delivery):
                wanted.setdefault(each.node, set()).add(each.number)
        whose: dict[tuple[str, int], JsonObject] = {}
        questions = {}
        for node, numbers in wanted.items():
            fields: JsonObject = {"vhost": queue.declaration.vhost, "name": queue.name, "numbers": sorted(numbers)}
            if node == own:
                for number, said in (yield from self._find(queue, numbers)).items():
                    whose[own, number] = said
            else:
                questions[node] = self._peers.ask(node, "holders", fields, self._nobody)
        for node, question in questions.items():
            answer = yield question
            for number, said in (answer.fields["holders"] if answer is not None else ()):
                whose[node, number] = said
        return [
            _described(cast("ChannelConsumer", each.delivery.consumer), own)
            if _is_of_channel(each.delivery)
            else {"node": each.node, "consumer_tag": each.tag, **whose.get((each.node, each.number), {})}
            for each in held
        ]

    def _serve(self, request: Request) -> Steps:
        """Whose the consumers with these numbers are, which this node has given."""
        vhost = self._vhosts.get(request.text("vhost"))
        queue = vhost.queues.get(request.text("name")) if vhost is not None else None
        if queue is None:
            return {"holders": []}, ""
        found = yield from self._find(queue, set(request.fields["numbers"]))
        return {"holders": list(found.items())}, ""

    def _find(self, queue: Queue, numbers: set[int]) -> Steps:
        """By number, of a queue whose log is elsewhere: its consumers, and who holds what basic.get has fetched."""
        found: dict[int, JsonObject] = {}
        for number, consumer in queue.numbered_consumers():
            if number in numbers:
                found[number] = _described(cast("ChannelConsumer", consumer), self._peers.own_node)
        if len(found) < len(numbers):
            for each in self._deliveries(queue):
                if each is None:
                    yield None
                    continue
                owner = getattr(each[1], "delivery_owner", None)
                if owner is not None and owner.number in numbers:
                    found[owner.number] = _described(each[0], self._peers.own_node)
        return found


def _of_channel(channel: Channel, queue: Queue) -> Iterator[_Found | None]:
    """By delivery tag, which stays where it is when others are settled."""
    tag = channel.first_tag + channel.head
    looked_at = 0
    while tag < channel.first_tag + len(channel.unacked):
        index = tag - channel.first_tag
        if index < 0:
            tag = channel.first_tag
            continue
        delivery = channel.unacked[index]
        tag += 1
        if delivery is not None and delivery.consumer is not None and delivery.consumer.queue is queue:
            yield delivery.consumer, delivery, channel.held_since(tag - 1)
        looked_at += 1
        if looked_at % _SLICE == 0:
            yield None


def _is_of_channel(delivery: Delivery) -> bool:
    """Whether a channel of this node holds it, and no log's consumer."""
    return getattr(delivery.consumer, "channel", None) is not None


def _described(consumer: ChannelConsumer, node: str) -> JsonObject:
    channel = consumer.channel
    return {
        "node": node,
        "connection": connection_name(channel.connection),
        "channel": channel.channel_id,
        "user": channel.session.user,
        "consumer_tag": consumer.tag,
    }
