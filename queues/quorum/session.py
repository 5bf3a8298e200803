"""OwnStream: a node's ordered stream of commands to one queue group, on the node's side.

    submit -> unapplied -> take_batches -> the leader proposes -> ... -> Confirmed -> confirmed -> gone
                  ^------- resend: a new leader, or the link to it was lost
                  ^------- reopen: the session was closed; the same commands in a new one

It keeps every command until the node's own machine has applied it, so a command is applied exactly once whichever
leaders come and go: the machine skips what it has, and what comes behind a gap.

Invariants:
1. Commands have consecutive numbers from 1 within a session, in the order of `submit`.
2. A consumer number is given once, over all sessions: what a late acknowledgement names is never somebody else's.
3. In a new session only what was not applied in the old one is sent again; not what speaks of the old consumers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from typing import NamedTuple

from queues.quorum.commands import (
    Attach,
    Command,
    Detach,
    Get,
    Prefetch,
    Settle,
    encode_command,
    join_batch,
)
from queues.quorum.effects import AttachRefused, Confirmed, ConsumerCancelled, Effect, Refusal

#: What a batch of a turn holds at most, octets (one larger command goes alone).
BATCH_BYTES = 256 * 1024
#: Consumer numbers begin at session << this: in a new process they are above all earlier ones, as sessions are times.
_NUMBER_BITS = 20


class _Pending(NamedTuple):
    """A command that is not known to be applied."""

    octets: bytes
    token: Hashable
    command: Command | None  # kept where a new session changes it


class Outcome(NamedTuple):
    """What became of a command: token is what was given to `submit`; refusal None is success."""

    token: Hashable
    refusal: Refusal | None


class Reopened(NamedTuple):
    """consumers: the new numbers of consumers and getters by the old ones; what the old ones held has returned to the
    queues. dropped: the tokens of commands that had no meaning any more."""

    consumers: dict[int, int]
    dropped: list[Hashable]


class OwnStream:
    """The stream of node `origin`. session: above all that this node has ever used, e.g. the time in milliseconds."""

    def __init__(self, origin: str, session: int) -> None:
        if not 0 < session < 1 << (64 - _NUMBER_BITS):
            raise ValueError(f"session {session}: use the time in milliseconds")
        self.origin = origin
        self.session = session
        self.unapplied_bytes = 0
        self._next_consumer = session << _NUMBER_BITS
        self._unapplied: deque[_Pending] = deque()
        self._applied = 0
        self._sent = 0
        self._is_announced = False
        self._attached: dict[int, Attach] = {}

    @property
    def unapplied(self) -> int:
        """How many commands are not known to be applied."""
        return len(self._unapplied)

    def new_consumer(self) -> int:
        """A number for an Attach or a Get."""
        self._next_consumer += 1
        return self._next_consumer

    def submit(self, command: Command, token: Hashable = None) -> int:
        """Put a command behind the others. Returns its number in the session."""
        kept = command if isinstance(command, Attach | Detach | Get | Prefetch | Settle) else None
        octets = encode_command(command)
        self._unapplied.append(_Pending(octets, token, kept))
        self.unapplied_bytes += len(octets)
        return self._applied + len(self._unapplied)

    def take_batches(self) -> list[bytes]:
        """What was not sent yet, as batches for the leader, who puts in the time (`with_time`). The first of a session
        goes even when it is empty: it opens it, and closes the one before."""
        batches = []
        commands: list[bytes] = []
        size = 0
        first = self._applied + self._sent + 1
        for index in range(self._sent, len(self._unapplied)):
            octets = self._unapplied[index].octets
            if commands and size + len(octets) > BATCH_BYTES:
                batches.append(self._batch(first, commands))
                first += len(commands)
                commands, size = [], 0
            commands.append(octets)
            size += len(octets)
        if commands or not self._is_announced:
            batches.append(self._batch(first, commands))
        self._sent = len(self._unapplied)
        self._is_announced = True
        return batches

    def _batch(self, first: int, commands: list[bytes]) -> bytes:
        return join_batch(0, self.origin, self.session, first, self._applied, commands)

    def resend(self) -> None:
        """There is a new leader, or what was sent may be lost: everything goes again that is not known to be
        applied."""
        self._sent = 0
        self._is_announced = self._applied > 0

    def on_effects(self, effects: Iterable[Effect]) -> list[Outcome]:
        """Note what the own machine has applied. Returns what became of commands that have a token, in order."""
        outcomes: list[Outcome] = []
        for effect in effects:
            if isinstance(effect, Confirmed) and effect.session == self.session:
                self._on_confirmed(effect, outcomes)
            elif isinstance(effect, ConsumerCancelled | AttachRefused):
                self._attached.pop(effect.consumer, None)
        return outcomes

    def _on_confirmed(self, effect: Confirmed, outcomes: list[Outcome]) -> None:
        refusals = dict(effect.refused)
        for sequence in range(self._applied + 1, effect.last + 1):
            octets, token, command = self._unapplied.popleft()
            self.unapplied_bytes -= len(octets)
            if token is not None:
                outcomes.append(Outcome(token, refusals.get(sequence)))
            if isinstance(command, Attach):
                self._attached[command.consumer] = command
            elif isinstance(command, Detach):
                self._attached.pop(command.consumer, None)
            elif isinstance(command, Prefetch) and command.consumer in self._attached:
                attach = self._attached[command.consumer]
                self._attached[command.consumer] = attach._replace(prefetch=command.prefetch)
            self._sent = max(0, self._sent - 1)
        self._applied = max(self._applied, effect.last)

    def reopen(self, session: int) -> Reopened:
        """SessionClosed came: go on in a new session. session: the time; a higher one is taken if it is not above the
        old one. Consumers attach again, under new numbers, and what was not applied follows in its order."""
        self.session = session = max(session, self.session + 1)
        self._next_consumer = max(self._next_consumer, session << _NUMBER_BITS)
        waiting, self._unapplied = self._unapplied, deque()
        attached, self._attached = self._attached, {}
        self.unapplied_bytes = self._applied = self._sent = 0
        self._is_announced = False
        consumers: dict[int, int] = {}
        dropped: list[Hashable] = []
        for attach in attached.values():
            consumers[attach.consumer] = self.new_consumer()
            self.submit(attach._replace(consumer=consumers[attach.consumer]))
        for pending in waiting:
            command = pending.command
            if command is None:
                self._unapplied.append(pending)
                self.unapplied_bytes += len(pending.octets)
            elif isinstance(command, Attach | Get):
                consumers[command.consumer] = self.new_consumer()
                self.submit(command._replace(consumer=consumers[command.consumer]), pending.token)
            elif isinstance(command, Detach | Prefetch) and command.consumer in consumers:
                self.submit(command._replace(consumer=consumers[command.consumer]), pending.token)
            else:
                dropped.append(pending.token)
        return Reopened(consumers, [token for token in dropped if token is not None])
