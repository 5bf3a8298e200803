"""Queue: what channels and virtual hosts use of a queue, of whatever type it is and wherever its messages are.

    publish -> ... -> dispatch: to consumers with credit -> ack | reject | put_back | fail | take_back
    consume, fetch, clear, count: whatever may have to ask elsewhere says what came of it to `then`
    peek, holdings: what it holds, for who only looks

`then(refusal, ...)` is called once, maybe before the method returns, and is the last thing that the queue does: it may
raise. `refusal` is an exception, AMQP's or a QueueRefusal, that says why the queue does not do it, or None.

A type of queue that is written in plain Python may override any of it; what the .pxd has as `int` then returns one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, cast

from queues.arguments import QueueArguments
from queues.consumer import Consumer
from queues.message import Delivery, Message
from queues.refusal import ACCESS_REFUSED, QueueRefusal
from queues.sums import QueueSums
from queues.write_group import WriteGroup

#: Why not, or None.
Done = Callable[[Exception | None], None]
#: Why not; the delivery, None where nothing is ready; and how many messages are ready behind it.
Fetched = Callable[[Exception | None, Delivery | None, int], None]
#: Why not, and how many messages.
Tallied = Callable[[Exception | None, int], None]


class Replicas(NamedTuple):
    """Which nodes have the log that a queue lies in. leader: "" while none is known to lead it."""

    leader: str
    members: tuple[str, ...]


class Parting(Protocol):
    """A consumer that gets nothing more, and of which the queue's log does not know yet that it has left. unseen: how
    many messages waited for it, which go back."""

    unseen: int

    def tell(self) -> None:
        """The log is told."""


class Held(NamedTuple):
    """A message that a consumer holds. node, number: whose consumer it is, and that node's number of it. since: when it
    was delivered, milliseconds since the epoch."""

    delivery: Delivery
    node: str
    number: int
    tag: str
    since: int


if TYPE_CHECKING:
    from queues.consumer import Subscriber
    from queues.declaration import Declaration
    from queues.dispatcher import Dispatcher
    from queues.holder import Holder
    from queues.lease_source import LeasedAt, LeaseSource
    from queues.moved import MoveTarget
    from queues.peeking import PeekSteps, PeekWish
    from queues.ready import Ready
    from queues.receipts import Receipt
    from queues.rule import Rule
    from queues.sizes import QueueSizes

_NO_ARGUMENTS = QueueArguments()


class Queue:
    """One queue of a virtual host.

    counts_returns: a message that came back says how often, in a header. settings: what its arguments and the policies
    on it say. declaration, last_used, had_consumers: what the virtual host keeps about it. writes: the queues whose
    messages are written with its own. return_window: so many may come back before it is to be asked (`when_settled`)
    whether it has them, 0 for any number. home: the node that has its messages and counts them, "" where this one does.
    recognises_producers: it drops what a producer has given it before, by the producer's numbers. keeps_messages: what
    is acknowledged stays, so it is never empty, and nobody holds a message for too long. passes_on: it has no messages
    of its own, and what is published to it goes to the queue that has them.
    lacks: the rules that its messages are not subject to, and why. fetched, fetched_no_ack, fetched_nothing: how often
    basic.get was answered on this node, and how.

    What a consumer of its was handed comes back: a type of queue with deliveries of its own kind gets these.
    """

    return_window = 0
    home = ""
    recognises_producers = False
    keeps_messages = False
    passes_on = False
    lacks: ClassVar[Mapping[Rule, str]] = {}

    def __init__(self, name: str, queue_id: int, is_durable: bool, writes: WriteGroup) -> None:
        self.name = name
        self.queue_id = queue_id
        self.is_durable = is_durable
        self.writes = writes
        self.is_deleted = False
        self.counts_returns = False
        self.settings = _NO_ARGUMENTS
        self.declaration = cast("Declaration", None)  # before `declared` it is nobody's
        self.last_used = 0
        self.had_consumers = False
        self.fetched = self.fetched_no_ack = self.fetched_nothing = 0

    def declared(self, declaration: Declaration, now: int) -> None:
        """It is in its virtual host, and was declared so."""
        self.declaration = declaration
        self.last_used = now

    def mark_used(self, now: int) -> None:
        """Somebody uses it (x-expires)."""
        self.last_used = now

    def vhost_deleted(self) -> None:
        """Its virtual host is gone, and now it is: nothing expires any more, and what it gives up is for nobody."""
        self.is_deleted = True

    # -- counts --------------------------------------------------------------------------------------------------------

    def count(self, is_use: bool, then: Done) -> None:
        """Find out how many there are of all that is counted: what the others say when `then` is called without a
        refusal is right. is_use: whether that is a use of the queue (x-expires)."""
        then(None)

    def count_for_certain(self, then: Done) -> None:
        """The same, and a use, for who does something that depends on it: a refusal, also where `count` would leave it
        at what was counted last."""
        self.count(True, then)

    def message_count(self) -> int:
        """How many messages are ready."""
        raise NotImplementedError

    def unacked_count(self) -> int:
        """How many messages consumers hold."""
        raise NotImplementedError

    def delayed_count(self) -> int:
        """How many messages came back and rest before they come again: they are neither ready nor held."""
        return 0

    def leased_count(self) -> int:
        """How many messages its lease groups hold."""
        raise NotImplementedError

    def consumer_count(self) -> int:
        """How many consumers there are, on any node."""
        raise NotImplementedError

    def attached(self) -> Iterable[object]:
        """The consumers of this node, in the order in which they came; to be read only."""
        return ()

    def numbered_consumers(self) -> Iterator[tuple[int, object]]:
        """Of a queue whose log is elsewhere: the consumers of this node, by the numbers that the log knows them by."""
        return iter(())

    def turns(self) -> Dispatcher | None:
        """Whose turn it is among its consumers, where this node decides that."""
        return None

    def active_tag(self) -> str | None:
        """The tag of the single active consumer, whichever node it is on; None where there is none, and where this node
        does not know it."""
        turns = self.turns()
        active = turns.active if turns is not None and turns.is_single_active else None
        return getattr(active, "tag", None)

    def is_active(self, consumer: object) -> bool | None:
        """Whether it is the turn of a consumer of this node; False: it stands by, as another one is the single active
        consumer. None: this node does not know."""
        turns = self.turns()
        return turns is None or not turns.is_single_active or turns.active is consumer

    def add_counts(self, sums: QueueSums) -> None:
        """Add what it holds, if it is this node that counts it: of all nodes, one does."""

    def add_counters(self, sums: QueueSums) -> None:
        """Add all that is known here of what was done with it."""
        self.add_gets(sums)

    def add_own_counters(self, sums: QueueSums) -> None:
        """The same, but for what other nodes count, too."""
        self.add_counters(sums)

    def note_got(self, is_acked: bool) -> None:
        """basic.get was answered on this node with a message. is_acked: with no-ack, so it counts as acknowledged."""
        if is_acked:
            self.fetched_no_ack += 1
        else:
            self.fetched += 1

    def note_nothing_got(self) -> None:
        """basic.get was answered with get-empty."""
        self.fetched_nothing += 1

    def add_gets(self, sums: QueueSums) -> None:
        """Add how basic.get was answered on this node."""
        sums.got += self.fetched
        sums.got_no_ack += self.fetched_no_ack
        sums.got_nothing += self.fetched_nothing

    def first_messages(self) -> list[tuple[int, bytes]]:
        """Of the first ready message of each priority, the highest last: when the broker took it, milliseconds since
        the epoch, and its property section. Those that only the disk or another node has are left out."""
        return []

    def sizes(self) -> QueueSizes | None:
        """What its messages take; None where that is not known here."""
        return None

    def would_deliver(self) -> bool | None:
        """Whether a message that came now would go to a consumer at once, as far as can be seen; None where that is not
        known here."""
        return None

    def leases(self) -> LeaseSource | LeasedAt | None:
        """Its lease groups; the node that has them, where that is another one; None where its type has none."""
        return None

    def partitions(self) -> Sequence[Queue]:
        """The queues that it consists of; none for one that is whole."""
        return ()

    def elsewhere(self) -> Sequence[str]:
        """The nodes that can read what it keeps, where this one cannot; none where it can."""
        return ()

    def is_reachable(self) -> bool:
        """Whether the node that has its messages can be asked, as far as this one sees."""
        return True

    def replicas(self) -> Replicas | None:
        """Who has its log; None where its messages are in none, but on one node."""
        return None

    def described_at(self) -> str:
        """The node that is asked for all that is shown of it, "" where this one knows."""
        return self.home

    def which_partition(self) -> str:
        """What to say to who asks it for what only its partitions have; "" for one that is whole."""
        parts = self.partitions()
        return f"{len(parts)} partitions: say which, '{parts[0].name}' to '{parts[-1].name}'" if parts else ""

    def capability(self, kind: type) -> object | None:
        """What its type can do besides, as the class `kind` says it; None where it cannot. To be asked by the function
        that lies beside `kind` (queues/stream/source.py has source_of)."""
        return None

    def made_of_it(self) -> list[str]:
        """The names of the queues whose messages are this one's: it is not deleted before them."""
        return []

    # -- looking -------------------------------------------------------------------------------------------------------

    def seen_at(self) -> str | None:
        """The node that knows best what it holds, "" for this one; None while there is none. Only that one is asked to
        `peek`."""
        return self.home

    def peek(self, wish: PeekWish) -> PeekSteps | None:
        """The ready messages, to be looked at without any trace; None where its type does not show them."""
        return None

    def holdings(self) -> Iterator[Held | None] | None:
        """The messages that consumers hold, in no order, where the queue itself knows by whom, which spares asking all
        channels; None: a slice is over. None at all where only the channels of this node know."""
        return None

    def held_since(self) -> Iterator[int | None] | None:
        """Of each consumer that holds something, when its first delivery was made, milliseconds since the epoch; None:
        a slice is over. None at all where only the channels of this node know."""
        return None

    def is_abandoned(self) -> bool:
        """Whether it is to go with its last consumer, and has none, as far as that is for this node to see."""
        return bool(self.declaration.is_auto_delete) and not self.is_deleted and not self.consumer_count()

    # -- memory --------------------------------------------------------------------------------------------------------

    def holders(self) -> Sequence[Holder]:
        """What of it is in this node's RAM and can be brought to the disk."""
        return ()

    def idle_ready(self) -> Ready | None:
        """Its ready messages, of which the head can be brought to the disk as well, as there is no consumer to want it;
        None where there is one, or they are not in this node's RAM."""
        return None

    # -- publishing ----------------------------------------------------------------------------------------------------

    def publish(self, message: Message, receipt: Receipt | None, is_again: bool, now: int) -> int:
        """Take a message. Returns a PublishOutcome. receipt: is told what becomes of it, if `writes` is not local; None
        where nobody asks. is_again: it was published before, and comes back from a dead letter or a delay: no duplicate
        of itself."""
        raise NotImplementedError

    def refuses(self, message: Message) -> bool:
        """Whether it is full, and would refuse this message now: it is asked, and nothing becomes of it. False also
        where that is only known where its log is."""
        return False

    def move_target(self) -> MoveTarget | None:
        """What an entry of the journal can put messages into that it takes out of another queue (queues/moved.py); None
        where that cannot be."""
        return None

    # -- consumers -----------------------------------------------------------------------------------------------------

    def consume(self, consumer: Subscriber, then: Done) -> None:
        """A consumer joins. It gets its first message after `then(None)`: call `credit_returned` and `dispatch`
        there."""
        if consumer.is_exclusive and self.has_single_active_consumer():
            then(self.in_exclusive_use())
        else:
            self.admit(consumer, then)

    def admit(self, consumer: Subscriber, then: Done) -> None:
        """The same, where it may be: `consume` has looked at what no log has to be asked about."""
        raise NotImplementedError

    def has_single_active_consumer(self) -> bool:
        """Whether of all its consumers one gets messages (x-single-active-consumer): nobody may want it for itself
        alone then."""
        return False

    def in_exclusive_use(self) -> QueueRefusal:
        """What a consumer is told that may not join because it, or another one, wants the queue for itself alone."""
        return QueueRefusal(ACCESS_REFUSED, f"{self.title()} in exclusive use")

    def title(self) -> str:
        """The queue, as errors name it."""
        return f"queue '{self.name}' in vhost '{self.declaration.vhost}'"

    def cancel(self, consumer: Consumer, gives_back: bool, now: int) -> None:
        """A consumer leaves; call `dispatch` afterwards. What it holds stays held. gives_back: all that is put back
        next, and may go back with it; then `put_back` does nothing."""
        raise NotImplementedError

    def part(self, consumer: Consumer, now: int) -> Parting | None:
        """A consumer leaves, of very many or with very much, and what it holds is put back in slices. Returns what is
        to be done before that, if there is something."""
        self.cancel(consumer, False, now)
        return None

    def count_unseen(self, consumer: Consumer) -> int:
        """How many messages are assigned to a consumer that it has not been handed."""
        return 0

    def prefetch_changed(self, consumer: Subscriber) -> None:
        """A limit of the consumer, or of its channel, was changed."""

    def credit_returned(self, consumer: Consumer) -> None:
        """The consumer may have credit again; call `dispatch` afterwards."""
        raise NotImplementedError

    def dispatch(self, now: int) -> None:
        """Hand messages to consumers while there are both."""
        raise NotImplementedError

    def fetch(self, getter: Consumer, now: int, then: Fetched) -> None:
        """basic.get: the first ready message, which `getter` then holds."""
        raise NotImplementedError

    # -- settling ------------------------------------------------------------------------------------------------------

    def ack(self, delivery: Delivery) -> None:
        """The consumer is done with it."""
        raise NotImplementedError

    def reject(self, delivery: Delivery, now: int) -> None:
        """The consumer refuses it for good: dead letter, or gone."""
        raise NotImplementedError

    def put_back(self, deliveries: list[Delivery], now: int) -> None:
        """They come back unprocessed; call `dispatch` afterwards."""
        raise NotImplementedError

    def fail(self, deliveries: list[Delivery], now: int) -> None:
        """The same, after a failure: basic.reject, or their channel is closed."""
        self.put_back(deliveries, now)

    def take_back(self, deliveries: list[Delivery], now: int) -> None:
        """They come back as they were, because no client has ever had them; call `dispatch` afterwards."""
        raise NotImplementedError

    def begin_return(self, runs: list[list[Delivery]]) -> Iterator[Delivery]:
        """Very many are going to be put back, some at a time, in the order that this returns. runs: what each channel
        held, from its last delivery to its first."""
        deliveries = list(chain.from_iterable(runs))
        deliveries.reverse()
        return iter(deliveries)

    def join_returns(self, runs: list[list[Delivery]]) -> list[Delivery]:
        """One of `begin_return`'s runs from some that stand beside each other."""
        return list(chain.from_iterable(runs))

    def end_return(self, now: int) -> None:
        """They are all back."""
        self.dispatch(now)

    def when_settled(self, receipt: Receipt, has_refused: bool) -> None:
        """The receipt is to wait until what was settled in this turn is where it goes. has_refused: messages were
        refused or put back."""

    # -- it moves ------------------------------------------------------------------------------------------------------

    def itself(self) -> Queue:
        """The queue that is meant, where this one stands for it while it moves."""
        return self

    def part_with_all(self) -> list[Consumer]:
        """Another queue takes its place, which has all that it holds: nobody stands in it any more, and what comes back
        is of nobody. Returns the consumers of this node that go along."""
        return []

    # -- the whole queue -----------------------------------------------------------------------------------------------

    def clear(self, then: Tallied) -> None:
        """queue.purge: drop all ready messages."""
        raise NotImplementedError

    def delete(self) -> int:
        """The queue is no more: its consumers are cancelled. Returns how many messages were ready."""
        raise NotImplementedError
