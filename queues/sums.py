"""QueueSums: what queues hold together, and what was counted of them: for whoever adds up very many."""

from __future__ import annotations


class QueueSums:
    """Messages, but for `consumers` and `ready_bytes` (octets of bodies). The first six are as of now, the others
    count and never fall. delayed: came back, and rest before they come again. leased: held by lease groups. acked: by
    consumers. got, got_no_ack, got_nothing: answers to basic.get. rejected, expired, too_many, returned_too_often:
    dropped, or dead-lettered, for that reason. publishing, delivering: of how many queues it is known what was
    published to them and dropped, and what was delivered from them and acknowledged."""

    def __init__(self) -> None:
        self.ready = self.ready_bytes = self.unacked = self.delayed = self.leased = self.consumers = 0
        self.published = self.delivered = self.auto_acked = self.redelivered = self.acked = 0
        self.got = self.got_no_ack = self.got_nothing = 0
        self.rejected = self.expired = self.too_many = self.returned_too_often = 0
        self.publishing = self.delivering = 0

    def add_held(self, ready: int, ready_bytes: int, unacked: int, consumers: int) -> None:
        """A queue holds so much."""
        self.ready += ready
        self.ready_bytes += ready_bytes
        self.unacked += unacked
        self.consumers += consumers

    def add_leased(self, count: int) -> None:
        """The lease groups of a queue hold so much."""
        self.leased += count

    def add_delayed(self, count: int) -> None:
        """A queue has so many messages that rest."""
        self.delayed += count

    def add_published(self, count: int) -> None:
        """So much was published to a queue."""
        self.published += count

    def add_delivered(self, delivered: int, acked: int) -> None:
        """A queue has delivered so much, of which so much was acknowledged."""
        self.delivering += 1
        self.delivered += delivered
        self.acked += acked
