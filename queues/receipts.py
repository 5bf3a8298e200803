"""Receipts: what waits until commands that went elsewhere are known to be done there.

Whoever submits a command to a stream gives a receipt with it. `expect` is called for each command that it stands for,
`complete` once for each when its fate is known: done, or refused. One receipt may stand for several commands.

Nothing in here knows who keeps the log, or who waits: the receipts of publishes are in channel/confirms.py.
"""

from __future__ import annotations

from collections.abc import Callable

from queues.effects import Refusal


class Receipt:
    """Somebody waits for commands."""

    def expect(self) -> None:
        """One more command is on its way."""
        raise NotImplementedError

    def complete(self, refusal: Refusal | None) -> None:
        """One of the commands is done, or was refused."""
        raise NotImplementedError

    def at_hand(self) -> int:
        """Of one that is given with many messages (WriteGroup.joins): the number of the one that it is given with now,
        which rises. 0 for one that does not tell them apart."""
        return 0

    def complete_run(self, refusal: Refusal | None, first: int, last: int) -> None:
        """The messages with these numbers, which were one of the commands, are done, or were refused."""
        self.complete(refusal)


class JointReceipt(Receipt):
    """Of many commands together: `then` is called once, with what was refused, when all of them are known. It waits for
    `seal`, so that a command which is done at once does not end it early."""

    def __init__(self) -> None:
        self.waiting = 0
        self.refusals: list[Refusal] = []
        self._then: Callable[[list[Refusal]], None] | None = None

    def expect(self) -> None:
        """One more command is on its way."""
        self.waiting += 1

    def complete(self, refusal: Refusal | None) -> None:
        """One of the commands is done, or was refused."""
        self.waiting -= 1
        if refusal is not None:
            self.refusals.append(refusal)
        if self.waiting == 0 and self._then is not None:
            self._then(self.refusals)

    def refuse(self, refusal: Refusal) -> None:
        """Something was refused by who tells no receipt."""
        self.refusals.append(refusal)

    def seal(self, then: Callable[[list[Refusal]], None]) -> None:
        """No more commands follow; `then` is called now if all are done."""
        self._then = then
        if self.waiting == 0:
            then(self.refusals)


class LetterReceipt(JointReceipt):
    """Of a dead letter that may be sent twice, by one leader and by the next. By the name of its sender and its number,
    which rises, quorum queues recognise it when it comes again, as they do for producers."""

    def __init__(self, sender: bytes, number: int) -> None:
        super().__init__()
        self.sender = sender
        self.number = number


class TriedReceipt(JointReceipt):
    """Of one try of a dead letter that is tried again until all have it that it goes to. has: the names of those that
    have it by now, which later tries leave out."""

    def __init__(self, has: set[str]) -> None:
        super().__init__()
        self.has = has

    def part(self, *names: str) -> Receipt:
        """What becomes of the letter in some places, for whom it is the whole receipt: they have it, all or none."""
        return _Part(self, names)


class _Part(Receipt):
    """Places have a letter when the first of their commands is done, and none was refused by them."""

    def __init__(self, whole: TriedReceipt, names: tuple[str, ...]) -> None:
        self._whole = whole
        self._names = names
        self._is_refused = False

    def expect(self) -> None:
        """One more command is on its way."""
        self._whole.expect()

    def complete(self, refusal: Refusal | None) -> None:
        """One of the commands is done, or was refused."""
        if refusal in (Refusal.FULL, Refusal.UNKNOWN):
            self._is_refused = True
            self._whole.has.difference_update(self._names)
        elif not self._is_refused:
            self._whole.has.update(self._names)
        self._whole.complete(refusal)
