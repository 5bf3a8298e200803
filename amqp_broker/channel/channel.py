"""Channel: the hot half of a channel. Publishing, deliveries and acknowledgements; confirms are in confirms.py, the
other methods in the handler modules beside it.

    publish: receive_publish -> receive_header -> receive_body* -> _complete -> Queue.publish -> Confirms
    deliver: Queue -> ChannelConsumer -> hold -> write_deliver
    ack:     on_basic_ack -> receive_ack -> take_one | _ack_until_tag -> Queue.ack -> credit -> dispatch

Invariants:
1. Delivery tags count up from 1 and are never used again; `unacked[i]` belongs to the tag `first_tag + i`, and is None
   once it is settled (or was never to be acknowledged).
2. While `is_closing`, every frame but channel.close and channel.close-ok is dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from amqp_broker.channel.confirms import Confirms
from amqp_broker.channel.consumer import ChannelConsumer
from amqp_broker.channel.delivery_times import DeliveryTimes
from amqp_broker.channel.refusals import (
    malformed_properties,
    malformed_publish,
    too_large,
    unexpected_frame,
    unknown_tag,
    wrong_class,
)
from amqp_broker.channel.settlement import FEW, settle_many
from amqp_broker.channel.wide_publish import AT_ONCE
from amqp_broker.errors import ConnectionException
from amqp_broker.flow.message_sizes import CLASSES
from amqp_broker.flow.turn_share import WIDE
from amqp_broker.protocol.constants import ReplyCode
from amqp_broker.routing.routes import PublishRoute, RouteTable
from amqp_broker.routing.taps import ACKED, MOST_SETTLED
from queues.message import SEPARATE_BODY_BYTES, Delivery, Message
from queues.queue import Queue
from queues.stream.record import write_record

if TYPE_CHECKING:
    from amqp_broker.channel.commit import Transaction
    from amqp_broker.channel.publisher import Publisher
    from amqp_broker.channel.reply_consumer import ReplyConsumer
    from amqp_broker.channel.services import ChannelServices
    from amqp_broker.flow.client import Client
    from amqp_broker.flow.clients import Clients
    from amqp_broker.flow.declarer import Declarer
    from amqp_broker.octets.buffer import Pointer
    from queues.queue import Queue
    from queues.receipts import Receipt

if not cython.compiled:
    import struct

    from amqp_broker.flow.message_sizes import bound_of, class_of
    from amqp_broker.octets.buffer import get_u16, get_u32, get_u64
    from amqp_broker.octets.index import is_same
    from queues.message import make_message

    # Class and body size of a content header's payload, and the head of a frame (AMQP 0-9-1 §4.2.6.1, §4.2.3).
    _unpack_header = struct.Struct(">H2xQ").unpack_from
    _unpack_frame = struct.Struct(">BHL").unpack_from

# What the content assembly expects next.
_METHOD = 0
_HEADER = 1
_BODY = 2

_SEPARATE_BODY_BYTES = SEPARATE_BODY_BYTES
_WIDE = WIDE
_AT_ONCE = AT_ONCE
_FEW = FEW

#: So many body frames, the last of them smaller than this, are kept as one chunk.
_MANY_CHUNKS = 1024
_SMALL_CHUNK_BYTES = 4096
#: A body in chunks that are smaller on average waits in fewer: a message is not counted for what chunks take besides.
_TINY_CHUNK_BYTES = 1024
#: A prefix of settled deliveries of this length is cut off `unacked`.
_CUT = 1024


class Channel:
    """One open channel of a connection."""

    def __init__(self, connection: Client, declarer: Declarer, channel_id: int, services: ChannelServices) -> None:
        self.connection = connection
        self.services = services
        self.channel_id = channel_id
        self.declarer = declarer
        self.vhost = declarer.vhost
        self.session = declarer.session
        self.pager = services.pager
        self.clock = services.clock
        self.output = connection.output
        self.scanner = connection.scanner
        self.is_closing = False
        self.is_open = self.is_flowing = True
        self.last_queue: str | None = None
        # Publishing.
        self.expecting = _METHOD
        self.routes: RouteTable = self.vhost.routes_of(self.session.user)
        self.raw = b""  # where the message goes that is being received: Message.raw
        self.number = -1  # that of `raw` in `routes`, which holds until `forgotten` is another
        self.forgotten = 0
        self.only: Queue | None = None  # the same of its route
        self.generation = 0  # that of the virtual host for which these hold
        self.bits = 0  # of its publish, AMQP 0-9-1 §1.8.3.7
        self.header = b""
        self.body: list[bytes] | None = None
        self.body_size = self.body_received = self.merged = self.assembling = 0
        self.assemblies = services.assemblies
        self.max_assembling_bytes = connection.config.max_partial_messages_bytes
        self.max_header_bytes = connection.config.max_header_size_bytes
        self.max_message_bytes = connection.config.max_message_size_bytes
        # Confirms.
        self.is_confirming = False
        self.published = 0  # not counting those that are to be confirmed
        #: So many copies more, or fewer, than there were messages: the usual way is to one queue.
        self.extra = 0
        self.counted = self.counted_extra = 0  # of both, and of these, so many are in the counts of their exchanges
        self.exchange = b""  # where all others went: the beginning of `raw`
        self.unroutable = self.returned = 0  # of both, so many went to no queue; of those, so many came back
        # Sizes (flow/message_sizes.py): what is published has bodies of one class, until one comes that is not larger
        # than `size_below`, or larger than `size_to`.
        if not cython.compiled:
            self.by_size = [0] * CLASSES  # messages that are not in the counts of sizes
        self.sized = 0  # of both, so many are in there, or in those counts
        self.octets = 0  # of the bodies of all since these were added to
        self.size_class = self.size_below = 0
        self.size_to = min(bound_of(0), self.max_message_bytes)
        self.confirms = Confirms(self, services.confirming)
        self.transaction: Transaction | None = None
        #: What is delivered and settled is observed. settles_specially: that, or there is a transaction.
        self.is_traced = self.vhost.is_traced
        self.settles_specially = self.is_traced
        # Deliveries.
        self.consumers: dict[str, ChannelConsumer] = {}
        self.unacked: list[Delivery | None] = []
        self.first_tag = 1
        self.head = self.unacked_deliveries = self.note_from = 0  # the next delivery from then on is noted in `times`
        self.fetched = 0  # by basic.get, and held as these are
        self.times: DeliveryTimes | None = None  # of both, once there is one
        #: Of all tags, so many were not to be acknowledged, were delivered before, were put back or refused, were the
        #: broker's own answers. got, got_no_ack, got_nothing: answers to basic.get.
        self.passed = self.redelivered = self.unwanted = self.answered = 0
        self.got = self.got_no_ack = self.got_nothing = 0
        self.prefetch = self.consumer_prefetch = 0
        self.max_unacked = connection.config.max_unacked_per_channel
        self.getters: dict[Queue, ChannelConsumer] = {}
        self.reply_consumer: ReplyConsumer | None = None
        #: Consumers that may have left their line because of the channel's limit, the first of them first.
        self.short: dict[ChannelConsumer, None] = {}
        self._to_dispatch: list[Queue] = []
        self._shares_out = False

    def begin_closing(self) -> None:
        """The client was told that it ends: what else it says on it is dropped, until it has closed it too."""
        self.is_closing = True

    @property
    def is_mandatory(self) -> bool:
        """Whether the message that is being published has to go somewhere."""
        return (self.bits & 1) != 0

    @property
    def is_immediate(self) -> bool:
        """Whether it is to be delivered at once, which is not to be had."""
        return (self.bits & 2) != 0

    def end(self) -> None:
        """Nobody is told anything on it any more."""
        self.is_open = False

    def retire(self, clients: Clients) -> None:
        """It closes: it delivers nothing more, what can be confirmed is, what it has done is counted for good, by
        `clients`, and what it has half done is given up."""
        self.is_flowing = False
        confirms = self.confirms
        confirms.tell_due()
        if self.published + confirms.published:
            self.count_published()
            self.count_sizes()
        clients.retire_channel(
            self.published + confirms.published, confirms.messages_published(), confirms.messages_confirmed(),
            self.messages_delivered(), self.routed_count(),
        )  # fmt: skip
        self.set_transaction(None)
        confirms.end()
        if self.expecting:
            self.assemblies.end(self)

    def set_transaction(self, transaction: Transaction | None) -> None:
        """What is published and settled waits for a commit; None: it does not."""
        self.transaction = transaction
        self.settles_specially = self.is_traced or transaction is not None

    def set_traced(self, is_traced: bool) -> None:
        """Whether what is delivered and settled is observed from now on."""
        self.is_traced = is_traced
        self.settles_specially = is_traced or self.transaction is not None

    # -- publishing ----------------------------------------------------------------------------------------------

    def receive_publish(self, data: bytes, position: int, end: int) -> None:
        """The arguments of basic.publish, data[position:end], where a method may come; its content follows."""
        start = position + 2
        if end - start < 3:
            raise malformed_publish()
        if not is_same(self.raw, data, start, end - 1):
            key = start + 1 + data[start]
            if key + 2 > end or key + 2 + data[key] != end:
                raise malformed_publish()
            if not is_same(self.exchange, data, start, key):
                self.count_published()
                self.exchange = data[start:key]
            table = self.routes
            number = table.index.find(data, start, end - 1)
            if number >= 0:
                self.number = number
                self.only = table.only[number]
                self.raw = table.index.keys[number]
                self.generation = self.vhost.generation
                self.forgotten = self.vhost.forgotten
            else:
                self.raw = data[start : end - 1]
                self.generation = 0
        bits = data[end - 1]
        self.bits = bits
        self.expecting = _HEADER

    def receive_header(self, data: bytes, position: int, end: int, length: int) -> int:
        """A content header frame at data[position:end]. Takes the body with it when that is one frame and already
        there (data has `length` octets). Returns the position behind what was taken."""
        if self.expecting != _HEADER:
            raise unexpected_frame(self.expecting)
        if end - position < 22:
            raise malformed_properties()
        if cython.compiled:
            class_id = get_u16(data, position + 7)
            size = get_u64(data, position + 11)
        else:
            class_id, size = _unpack_header(data, position + 7)
        if class_id != 60:
            raise wrong_class(class_id)
        if size > self.size_to or end - position > self.max_header_bytes:
            self._check_size(size, end - position)
        body_end = end + 8 + size
        if size <= self.size_below:
            if self.size_class:
                self._begin_size_class(size)
            if size == 0:
                self.expecting = _METHOD
                self._complete(data[position:end], end - position, None, 0)
                return end
        if (
            body_end <= length
            and size <= self.connection.payload_max
            and data[body_end - 1] == 0xCE
            and (
                (data[end] == 3 and get_u32(data, end + 3) == size and get_u16(data, end + 1) == self.channel_id)
                if cython.compiled
                else _unpack_frame(data, end) == (3, self.channel_id, size)
            )
        ):
            self.expecting = _METHOD
            if size < _SEPARATE_BODY_BYTES:
                self._complete(data[position:body_end], end - position, None, size)
            else:
                self._complete(data[position:end], end - position, [data[end + 7 : body_end - 1]], size)
            return body_end
        self.header = data[position:end]
        self.body = []
        self.body_size = size
        self.body_received = 0
        self.merged = 0
        self.expecting = _BODY
        self.assemblies.begin(self)
        self._assemble(end - position)
        if not self.scanner.scan(self.header, 19, len(self.header) - 1):
            raise malformed_properties()
        return end

    def expects_body(self) -> bool:
        """Whether a body frame is due."""
        return self.expecting == _BODY

    def receive_body(self, data: bytes, position: int, end: int) -> None:
        """The payload of a body frame, data[position:end]."""
        if self.expecting != _BODY:
            raise unexpected_frame(self.expecting)
        self.body_received += end - position
        if self.body_received > self.body_size:
            raise ConnectionException(
                ReplyCode.FRAME_ERROR, "content body frame exceeds remaining content size", 60, 40
            )
        self._assemble(end - position)
        body = self.body
        assert body is not None  # `expecting` says so
        if end > position:
            body.append(data[position:end])
            if end - position < _SMALL_CHUNK_BYTES and len(body) >= self.merged + _MANY_CHUNKS:
                # A chunk of a few octets costs fifty more: a body that comes in crumbs is put together as it comes.
                body[self.merged :] = [b"".join(body[self.merged :])]
                self.merged = len(body)
        if self.body_received == self.body_size:
            header = self.header
            size = self.body_size
            self.assemblies.end(self)
            if size < _SEPARATE_BODY_BYTES:
                joined = b"".join(body)
                frame = b"\x03\x00\x00" + size.to_bytes(4, "big") + joined + b"\xce"
                self._complete(header + frame, len(header), None, size)
            else:
                if size < _TINY_CHUNK_BYTES * len(body):
                    body[self.merged :] = [b"".join(body[self.merged :])]
                self._complete(header, len(header), body, size)

    def _assemble(self, octets: int) -> None:
        """Count what came of a message that is not whole yet. Raises ChannelException when there is no room for it."""
        pager = self.pager
        self.assembling += octets
        pager.assemble(octets)
        if pager.assembling > self.max_assembling_bytes:
            self.assemblies.make_room(self)

    def forget_content(self) -> int:
        """What comes next is a method: the message is whole, or given up. Returns the octets that were held of it."""
        self.expecting = 0  # a method
        self.header = b""
        self.body = None
        octets, self.assembling = self.assembling, 0
        return octets

    def _complete(self, content: bytes, header_end: int, body: list[bytes] | None, size: int) -> None:
        """A message is whole: check it, route it, hand it to the queues."""
        scanner = self.scanner
        if not scanner.scan(content, 19, header_end - 1):
            raise malformed_properties()
        if self.generation != self.vhost.generation:
            self._find_route()
        now = self.clock.now
        message = make_message(
            self.raw,
            content,
            header_end,
            body,
            size,
            scanner.is_persistent,
            scanner.priority,
            scanner.expiration,
            now,
        )
        if self.is_confirming:
            self.confirms.record_publish()
        else:
            self.published += 1
        self.octets += size
        if scanner.is_special or (self.bits & 2) != 0 or self.only is None or self.settles_specially:
            self._publish(message)
        else:
            outcome = self.only.publish(message, None, False, now)
            if outcome:
                self.record_outcome(outcome)

    def _publish(self, message: Message) -> None:
        """Hand a message to where its route leads, whatever that is."""
        self.extra -= 1
        route: PublishRoute | None = None
        if self.forgotten == self.vhost.forgotten:
            route = self.routes.routes[self.number]
        if route is None:
            self._find_route()
            route = self.routes.routes[self.number]
            assert route is not None  # just found
        is_special = self.scanner.is_special or (self.bits & 2) != 0 or self.transaction is not None
        by_headers = route.by_headers
        if by_headers is not None and not is_special and self.vhost.taps is None:
            headers = self.scanner.headers_of(message.content)
            # The long way remembers what is not known.
            route = by_headers.routes.get(headers, route)
        if is_special or not route.is_plain:
            self.services.publisher.publish(self, route, message)
            return
        if not route.queues:
            is_mandatory = (self.bits & 1) != 0
            self.services.publisher.record_unroutable(self, message, is_mandatory)
            if is_mandatory:
                self.return_message(message)
            return
        receipt: Receipt | None = None
        if route.needs_receipt:
            if route.pacing or self.connection.steered is not None:
                self.connection.record_elsewhere(route.elsewhere, route.pacing, message)
            if self.is_confirming:
                if route.joins:
                    receipt = self.confirms.turn_receipt()
                elif route.is_serial:
                    receipt = self.confirms.serial_receipt(route)
                else:
                    receipt = self.confirms.new_receipt()
        self.extra += len(route.queues)
        if len(route.queues) > _AT_ONCE:
            self.services.publisher.publish_to_many(self, route, message)
            return
        outcome = route.publish(message, receipt, False, self.clock.now)
        if outcome:
            self.record_outcome(outcome)
        if len(route.queues) >= _WIDE:
            self.services.turn_share.note(self.connection, len(route.queues))

    def count_published(self) -> None:
        """Add what was published since the last call to the counts of its exchange: when another follows, and when
        somebody asks. By the message nothing is counted that goes to one queue."""
        published = self.published + self.confirms.published
        new, self.counted = published - self.counted, published
        extra, self.counted_extra = self.extra - self.counted_extra, self.extra
        if not new:
            return
        exchange = self.exchange[1:].decode("utf-8", "surrogateescape")
        self.vhost.count_published(exchange, new, new + extra)

    def routed_count(self) -> int:
        """To how many queues all together went what was published, but for transactions, which count theirs."""
        return self.published + self.confirms.published + self.extra

    def count_copies(self, copies: int) -> None:
        """The message published last went to so many queues by the long way."""
        self.extra += copies

    def count_request(self, size: int) -> None:
        """What was published last, `size` octets, was a request to the broker itself: neither that nor its answer is
        counted as a message, nor that it is confirmed."""
        if self.is_confirming:
            self.confirms.record_request()
        self.published -= 1
        self.extra += 1
        self.octets -= size

    def count_answer(self) -> None:
        """What was delivered last was the broker's answer."""
        self.answered += 1

    def count_sizes(self) -> None:
        """Add what was published since the last call to the counts of sizes: when somebody asks."""
        self._count_class()
        sizes = self.services.message_sizes
        for number in range(CLASSES):
            if self.by_size[number]:
                sizes.add(number, self.by_size[number])
                self.by_size[number] = 0
        sizes.add_octets(self.octets)
        self.octets = 0

    def _count_class(self) -> None:
        """What was published since the last call is of the present class."""
        published = self.published + self.confirms.published
        self.by_size[self.size_class] += published - self.sized
        self.sized = published

    def _begin_size_class(self, size: int) -> None:
        """The next body is of another class than those before."""
        self._count_class()
        number = class_of(size)
        self.size_class = number
        self.size_below = bound_of(number - 1) if number else 0
        self.size_to = min(bound_of(number), self.max_message_bytes)

    def _check_size(self, size: int, header: int) -> None:
        """A body that is larger than those before, or a header that is too large. Raises ChannelException."""
        if size > self.max_message_bytes or header > self.max_header_bytes:
            raise too_large(size, header, self.max_message_bytes, self.max_header_bytes)
        self._begin_size_class(size)

    def record_unroutable(self, is_returned: bool) -> None:
        """What was published last went to no queue."""
        self.unroutable += 1
        if is_returned:
            self.returned += 1

    def record_outcome(self, outcome: int) -> None:
        """What the queues said of the message published last decides on its confirm."""
        if self.is_confirming:
            self.confirms.record_outcome(outcome)

    def _find_route(self) -> None:
        """The present route of `raw`, permission checked. Raises ChannelException."""
        vhost = self.vhost
        self.number = self._number_of(self.raw)
        self.only = self.routes.only[self.number]
        self.generation = vhost.generation
        self.forgotten = vhost.forgotten

    def _number_of(self, raw: bytes) -> int:
        """The number of the route of an address; it is found if it is not known, or does not hold any more."""
        table = self.routes
        octets: Pointer = raw
        number = table.index.find(octets, 0, len(raw))
        if number >= 0 and table.routes[number] is not None:
            return number
        publisher: Publisher = self.services.publisher
        _, route = publisher.find_route(self, raw)
        return int(self.vhost.remember_route(table, raw, route))

    def return_message(self, message: Message) -> None:
        """basic.return: a mandatory message that no queue got."""
        payload = b"\x00\x3c\x00\x32\x01\x38\x08NO_ROUTE" + message.raw
        self.output.put_frame(1, self.channel_id, payload)
        self.output.put_content(message, self.channel_id, self.connection.frame_max)
        self.connection.touch()

    # -- deliveries ----------------------------------------------------------------------------------------------

    def trail(self, is_behind: bool) -> None:
        """One of its consumers reads far behind now, or does not any more."""
        self.connection.trail(is_behind)

    def hold(self, entry: Delivery) -> int:
        """Remember a delivery until it is settled. Returns its tag."""
        unacked = self.unacked
        unacked.append(entry)
        tag = self.first_tag + len(unacked) - 1
        if self.clock.now >= self.note_from:
            self._note_time(tag)
        return tag

    def _note_time(self, tag: int) -> None:
        """Once for many deliveries."""
        if self.times is None:
            self.times = DeliveryTimes()
        now = self.clock.now
        self.note_from = self.times.note(tag, now, self.first_tag + self.head)

    def held_since(self, tag: int) -> int:
        """When a delivery was made that is outstanding, milliseconds since the epoch; see DeliveryTimes."""
        assert self.times is not None  # there is a delivery
        return self.times.since(tag)

    def pass_tag(self) -> int:
        """The tag of a delivery that is not to be acknowledged."""
        self.passed += 1
        if self.unacked:
            self.unacked.append(None)
            return self.first_tag + len(self.unacked) - 1
        self.first_tag += 1
        return self.first_tag - 1

    def write_deliver(self, prefix: bytes, prefix_size: int, tag: int, is_redelivered: bool, message: Message) -> None:
        """Put a delivery into the connection's output. Compiled, `prefix` is a pointer."""
        connection = self.connection
        self.output.put_deliver(
            prefix, prefix_size, tag, is_redelivered, message, self.channel_id, connection.frame_max
        )
        if not connection.is_dirty:
            connection.touch_with_delivery()

    def write_record(
        self, prefix: bytes, prefix_size: int, tag: int, octets: bytes, place: int, offset: int, more: bytes
    ) -> None:
        """Put a delivery of a stream's record into the connection's output, which it has to fit into one frame of. See
        record.write_record. Compiled, `prefix` is a pointer."""
        connection = self.connection
        write_record(self.output.buffer, prefix, prefix_size, tag, octets, place, offset, self.channel_id, more)
        if not connection.is_dirty:
            connection.touch()

    def trace(self, what: str, consumer: ChannelConsumer, message: Message | None, is_redelivered: bool) -> None:
        """Tell who observes the virtual host what happened between the channel's client and a message."""
        queue = consumer.queue
        if self.vhost.taps is None or queue is None or message is None:
            return  # direct replies come from no queue, and what was copied from a stream before is no message
        connection = self.connection
        self.vhost.happened(self.clock.now, what, message, {
            "queues": [queue.name],
            "consumer_tag": consumer.tag or None,
            "ack_required": not consumer.no_ack,
            "redelivered": is_redelivered,
            "connection": str(connection.peer),
            "channel": self.channel_id,
            "user": self.session.user,
        })  # fmt: skip

    def trace_settled(self, what: str, entries: list[Delivery]) -> None:
        """The same, of what is settled: as much of it as is looked at."""
        for entry in entries[:MOST_SETTLED]:
            self.trace(what, entry.consumer, entry.message, entry.is_redelivered)

    def _trace_ack(self, tag: int, multiple: bool) -> None:
        if multiple:
            places: int = self.places_until(tag)
            found = self.unacked[self.head : self.head + min(places, MOST_SETTLED)]
            self.trace_settled(ACKED, [entry for entry in found if entry is not None])
        elif self.is_outstanding(tag):
            entry = self.unacked[tag - self.first_tag]
            assert entry is not None  # it is outstanding
            self.trace_settled(ACKED, [entry])

    # -- settling ------------------------------------------------------------------------------------------------

    def receive_ack(self, tag: int, multiple: bool) -> None:
        """basic.ack (AMQP 0-9-1 §1.8.3.13)."""
        if self.settles_specially:
            if self.transaction is not None:
                self.transaction.add_ack(self, tag, multiple)
                return
            self._trace_ack(tag, multiple)
        if multiple:
            self._ack_until_tag(tag)
        else:
            entry = self.take_one(tag)
            consumer = cython.cast(ChannelConsumer, entry.consumer) if cython.compiled else entry.consumer
            queue = cython.cast(Queue, consumer.queue) if cython.compiled else consumer.queue
            queue.ack(entry)
            self._give_credit(consumer)
        if self._to_dispatch or self._shares_out:
            self.dispatch()

    def may_refuse(self, bits: int) -> bool:
        """Whether `receive_refusal` is for a basic.reject or basic.nack with these bits: neither multiple nor to be put
        back."""
        return bits == 0 and not self.settles_specially

    def receive_refusal(self, tag: int) -> None:
        """basic.reject, or basic.nack of one delivery, for good (AMQP 0-9-1 §1.8.3.14), which costs about what an ack
        does."""
        self._to_dispatch.append(self._refuse(self.take_one(tag)))
        self.dispatch()

    def ack_taken(self, entries: list[Delivery]) -> None:
        """Deliveries that were taken out are acknowledged."""
        for entry in entries:
            consumer = entry.consumer
            queue = consumer.queue
            queue.ack(entry)
            self._give_credit(consumer)
        if self._to_dispatch or self._shares_out:
            self.dispatch()

    def _ack_until_tag(self, tag: int) -> None:
        if tag == 0 and self.head >= len(self.unacked):
            return
        last = self._index_until(tag)
        if last - self.head >= _FEW:
            settle_many(self, self.take_places(tag), "basic.ack", self.ack_taken)
            return
        unacked = self.unacked
        index = self.head
        while index <= last:
            entry = cython.cast(Delivery, unacked[index]) if cython.compiled else unacked[index]
            if entry is not None:
                unacked[index] = None
                # Unchecked as well: a channel holds deliveries of its own consumers only.
                consumer = cython.cast(ChannelConsumer, entry.consumer) if cython.compiled else entry.consumer
                queue = cython.cast(Queue, consumer.queue) if cython.compiled else consumer.queue
                queue.ack(entry)
                self._give_credit(consumer)
            index += 1
        self._advance(index)

    def _index_until(self, tag: int) -> int:
        """The index of the last delivery that `multiple` with this tag means."""
        if tag == 0:
            return len(self.unacked) - 1
        index = tag - self.first_tag
        if tag < self.first_tag or tag >= self.first_tag + len(self.unacked) or self.unacked[index] is None:
            raise unknown_tag(tag)
        return index

    def note_got(self, is_acked: bool, is_redelivered: bool) -> None:
        """basic.get was answered with a message. is_acked: with no-ack."""
        if is_acked:
            self.got_no_ack += 1
        else:
            self.got += 1
        if is_redelivered:
            self.redelivered += 1

    def note_nothing_got(self) -> None:
        """basic.get was answered with get-empty."""
        self.got_nothing += 1

    def delivered_count(self) -> int:
        """How many deliveries there were, in any way: that is how many tags."""
        return self.first_tag + len(self.unacked) - 1

    def messages_delivered(self) -> int:
        """How many of these were messages, and not the broker's own answers."""
        return self.delivered_count() - self.answered

    def held_count(self) -> int:
        """How many deliveries wait for their acknowledgement, with what basic.get has fetched."""
        return self.unacked_deliveries + self.fetched

    def acked_count(self) -> int:
        """How many deliveries were acknowledged: those that were to be, are not held any more and were not refused."""
        return self.delivered_count() - self.passed - self.held_count() - self.unwanted

    def take_one(self, tag: int) -> Delivery:
        """Take out the delivery with this tag. Raises ChannelException (406) when it is not outstanding."""
        index = tag - self.first_tag
        if tag < self.first_tag or tag >= self.first_tag + len(self.unacked):
            raise unknown_tag(tag)
        # Unchecked: nothing else is in there, and to look which type of delivery it is costs more than all of this.
        entry = cython.cast(Delivery, self.unacked[index]) if cython.compiled else self.unacked[index]
        if entry is None:
            raise unknown_tag(tag)
        self.unacked[index] = None
        if index == self.head:
            self._advance(index + 1)
        return entry

    def take_until(self, tag: int) -> list[Delivery]:
        """Take out every delivery up to this tag, in order; 0 means all. Raises ChannelException (406)."""
        if tag == 0 and self.head >= len(self.unacked):
            return []
        last = self._index_until(tag)
        entries = []
        for index in range(self.head, last + 1):
            entry = self.unacked[index]
            if entry is not None:
                entries.append(entry)
                self.unacked[index] = None
        self._advance(last + 1)
        return entries

    def places_until(self, tag: int) -> int:
        """How many deliveries, settled ones among them included, `multiple` with this tag means. Raises
        ChannelException (406)."""
        if tag == 0 and self.head >= len(self.unacked):
            return 0
        return self._index_until(tag) + 1 - self.head

    def take_places(self, tag: int) -> list[Delivery | None]:
        """As take_until, with None for what was settled before, and at no more cost than what stays. Raises
        ChannelException (406)."""
        if tag == 0 and self.head >= len(self.unacked):
            return []
        end = self._index_until(tag) + 1
        taken = self.unacked
        if len(taken) - end > end:
            return [*self.take_until(tag)]
        self.unacked = taken[end:]
        del taken[end:]
        self.first_tag += end
        self.head = 0
        self._advance(0)
        return taken

    def take_all(self) -> list[Delivery]:
        """Take out every delivery, in order."""
        return self.take_until(0)

    def is_outstanding(self, tag: int) -> bool:
        """Whether a delivery with this tag waits for its acknowledgement."""
        index = tag - self.first_tag
        return self.first_tag <= tag < self.first_tag + len(self.unacked) and self.unacked[index] is not None

    def _advance(self, index: int) -> None:
        """Everything before `index` is settled: move the head, and cut off a long settled prefix."""
        unacked = self.unacked
        count = len(unacked)
        while index < count and unacked[index] is None:
            index += 1
        if index >= count:
            self.first_tag += count
            unacked.clear()
            index = 0
        elif index > _CUT and 2 * index > count:
            self.first_tag += index
            del unacked[:index]
            index = 0
        self.head = index

    def _give_credit(self, consumer: ChannelConsumer) -> None:
        """One delivery of `consumer` is settled: it may take another."""
        consumer.credit += 1
        if consumer.prefix_size:
            self.unacked_deliveries -= 1
        else:
            self.fetched -= 1
        if consumer.is_waiting or consumer.is_cancelled:
            pass
        elif self.short:
            # Those who share the channel's limit take turns: who made the room is the last to have it.
            self.short.pop(consumer, None)
            self.short[consumer] = None
        else:
            self.revive(consumer)
        if self.short:
            self._shares_out = True

    def _share_out(self) -> None:
        """The channel's limit has room again, for whoever stands first among those who were short of it and has
        something in its queue."""
        self._shares_out = False
        short, now = self.short, self.clock.now
        while short and (not self.prefetch or self.unacked_deliveries < self.prefetch):
            consumer = next(iter(short))
            del short[consumer]
            if consumer.is_waiting or consumer.is_cancelled:
                continue
            queue = consumer.queue
            queue.credit_returned(consumer)
            if consumer.is_waiting and not queue.is_deleted:
                queue.dispatch(now)

    def revive(self, consumer: ChannelConsumer) -> None:
        """Put a consumer back into its queue's line; `dispatch` then serves it."""
        queue = consumer.queue
        queue.credit_returned(consumer)
        if consumer.is_waiting:
            self._to_dispatch.append(queue)

    def revive_all(self) -> None:
        """Consumers may have credit again (more prefetch, flow, room in the output): serve them."""
        for consumer in list(self.consumers.values()):
            if not consumer.is_waiting:
                self.revive(consumer)
        self.dispatch()

    def wants_dispatch(self, queue: Queue) -> None:
        """Serve this queue in the next `dispatch`."""
        self._to_dispatch.append(queue)

    def dispatch(self) -> None:
        """Serve the queues whose consumers got credit or whose messages came back."""
        queues = self._to_dispatch
        self._to_dispatch = []
        now = self.clock.now
        for queue in queues:
            if not queue.is_deleted:
                queue.dispatch(now)
        if self._shares_out:
            self._share_out()

    def forget_holders(self, entries: list[Delivery]) -> None:
        """These deliveries are being returned or refused: their consumers have credit for others."""
        self.unwanted += len(entries)
        for entry in entries:
            self._give_credit(entry.consumer)

    def refuse(self, entries: list[Delivery]) -> list[Queue]:
        """Deliveries are refused for good: dead letters, or gone. Returns their queues."""
        queues: dict[Queue, None] = {}
        for entry in entries:
            queues[self._refuse(entry)] = None
        return list(queues)

    def _refuse(self, entry: Delivery) -> Queue:
        # Unchecked: a channel holds deliveries of its own consumers only.
        consumer = cython.cast(ChannelConsumer, entry.consumer) if cython.compiled else entry.consumer
        queue: Queue = cython.cast(Queue, consumer.queue) if cython.compiled else consumer.queue
        self.unwanted += 1
        self._give_credit(consumer)
        queue.reject(entry, self.clock.now)
        return queue

    def outstanding_tags(self, tag: int, begin: int = 0) -> list[int]:
        """The tags from `begin` up to `tag` (0: all) that wait for their acknowledgement, in order."""
        last = len(self.unacked) - 1 if tag == 0 else min(tag - self.first_tag, len(self.unacked) - 1)
        first = self.head if begin <= self.first_tag + self.head else begin - self.first_tag
        return [self.first_tag + i for i in range(first, last + 1) if self.unacked[i] is not None]

    def on_consumer_cancelled(self, consumer: ChannelConsumer) -> None:
        """The broker has ended the consumer: its client is told."""
        self.services.publisher.cancel_consumer(self, consumer)

    def tell_cancelled(self, consumer_tag: str) -> None:
        """See OpenChannel."""
        self.services.publisher.tell_cancelled(self, consumer_tag)
