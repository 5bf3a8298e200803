"""ClientModel: what clients of a cluster are promised, as they see it themselves.

It knows what clients did, what they were told and when; nothing of nodes, groups or logs. It raises Violation.

    K1  a message comes as it was published, to queues that it was published to, or as the dead letter of one
    K2  it comes as if for the first time once (quorum queues)
    K3  no consumer holds more than its prefetch, no channel more than its own
    K4  confirms are for what was published, each once; what could not be routed is returned before it is confirmed
    K5  a dead letter says truly where it died, and why
    K6  what was confirmed reaches somebody, or ends as declared
    K7  what was declared and answered is there for everybody who asks after that, on any node
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.cluster_simulation.queue_kinds import AT_LEAST_ONCE, LETTERS, QueueKind
from tests.simulation.state import Violation

NEVER = 1 << 60
UNLIMITED = 1 << 30


@dataclass(slots=True, eq=False)
class Attempt:
    """One basic.publish. outcome: "" while unknown, "ack", "nack", or "lost" with its channel. tag: 0 on a channel
    without confirms. handled_in: the node's turn."""

    message: Sent
    channel: Channel
    tag: int
    sent_at: int
    is_mandatory: bool
    outcome: str = ""
    is_returned: bool = False
    answered_at: int = NEVER


@dataclass(slots=True, eq=False)
class Sent:
    """A message. targets: the queues that it must reach; may_reach: those that it can. producer: its number is known
    by, or ""."""

    number: int
    body: bytes
    is_persistent: bool
    targets: tuple[str, ...]
    may_reach: tuple[str, ...]
    producer: str = ""
    priority: int = 0
    delay: int = 0
    attempts: list[Attempt] = field(default_factory=list)
    arrivals: list[Arrival] = field(default_factory=list)

    @property
    def is_confirmed(self) -> bool:
        return any(each.outcome == "ack" and not each.is_returned for each in self.attempts)

    def __str__(self) -> str:
        return f"message {self.number} for {', '.join(self.targets) or 'nobody'}"


@dataclass(slots=True, eq=False)
class Arrival:
    """A delivery, or what basic.get has fetched. settled: "", "ack", "requeue", "reject", or "no ack". stay: at which
    of its homes the queue was, by the id that it has there."""

    message: Sent
    queue: str
    channel: Channel
    consumer: Consumer | None
    delivery_tag: int
    is_redelivered: bool
    at: int
    settled: str = ""
    settled_at: int = NEVER
    handing: object = None
    stay: int = 0


@dataclass(slots=True, eq=False)
class Consumer:
    """One basic.consume. limit: the highest prefetch that it may count on."""

    tag: str
    queue: str
    no_ack: bool
    limit: int
    held: int = 0
    is_over: bool = False


@dataclass(slots=True, eq=False)
class Channel:
    """A channel as its client sees it. limit: of all its consumers together (basic.qos global)."""

    client: str
    node: str
    number: int
    is_confirming: bool = False
    published: int = 0
    next_tag: int = 1
    limit: int = UNLIMITED
    held: int = 0
    unconfirmed: dict[int, Attempt] = field(default_factory=dict)
    unsettled: dict[int, Arrival] = field(default_factory=dict)
    is_over: bool = False
    ended_at: int = NEVER


@dataclass(slots=True, eq=False)
class Removal:
    """A purge or a deletion of a queue: it may have taken effect from `sent_at` to `answered_at`."""

    queue: str
    sent_at: int
    answered_at: int = NEVER


