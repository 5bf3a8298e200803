"""Direct reply-to: consumers of the pseudo-queue amq.rabbitmq.reply-to, found by the token in a reply address.

A request that is published with reply-to `amq.rabbitmq.reply-to` gets the address of its channel's reply consumer
instead; a reply published to the default exchange with that address as routing key goes straight to the channel,
without a queue, at most once. The address names the consumer's node: from another one the reply goes over the link.

    address            amq.rabbitmq.reply-to.TOKEN[.NODE], TOKEN of 32 hexadecimal digits
    between nodes      u8 version 1, u8 1, a packed message (queues/page.py) with the address as routing key
                       u8 version 1, u8 2, u64 octets: so much more of replies was taken off the link

Nobody is made to wait for replies: who does not read them, and a link that does not carry them, loses them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from amqp_broker.links.tenants import Send
from amqp_broker.octets.buffer import Buffer
from queues.message import Message
from queues.page import AddressBook, put_message
from queues.wire.reader import Malformed, Reader
from queues.wire.traffic import read_message
from raft.errors import PeerProtocolError

log = logging.getLogger("amqp_broker")

REPLY_TO = "amq.rabbitmq.reply-to"
REPLY_PREFIX = REPLY_TO + "."

_VERSION = 1
_REPLY = 1
_TAKEN = 2
_TOKEN_BYTES = 16
_NODE_AT = len(REPLY_PREFIX) + 2 * _TOKEN_BYTES
#: Replies are dropped when so many octets are on their way to their node.
_LINK_LIMIT_BYTES = 16 * 1024 * 1024
#: So many octets are taken before the other node is told.
_TOLD_BYTES = 256 * 1024


def _nobody(node: str, payload: bytes) -> bool:
    return False


class Replied(Protocol):
    """A consumer of amq.rabbitmq.reply-to."""

    def reply(self, message: Message) -> None:
        """Somebody's reply, which is dropped where its client does not read what it has already been sent."""

    def answer(self, message: Message) -> None:
        """The broker's own, which is not: a client that asks for more than it reads is not heard until it reads."""


class ReplyConsumers:
    """The reply consumers of a node by address, and the way to those of others.

    own_node: this node's name among others, "" while it is alone. send(node, payload): a frame to another node;
    False if there is no link. linked: the nodes that there is a link to.
    """

    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        self.own_node = ""
        self.send: Send = _nobody
        self.linked: Callable[[], Iterable[str]] = tuple
        self._random_bytes = random_bytes
        self._by_address: dict[str, Replied] = {}
        self._addresses = AddressBook()
        self._in_flight: dict[str, int] = {}
        self._untold: dict[str, int] = {}

    def open(self, own_node: str, send: Send, linked: Callable[[], Iterable[str]]) -> None:
        """The node knows its name among the others, and how to reach them."""
        self.own_node = own_node
        self.send = send
        self.linked = linked

    def add(self, consumer: Replied) -> str:
        """Register a consumer. Returns its address, which nobody can guess."""
        address = REPLY_PREFIX + self._random_bytes(_TOKEN_BYTES).hex()
        if self.own_node:
            address += "." + self.own_node
        self._by_address[address] = consumer
        return address

    def remove(self, address: str) -> None:
        """The consumer is gone; replies to it are dropped from now on."""
        self._by_address.pop(address, None)

    def find(self, address: str) -> Replied | None:
        """The consumer at this address, if it is one of this node."""
        return self._by_address.get(address)

    def may_exist(self, address: str) -> bool:
        """Whether a reply to this address may arrive: its consumer is here, or a linked node may know it."""
        return address in self._by_address or node_of(address) in self.linked()

    def __len__(self) -> int:
        return len(self._by_address)

    def deliver(self, message: Message) -> bool:
        """Hand a reply to whom its routing key addresses. Returns False if there is nobody: no such consumer on this
        node, or no link to the one that the address names (which drops what it has no consumer for)."""
        address = message.address.routing_key
        consumer = self._by_address.get(address)
        if consumer is not None:
            consumer.reply(message)
            return True
        node = node_of(address)
        if not node or node == self.own_node:
            return False
        return self._send_reply(node, message)

    def _send_reply(self, node: str, message: Message) -> bool:
        in_flight = self._in_flight.get(node, 0)
        if in_flight > _LINK_LIMIT_BYTES:
            log.warning("a reply to node %s is dropped: %d octets of replies are on their way there", node, in_flight)
            return True
        buffer = Buffer(message.size)
        buffer.put_u8(_VERSION)
        buffer.put_u8(_REPLY)
        put_message(buffer, message)
        if not self.send(node, buffer.take()):
            return False
        self._in_flight[node] = in_flight + message.size
        return True

    # -- from other nodes --------------------------------------------------------------------------------------------

    def receive(self, node: str, payload: bytes, now: int) -> None:
        """A frame from another node. Raises PeerProtocolError."""
        try:
            self._receive(node, Reader(payload, "frame of direct replies"))
        except Malformed as error:
            raise PeerProtocolError(f"{node}: {error}") from error

    def _receive(self, node: str, reader: Reader) -> None:
        reader.check_version(_VERSION)
        kind = reader.u8()
        if kind == _TAKEN:
            octets = reader.u64()
            reader.finish()
            self._in_flight[node] = max(0, self._in_flight.get(node, 0) - octets)
        elif kind == _REPLY:
            message = read_message(reader, self._addresses)
            consumer = self._by_address.get(message.address.routing_key)
            if consumer is not None:
                consumer.reply(message)
            self._take(node, message.size)
        else:
            raise reader.fail(f"unknown kind {kind}: written by a newer version?")

    def _take(self, node: str, octets: int) -> None:
        untold = self._untold.get(node, 0) + octets
        if untold >= _TOLD_BYTES:
            self.send(node, bytes([_VERSION, _TAKEN]) + untold.to_bytes(8, "big"))
            untold = 0
        self._untold[node] = untold

    def peer_disconnected(self, node: str, now: int) -> None:
        """The link to a node is lost, with the replies that were on it."""
        self._in_flight.pop(node, None)
        self._untold.pop(node, None)


def node_of(address: str) -> str:
    """The node that a reply address names; "" for none."""
    return address[_NODE_AT + 1 :] if address[_NODE_AT : _NODE_AT + 1] == "." else ""
