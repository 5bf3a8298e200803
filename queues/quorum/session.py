"""OwnStream: a node's ordered stream of commands to one queue group, on the node's side.

    submit -> the open batch -> take -> the leader proposes -> ... -> Confirmed -> the batch is forgotten
                  sent batches ---^---- resend: a new leader, or the link to it was lost
                                  ^---- reopen: the session was closed; the same commands in a new one

It keeps every command until the node's own machine has applied it, so a command is applied exactly once whichever
leaders come and go: the machine skips what it has, and what comes behind a gap.

Commands are encoded once, into the batch in which they go; of each of them only its token is kept besides, and chunks
of streams as they are, until they are applied.

Invariants:
1. Commands have consecutive numbers from 1 within a session, in the order of `submit`.
2. A consumer number is given once, over all sessions: what a late acknowledgement names is never somebody else's.
3. In a new session only what was not applied in the old one is sent again; not what speaks of the old consumers.
4. `_tokens` has one item for each command that is not known to be applied; the batches hold these commands, and of the
   first batch maybe some that are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol, cast

import cython

from amqp_broker.octets.buffer import Buffer
from queues.effects import AttachRefused, Confirmed, ConsumerCancelled, Delivered, Effect, Refusal
from queues.quorum.commands import VERSION_WITH_STREAMS, Attach, Batch, Command, Detach, Get, Prefetch
from queues.stream.append_chunk import AppendChunk
from queues.stream.commands import OPEN_STREAM
from queues.wire.traffic import Enqueue, Settle

if not cython.compiled:
    from amqp_broker.octets.buffer import get_u32
    from queues.quorum.commands import put_batch_head, put_command

#: What a batch of a turn holds at most, octets (one larger command goes alone).
BATCH_BYTES = 256 * 1024
#: Commands that a new session changes.
_CHANGED = (Attach, Detach, Get, Prefetch)
#: Octets of a command before its fields: kind and length; the kinds of a Settle, which a new session drops.
_HEAD_BYTES = 5
_SETTLES = (4, 41)
#: Kinds from here on are those of commands about streams, for which a batch has another version.
_STREAMS = OPEN_STREAM
_WITH_STREAMS = VERSION_WITH_STREAMS
#: Consumer numbers begin at session << this: in a new process they are above all earlier ones, as sessions are times.
_NUMBER_BITS = 10
#: A session's number is the time in milliseconds << this, and some random bits: two that begin together differ.
SESSION_BITS = 8


def session_above(newest: int, time: int, random_bytes: Callable[[int], bytes]) -> int:
    """A number for a new session of a node. newest: of those of it that are known here. time: milliseconds << at least
    SESSION_BITS.

    It is the time. Where the clock was set back that is not above `newest`, and the next number may have been taken: by
    an earlier run that told others of it and lost its own log's end in a crash. Then chance decides how far above.
    """
    session = time | int.from_bytes(random_bytes(SESSION_BITS // 8), "big")
    return session if session > newest else newest + 1 + int.from_bytes(random_bytes(4), "big")


class OwnBatch(NamedTuple):
    """Commands up to number `last`, encoded; they begin at `start`. made: what decoding it would give, if that is
    known: of chunks of streams alone, which are applied as they were packed."""

    octets: bytes
    start: int
    last: int
    made: Batch | None = None


class Token(Protocol):
    """Who waits for a command: whoever has the stream tells it what became of that."""

    def complete(self, refusal: Refusal | None) -> None: ...


# It is gone when it was told.
@cython.no_gc
@cython.cclass
class Outcome:
    """What became of a command: token is what was given to `submit`; refusal None is success."""

    def __init__(self, token: Token, refusal: Refusal | None) -> None:
        self.token = token
        self.refusal = refusal

    def __iter__(self) -> Iterator[object]:
        return iter((self.token, self.refusal))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Outcome) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # nobody looks one up


class Reopened(NamedTuple):
    """consumers: the new numbers of consumers and getters by the old ones; what the old ones held has returned to the
    queues. dropped: the tokens of commands that had no meaning any more."""

    consumers: dict[int, int]
    dropped: list[Token]


class OwnStream:
    """The stream of node `origin`. session: above all that this node has ever used, as times are (SESSION_BITS).

    unapplied_bytes: octets of the commands that are not known to be applied; a batch counts until all of it is.
    """

    def __init__(self, origin: str, session: int) -> None:
        if not 0 < session < 1 << (64 - _NUMBER_BITS):
            raise ValueError(f"session {session}: use the time in milliseconds << {SESSION_BITS}")
        self.origin = origin
        self.session = session
        self.unapplied_bytes = 0
        self._next_consumer = session << _NUMBER_BITS
        self._buffer = Buffer()  # the batch that is being filled, if _filling is above 0
        self._filling = 0
        self._start = 0
        self._chunks: list[AppendChunk] = []  # in the open batch
        self._batches: deque[OwnBatch] = deque()
        self._tokens: deque[Token | None] = deque()
        self._changes: deque[tuple[int, Command]] = deque()  # what a new session changes, by number
        self._applied = 0
        self._sent = 0  # of the batches
        self._is_announced = False
        self._attached: dict[int, Attach] = {}

    @property
    def unapplied(self) -> int:
        """How many commands are not known to be applied."""
        return len(self._tokens)

    @property
    def last(self) -> int:
        """The number of the command that was submitted last in this session."""
        return self._applied + len(self._tokens)

    @property
    def applied(self) -> int:
        """Up to which number commands of this session are known to be applied."""
        return self._applied

    @property
    def has_open(self) -> bool:
        """Whether something was submitted since `take`."""
        return self._filling > 0

    def new_consumer(self) -> int:
        """A number for an Attach or a Get."""
        self._next_consumer += 1
        return self._next_consumer

    def submit(self, command: Command, token: Token | None = None) -> int:
        """Put a command behind the others. Returns its number in the session."""
        buffer = self._open_batch()
        before = buffer.length
        put_command(buffer, command)
        if type(command) is AppendChunk:
            number = self._submitted(before, token)
            self._chunks.append(command)
            return number
        if type(command) is not Enqueue and type(command) is not Settle and isinstance(command, _CHANGED):
            self._changes.append((self._applied + len(self._tokens) + 1, command))
        return self._submitted(before, token)

    def begin_batch(self) -> None:
        """What is submitted next is the first of a batch."""
        if self._filling:
            self._seal()

    def _open_batch(self) -> Buffer:
        """The batch that takes the next command."""
        buffer = self._buffer
        if not self._filling:
            buffer.clear()
            first = self._applied + len(self._tokens) + 1
            self._start = put_batch_head(buffer, 0, self.origin, self.session, first, 0) + 4
        return buffer

    def _submitted(self, before: int, token: Token | None) -> int:
        """A command was put into the open batch behind `before`. If there is too much in it now, it begins another."""
        buffer = self._buffer
        if self._filling and buffer.length - self._start > BATCH_BYTES:
            octets = buffer.get_bytes(before, buffer.length)
            buffer.cut(before)
            self._seal()
            buffer = self._open_batch()
            buffer.put_bytes(octets)
            before = self._start
        if buffer.data[before] >= _STREAMS:
            buffer.set_u16(0, _WITH_STREAMS << 8)  # behind the version there is the time, which is 0 so far
        self.unapplied_bytes += self._buffer.length - before
        self._filling += 1
        self._tokens.append(token)
        return self._applied + len(self._tokens)

    def _seal(self) -> None:
        """The open batch is whole."""
        buffer = self._buffer
        start = self._start
        buffer.set_u32(start - 4, self._filling)
        buffer.set_u32(start - 12, self._applied >> 32)
        buffer.set_u32(start - 8, self._applied & 0xFFFFFFFF)
        last = self._applied + len(self._tokens)
        made: Batch | None = None
        if self._chunks:
            if len(self._chunks) == self._filling:
                first = last - self._filling + 1
                made = Batch(0, self.origin, self.session, first, self._applied, cast("list[Command]", self._chunks))
            self._chunks = []
        self._filling = 0
        self._batches.append(OwnBatch(buffer.take(), start, last, made))

    def take_batches(self) -> list[bytes]:
        """The octets of what `take` gives."""
        return [batch.octets for batch in self.take()]

    def take(self) -> list[OwnBatch]:
        """What was not sent yet, as batches for the leader, who puts in the time (`with_time`). The first of a session
        goes even when it is empty: it opens it, and closes the one before."""
        if self._filling:
            self._seal()
        batches = [self._batches[place] for place in range(self._sent, len(self._batches))]
        if not batches and not self._is_announced:
            buffer = Buffer()
            put_batch_head(buffer, 0, self.origin, self.session, self._applied + 1, self._applied)
            batches.append(OwnBatch(buffer.take(), 0, self._applied))
        self._sent = len(self._batches)
        self._is_announced = True
        return batches

    def resend(self) -> None:
        """There is a new leader, or what was sent may be lost: everything goes again that is not known to be
        applied."""
        self._sent = 0
        self._is_announced = self._applied > 0

    def on_effects(self, effects: Iterable[Effect]) -> list[Outcome]:
        """Note what the own machine has applied. Returns what became of commands that have a token, in order."""
        outcomes: list[Outcome] = []
        ended: dict[int, None] = {}  # what ends a consumer may come before it is confirmed that there was one
        for effect in effects:
            if type(effect) is Delivered:
                continue
            if isinstance(effect, Confirmed):
                if effect.session == self.session:
                    self._on_confirmed(effect, outcomes, ended)
            elif isinstance(effect, ConsumerCancelled | AttachRefused):
                ended[effect.consumer] = None
                self._attached.pop(effect.consumer, None)
        return outcomes

    def _on_confirmed(self, effect: Confirmed, outcomes: list[Outcome], ended: dict[int, None]) -> None:
        refusals = dict(effect.refused)
        tokens = self._tokens
        sequence = self._applied
        last = effect.last
        while sequence < last:
            sequence += 1
            token = tokens.popleft()
            if token is not None:
                outcome = Outcome.__new__(Outcome)
                outcome.token = token
                outcome.refusal = refusals.get(sequence) if refusals else None
                outcomes.append(outcome)
        self._applied = sequence
        while self._changes and self._changes[0][0] <= sequence:
            self._on_change(self._changes.popleft()[1], ended)
        while self._batches and self._batches[0].last <= sequence:
            batch = self._batches.popleft()
            self.unapplied_bytes -= len(batch.octets) - batch.start
            self._sent = max(0, self._sent - 1)

    def _on_change(self, command: Command, ended: dict[int, None]) -> None:
        """A command about a consumer was applied."""
        if isinstance(command, Attach):
            if command.consumer not in ended:
                self._attached[command.consumer] = command
        elif isinstance(command, Detach):
            self._attached.pop(command.consumer, None)
        elif isinstance(command, Prefetch) and command.consumer in self._attached:
            attach = self._attached[command.consumer]
            self._attached[command.consumer] = attach._replace(prefetch=command.prefetch)

    def reopen(self, session: int) -> Reopened:
        """SessionClosed came: go on in a new session. session: the time; a higher one is taken if it is not above the
        old one. Consumers attach again, under new numbers, and what was not applied follows in its order."""
        if self._filling:
            self._seal()
        waiting = self._unapplied_commands()
        self.session = session = max(session, self.session + 1)
        self._next_consumer = max(self._next_consumer, session << _NUMBER_BITS)
        attached, self._attached = self._attached, {}
        self._batches.clear()
        self._tokens.clear()
        self._changes.clear()
        self.unapplied_bytes = self._applied = self._sent = 0
        self._is_announced = False
        consumers: dict[int, int] = {}
        dropped: list[Token | None] = []
        for attach in attached.values():
            consumers[attach.consumer] = self.new_consumer()
            self.submit(attach._replace(consumer=consumers[attach.consumer]))
        for octets, command, token in waiting:
            if octets[0] in _SETTLES:
                dropped.append(token)
            elif command is None:
                buffer = self._open_batch()
                before = buffer.length
                buffer.put_bytes(octets)
                self._submitted(before, token)
            elif isinstance(command, Attach | Get):
                consumers[command.consumer] = self.new_consumer()
                self.submit(command._replace(consumer=consumers[command.consumer]), token)
            elif isinstance(command, Prefetch) and command.consumer in consumers:
                self.submit(command._replace(consumer=consumers[command.consumer]), token)
            elif isinstance(command, Detach) and command.consumer in consumers:
                self.submit(Detach(consumers[command.consumer], True, 0), token)  # its client sees nothing of this one
            else:
                dropped.append(token)
        return Reopened(consumers, [token for token in dropped if token is not None])

    def _unapplied_commands(self) -> list[tuple[bytes, Command | None, Token | None]]:
        """The octets of each; itself, if it speaks of a consumer; and its token."""
        found: list[tuple[bytes, Command | None, Token | None]] = []
        changes = dict(self._changes)
        for octets, start, last, _ in self._batches:
            commands = []
            position = start
            while position < len(octets):
                end = position + _HEAD_BYTES + get_u32(octets, position + 1)
                commands.append(octets[position:end])
                position = end
            first = last - len(commands) + 1
            for number, command in enumerate(commands, first):
                if number > self._applied:
                    found.append((command, changes.get(number), self._tokens[len(found)]))
        return found