class ClientModel:
    """See the module's docstring. `now` is set by the world: microseconds, the same for all."""

    def __init__(self, kinds: Mapping[str, QueueKind]) -> None:
        self.kinds = kinds
        self.now = 0
        self.messages: dict[int, Sent] = {}
        self.removals: list[Removal] = []
        self.channels: list[Channel] = []
        self.counts: Counter[str] = Counter()
        #: How much ahead of another a node's clock may be, microseconds.
        self.skew = 0
        #: Acknowledgements that clients have sent, and deliveries that needed none: (node, consumer, queue, number).
        self.acknowledged: Counter[tuple[str, str, str, int]] = Counter()

    # -- publishing ----------------------------------------------------------------------------------------------------

    def publish(self, channel: Channel, message: Sent, *, is_mandatory: bool) -> Attempt:
        """A client publishes, for the first time or again."""
        self.messages[message.number] = message
        tag = 0
        if channel.is_confirming:
            channel.published += 1
            tag = channel.published
        attempt = Attempt(message, channel, tag, self.now, is_mandatory)
        message.attempts.append(attempt)
        if tag:
            channel.unconfirmed[tag] = attempt
        self.counts["publishes"] += 1
        return attempt

    def confirm(self, channel: Channel, tag: int, *, is_multiple: bool, is_nack: bool) -> list[Attempt]:
        """basic.ack or basic.nack from the broker. Returns what it is for (K4)."""
        tags = [each for each in channel.unconfirmed if each <= tag] if is_multiple else [tag]
        if not tags or tag > channel.published or (tag not in channel.unconfirmed and not is_multiple):
            raise Violation(f"{channel.client}: publish {tag} is confirmed, and nothing of that number waits for it")
        attempts = []
        for each in tags:
            attempt = channel.unconfirmed.pop(each)
            attempt.outcome = "nack" if is_nack else "ack"
            attempt.answered_at = self.now
            self.counts[attempt.outcome] += 1
            attempts.append(attempt)
            message = attempt.message
            if not is_nack and attempt.is_mandatory and not message.may_reach and not attempt.is_returned:
                raise Violation(f"{message} is confirmed, could not be routed, and was not returned")
        return attempts

    def returned(self, channel: Channel, number: int) -> None:
        """basic.return (K4)."""
        message = self._known(number)
        attempt = next(
            (each for each in message.attempts if each.channel is channel and each.is_mandatory and not each.outcome),
            None,
        )
        if attempt is None:
            raise Violation(f"{channel.client}: {message} is returned, which is confirmed already, or not mandatory")
        if message.targets:
            raise Violation(f"{message} is returned as unroutable, and its queue is there")
        attempt.is_returned = True
        self.counts["returns"] += 1

    def _known(self, number: int) -> Sent:
        message = self.messages.get(number)
        if message is None:
            raise Violation(f"there is a message {number}, and nobody has published it")
        return message

    # -- consuming -----------------------------------------------------------------------------------------------------

    def deliver(
        self,
        channel: Channel,
        consumer: Consumer | None,
        queue: str,
        number: int,
        body: bytes,
        delivery_tag: int,
        *,
        is_redelivered: bool,
        no_ack: bool,
        deaths: list[tuple[str, str]],
        stay: int = 0,
    ) -> Arrival:
        """basic.deliver, or basic.get-ok (consumer is None). deaths: (queue, reason), the latest first."""
        message = self._known(number)
        if delivery_tag != channel.next_tag:
            raise Violation(f"{channel.client}: delivery tag {delivery_tag}, not {channel.next_tag}")
        channel.next_tag += 1
        self.counts["deliveries"] += 1
        if body != message.body:
            raise Violation(f"{message} comes with another body")
        if consumer is not None and consumer.is_over:
            raise Violation(f"{message} comes to consumer '{consumer.tag}' after its end")
        arrival = Arrival(message, queue, channel, consumer, delivery_tag, is_redelivered, self.now, stay=stay)
        self._check_origin(arrival, deaths)
        if no_ack:
            arrival.settled, arrival.settled_at = "no ack", self.now
            self.acknowledged[self._key(arrival)] += 1
        else:
            channel.unsettled[delivery_tag] = arrival
            self._check_prefetch(channel, consumer, stay)
        self._check_first(message, queue, arrival)
        message.arrivals.append(arrival)
        return arrival

    def _check_origin(self, arrival: Arrival, deaths: list[tuple[str, str]]) -> None:
        """K1 and K5."""
        message, queue = arrival.message, arrival.queue
        if message.delay and self.now < message.attempts[0].sent_at + message.delay - self.skew:
            raise Violation(f"{message} comes too early")
        if queue != LETTERS:
            if queue not in message.may_reach:
                raise Violation(f"{message} comes from '{queue}'")
            if deaths:
                raise Violation(f"{message} comes from '{queue}' with deaths {deaths}")
            return
        self.counts["letters"] += 1
        if not deaths:
            raise Violation(f"{message} comes from '{queue}' without a word on its death")
        where, reason = deaths[0]
        kind = self.kinds.get(where)
        if kind is None or not kind.has_dead_letters or where not in message.may_reach:
            raise Violation(f"{message} is said to have died in '{where}'")
        was_rejected = any(each.queue == where and each.settled == "reject" for each in message.arrivals)
        is_true = {
            "rejected": was_rejected,
            "expired": kind.ttl is not None,
            "delivery_limit": kind.delivery_limit is not None,
            "maxlen": kind.max_length is not None,
        }
        if not is_true.get(reason, False):
            raise Violation(f"{message} is said to have died in '{where}' by {reason}")

    def _check_prefetch(self, channel: Channel, consumer: Consumer | None, stay: int) -> None:
        """K3. Where its queue has moved, the limit of a consumer begins anew: what it holds of before comes again."""
        if consumer is None:
            return
        consumer.held += 1
        channel.held += 1
        if consumer.held > consumer.limit:
            held = sum(each.consumer is consumer and each.stay == stay for each in channel.unsettled.values())
            if held > consumer.limit:
                raise Violation(f"consumer '{consumer.tag}' has {held} deliveries, its prefetch is {consumer.limit}")
            self.counts["limits begun anew"] += 1
        if channel.held > channel.limit:
            raise Violation(f"{channel.client}: a channel has {channel.held} deliveries, its limit is {channel.limit}")

    def _check_first(self, message: Sent, queue: str, arrival: Arrival) -> None:
        """K2."""
        if queue in AT_LEAST_ONCE or not self.kinds[queue].is_quorum:
            return
        if self.kinds[queue].is_scratch and len(message.attempts) > 1:
            return  # it may have been published to two queues of this name
        # In the order of the log, which is not that of time: a node may pass it on late, when it has been elsewhere.
        first = [each for each in message.arrivals if each.queue == queue and not each.is_redelivered]
        if first and not arrival.is_redelivered:
            raise Violation(f"{message} comes from '{queue}' as if for the first time, and came so before")

    @staticmethod
    def _key(arrival: Arrival) -> tuple[str, str, str, int]:
        tag = arrival.consumer.tag if arrival.consumer is not None else ""
        return (arrival.channel.node, tag, arrival.queue, arrival.message.number)

    def settle(self, channel: Channel, tag: int, how: str, *, is_multiple: bool) -> list[Arrival]:
        """The client sends basic.ack, nack or reject. Returns what it is for."""
        tags = [each for each in channel.unsettled if each <= tag] if is_multiple else [tag]
        arrivals = [channel.unsettled.pop(each) for each in tags]
        for arrival in arrivals:
            arrival.settled, arrival.settled_at = how, self.now
            self.counts[how] += 1
            if how == "ack":
                self.acknowledged[self._key(arrival)] += 1
            if arrival.consumer is not None:
                arrival.consumer.held -= 1
                channel.held -= 1
        return arrivals

    def end(self, channel: Channel) -> None:
        """The channel is over, with everything on it."""
        channel.is_over = True
        channel.ended_at = self.now
        for attempt in channel.unconfirmed.values():
            attempt.outcome = "lost"
            self.counts["lost"] += 1
        channel.unconfirmed.clear()
        channel.unsettled.clear()

    # -- the end -------------------------------------------------------------------------------------------------------

    def at_the_end(self) -> None:
        """Everything has been drained (K6)."""
        for message in self.messages.values():
            if message.is_confirmed:
                for queue in message.targets:
                    self._check_kept(message, queue)

    def _check_kept(self, message: Sent, queue: str) -> None:
        kind = self.kinds[queue]
        if kind.is_leased:
            return  # LeaseModel knows who has it
        if not kind.is_quorum and not (kind.is_durable and message.is_persistent):
            return
        published_at = min(each.sent_at for each in message.attempts)
        if any(each.queue == queue and each.answered_at > published_at for each in self.removals):
            return
        here = [each for each in message.arrivals if each.queue == queue]
        if any(each.settled in ("ack", "no ack") for each in here):
            self.counts["kept"] += 1
            return
        letters = [each for each in message.arrivals if each.queue == LETTERS]
        if kind.has_dead_letters and any(each.settled in ("ack", "no ack") for each in letters):
            self.counts["kept as letters"] += 1
            return
        # A classic queue's dead letters are published at most once: its node may go down between.
        if not (kind.has_dead_letters and kind.is_quorum) and any(each.settled == "reject" for each in here):
            return
        if self.had_takers(queue, published_at):
            return
        raise Violation(f"{message} was confirmed, and '{queue}' has lost it")

    def had_takers(self, queue: str, since: int) -> bool:
        """Whether somebody consumed without acknowledgements, and went: what was on its way to it is gone."""
        return any(queue == each and ended_at > since for each, ended_at in self.gone_takers)

    #: Consumers without acknowledgements whose connection ended while there may have been something on its way.
    gone_takers: tuple[tuple[str, int], ...] = ()
