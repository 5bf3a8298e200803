"""Descriptors: how many files and sockets the process may have open, and how many of them clients may take.

Each client takes a descriptor, and so does each file. What the files need is kept back, so that a crowd of clients is
no failure of the disk: when clients have taken their share, nobody is accepted until one has gone.
"""

from __future__ import annotations

import errno
import logging
import resource
from collections.abc import Callable

from storage.disk import MAX_DESCRIPTORS

log = logging.getLogger("amqp_broker.server")

#: What an error says when the process or the machine has run out of something that may be there again soon.
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
#: Kept back besides those of the disk: listeners, links to other nodes, what libraries open now and then.
_OTHERS = 128
#: So many more than may be open are accepted: they hear why they are refused.
_TO_REFUSE = 32
#: With so few left, who has not logged in makes room for those who come.
SPARE = 8


def raise_limit() -> None:
    """Set the soft limit of open files to the hard one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError) as error:
            log.warning("the limit of open files stays at %d: %s", soft, error)


def limit() -> int:
    """How many files the process may have open now."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 30 if soft == resource.RLIM_INFINITY else soft


class ClientRoom:
    """How many transports of clients there may be. most: so many; taken: so many there are; connections: so many of
    them may be open. on_change hears whether there is no room."""

    def __init__(self, limit: int, max_connections: int, on_change: Callable[[bool], None]) -> None:
        self.most = limit - min(MAX_DESCRIPTORS + _OTHERS, limit // 2)
        self.connections = max_connections
        self.is_full = False
        self._limit = limit
        self.taken = 0
        self._waiting: list[Callable[[], None]] = []
        self._on_change = on_change
        if max_connections > self.most - _TO_REFUSE:
            self.connections = max(1, self.most - _TO_REFUSE)
            log.warning(
                "at most %d connections, not %d (max_connections): the process may have %d files open, of which %d are "
                "kept back; raise `ulimit -Hn`",
                self.connections,
                max_connections,
                limit,
                limit - self.most,
            )

    def take(self) -> bool:
        """One more has been accepted. Returns whether there is room for another."""
        self.taken += 1
        return self.taken < self.most

    def give(self) -> None:
        """One is gone."""
        self.taken -= 1
        if self.is_full and self.taken < self.most:
            self.is_full = False
            self._on_change(False)
            log.warning("clients are accepted again")
            waiting, self._waiting = self._waiting, []
            for listen in waiting:
                listen()

    def wait(self, listen: Callable[[], None]) -> None:
        """There is no room: `listen` is called when there is some again."""
        if not self.is_full:
            self.is_full = True
            self._on_change(True)
            log.error(
                "no client is accepted until one goes: %d of the %d files that the process may have open are taken by "
                "clients; raise `ulimit -Hn`",
                self.taken,
                self._limit,
            )
        self._waiting.append(listen)
