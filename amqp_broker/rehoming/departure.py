"""Departure: a queue of this node on its way to another home, step by step.

    reserve an id -> ASK: the new home takes it -> HOLD: nobody uses it -> PAGE ..., END -> READY: the new home has all
    of it on its disk -> queue.rehome, committed: it lives there

Invariants:
1. Until queue.rehome is committed the queue is whole here. What ends the move before that was proposed gives it back.
2. Once it was proposed, nothing is given back before it is known what came of it.
3. From the first page on nothing is published to the queue, and nothing leaves it unless a client acknowledges it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from amqp_broker.metadata import commands
from amqp_broker.rehoming import frames
from amqp_broker.rehoming.frames import Frame, fields, frame, numbers
from amqp_broker.rehoming.snapshot import QueueSnapshot, held_entries
from amqp_broker.turn.completion import Completion
from amqp_broker.turn.task import Steps, Task
from storage.errors import StorageError

if TYPE_CHECKING:
    from amqp_broker.links.tenants import Tenants
    from amqp_broker.queue_types.contract.held_queue import HeldQueue
    from amqp_broker.rehoming.rehoming import Rehoming
    from queues.classic import ClassicQueue
    from queues.timers import Timer

log = logging.getLogger("amqp_broker.cluster")

#: The new home, and the others, have so long to answer, milliseconds.
ANSWER_MS: Final = 5000
#: So long it is waited for what consumers hold; what they hold then comes again, milliseconds.
HELD_MS: Final = 1000
#: So often it is looked whether something is over, milliseconds.
_LOOK_MS: Final = 20
#: Octets of pages that are on their way and not taken.
WINDOW_BYTES: Final = 2 * 1024 * 1024
#: So often an id is tried for, where others declare queues at the same time.
_TRIES: Final = 16


class NotMoved(ValueError):
    """Why a queue stays where it is."""


class Departure:
    """One queue. messages, octets: how much was brought. task: its steps."""

    def __init__(self, rehoming: Rehoming, move: int, queue: ClassicQueue, home: str, asked: tuple[str, int]) -> None:
        self._rehoming = rehoming
        self._broker = broker = rehoming.broker
        self._clock, self._timers, self._home = broker.clock, broker.timers, rehoming.home
        self._type = broker.types[queue.declaration.type]
        self._tenants: Tenants = rehoming.tenants
        self.move = move
        self.queue = queue
        self.vhost, self.name = queue.declaration.vhost, queue.name
        self.old_id = queue.queue_id
        self.home = home
        self.asked = asked
        self.messages = self.octets = 0
        self.session = 0
        self.is_proposed = False
        self.is_over = False
        self._held: HeldQueue | None = None
        self._is_still = False
        self._awaited: set[str] = set()
        self._taken = 0
        self._is_ready = False
        self._failure = ""
        self._changed: Completion[None] = Completion()
        self.task = Task(broker.background, self._steps())

    # -- what happens meanwhile ----------------------------------------------------------------------------------------

    def _notify(self) -> None:
        changed, self._changed = self._changed, Completion()
        changed.complete(None)

    def fail(self, why: str) -> None:
        """It comes to nothing, unless it was proposed."""
        if not self.is_proposed and not self._failure:
            self._failure = why
            self._notify()

    def on_frame(self, said: Frame) -> None:
        """What another node says of it. Raises PeerProtocolError."""
        what, is_of_home = said.what, said.node == self.home
        if what == frames.HELD:
            self._awaited.discard(said.node)
        elif what == frames.SESSION and is_of_home:
            self.session = said.number()
        elif what == frames.NO and is_of_home:
            self.fail(f"{self.home} does not take it: {said.text('error')}")
        elif what == frames.TAKEN and is_of_home:
            self._taken = said.number()
        elif what == frames.READY and is_of_home:
            self._is_ready = True
        self._notify()

    def peer_connected(self, node: str) -> None:
        """A node that was not there when it began: what it says of the queue would not wait."""
        if self._held is not None:
            self.fail(f"node {node} was linked meanwhile; ask again")

    def peer_disconnected(self, node: str) -> None:
        """What it had to say is said."""
        self._awaited.discard(node)
        if node == self.home:
            self.fail(f"the link to {node} was lost")
        self._notify()

    def _until(self, milliseconds: int) -> Steps:
        """Wait until something has changed, so long at most."""
        changed = self._changed
        timer: Timer = self._timers.at(self._clock.now + milliseconds, lambda now: changed.complete(None))
        yield changed
        timer.cancel()
        if self._changed is changed:
            self._changed = Completion()
        if self._failure:
            raise NotMoved(self._failure)

    # -- the steps -----------------------------------------------------------------------------------------------------

    def _steps(self) -> Steps:
        """Its result: why it did not move, "" if it did."""
        try:
            yield from self._move()
        except (NotMoved, StorageError, ValueError) as error:
            self._give_back()
            log.warning("queue '%s' in vhost '%s' stays at home: %s", self.name, self.vhost, error)
            return str(error)
        finally:
            self.is_over = True
            self._rehoming.ended(self)
        log.info("queue '%s' in vhost '%s' lives at %s now", self.name, self.vhost, self.home)
        return ""

    def _move(self) -> Steps:
        broker = self._broker
        new_id = yield from self._reserve()
        asked = fields(vhost=self.vhost, name=self.name, queue_id=self.old_id, new_queue_id=new_id)
        self._say(frames.ASK, asked)
        until = self._clock.now + ANSWER_MS
        while not self.session:
            yield from self._until(self._left(until, f"{self.home} does not answer"))
        yield from self._hold()
        yield from self._still()
        first_free = self.queue.next_sequence
        yield from self._bring()
        if self.queue.next_sequence != first_free:
            raise NotMoved("something was published to it meanwhile")
        command = commands.rehome_queue(self.vhost, self.name, self.old_id, new_id, self.home, self.session)
        self.is_proposed = True
        yield broker.propose(command)
        record = broker.metadata.queue(self.vhost, self.name)
        if record is None or record.queue_id != new_id:
            raise NotMoved(f"{self.home} has started again, or the queue was deleted")

    def _left(self, until: int, why: str) -> int:
        left = until - self._clock.now
        if left <= 0:
            raise NotMoved(f"{why} within {ANSWER_MS} ms")
        return left

    def _say(self, what: int, rest: bytes) -> None:
        if not self._rehoming.send(self.home, frame(what, self.move, rest)):
            raise NotMoved(f"there is no link to {self.home}, or it is of a version that does not take queues")

    def _reserve(self) -> Steps:
        """An id that nothing has ever had."""
        broker = self._broker
        for _ in range(_TRIES):
            new_id = broker.metadata.next_queue_id
            proposal = broker.propose(commands.reserve_queue_ids(new_id + 1))
            yield proposal
            if proposal.result:
                return new_id
        raise NotMoved("too many queues are being declared; ask again")

    def _hold(self) -> Steps:
        """Nobody uses it from here on, and all that was said of it before is done."""
        broker = self._broker
        vhost = broker.vhosts.get(self.vhost)
        if vhost is None or vhost.queues.get(self.name) is not self.queue:
            raise NotMoved("it was deleted")
        broker.link_to(self.home)
        self._home.hold(self.queue)
        self._held = broker.held.hold(vhost, self.queue, broker.own_node)
        self._type.rest(self.queue)
        rest = fields(vhost=self.vhost, name=self.name, queue_id=self.old_id)
        for node in list(self._tenants.linked):
            if not self._rehoming.send(node, frame(frames.HOLD, self.move, rest)):
                raise NotMoved(f"node {node} is of a version that does not know how queues move: upgrade it first")
            self._awaited.add(node)
        until = self._clock.now + ANSWER_MS
        while self._awaited:
            nodes = ", ".join(sorted(self._awaited))
            yield from self._until(self._left(until, f"{nodes} did not stop to use it"))

    def _still(self) -> Steps:
        """Nothing leaves it any more, and nothing of it is on its way back or to a dead letter's place."""
        queue, clock = self.queue, self._clock
        self._home.withhold(queue)
        queue.begin_return([[]])
        self._is_still = True
        until, patient_until = clock.now + ANSWER_MS, clock.now + HELD_MS
        while True:
            letters = queue.letters.count if queue.letters is not None else 0
            if not letters and not queue.unacked:
                break
            if not letters and clock.now >= patient_until:
                break
            yield from self._until(min(_LOOK_MS, self._left(until, f"{letters} of its dead letters did not arrive")))
        if queue.leased():
            raise NotMoved("lease groups hold messages of it: end what leases them first")

    def _bring(self) -> Steps:
        """All that it holds."""
        queue = self.queue
        held = held_entries(queue, self._home)
        if len(held) != queue.unacked:
            raise NotMoved(
                f"{queue.unacked - len(held)} messages without a durable copy are held by channels that do not consume "
                f"from it any more: have them acknowledged, or these channels closed"
            )
        expected = queue.ready.count + len(held)
        snapshot = QueueSnapshot(queue, held)
        for page in snapshot.pages():
            self._say(frames.PLACED if page.is_placed else frames.PAGE, page.octets)
            self.octets += len(page.octets)
            self.messages = snapshot.count
            until = self._clock.now + ANSWER_MS
            while self.octets - self._taken > WINDOW_BYTES:
                before = self._taken
                yield from self._until(self._left(until, f"{self.home} has taken nothing more"))
                if self._taken != before:
                    until = self._clock.now + ANSWER_MS
            yield None
            if self._failure:
                raise NotMoved(self._failure)
        if snapshot.count != expected:
            raise NotMoved(f"{snapshot.count} messages were found of {expected}: report it")
        self._say(frames.END, numbers(snapshot.count, queue.next_sequence))
        until = self._clock.now + 2 * ANSWER_MS
        while not self._is_ready:
            before = self._taken
            yield from self._until(self._left(until, f"{self.home} has not written all of it"))
            if self._taken != before:
                until = self._clock.now + 2 * ANSWER_MS

    # -- it stays ------------------------------------------------------------------------------------------------------

    def _give_back(self) -> None:
        """The queue is used here as before."""
        broker, queue = self._broker, self.queue
        self._home.give_back(queue)
        vhost = broker.vhosts.get(self.vhost)
        if self._is_still and not queue.is_deleted:
            queue.end_return(self._clock.now)
        if self._held is not None and vhost is not None:
            broker.held.put_back(vhost, self._held)
            if not queue.is_deleted:
                queue.mark_used(self._clock.now)
                self._type.policies_changed(queue, self._clock.now)
            for node in list(self._tenants.linked):
                self._rehoming.send(node, frame(frames.FREE, self.move, fields()))
        self._rehoming.refuse(self.home, self.move)
