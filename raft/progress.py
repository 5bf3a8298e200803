"""Progress: what a leader knows of one other member.

    PROBE      it is not known where the logs match: one append at a time, backwards on a refusal
    REPLICATE  they match up to match_index: entries are sent ahead, up to a limit of octets
    INSTALL    what it lacks is not in the log any more: it gets the machine's state

next_index goes up on success only, and down only when a refusal, a lost message or a new connection has brought it to
PROBE; match_index never goes down. So a stale refusal costs one append, and cannot start a livelock.
"""

from __future__ import annotations

import enum
from collections import deque

from raft.install import InstallSender


class ProgressState(enum.Enum):
    """See the module's docstring."""

    PROBE = "probe"
    REPLICATE = "replicate"
    INSTALL = "install"


PROBE = ProgressState.PROBE
REPLICATE = ProgressState.REPLICATE
INSTALL = ProgressState.INSTALL
#: What the newest reply counts in the average of how long they take.
LAG_WEIGHT = 0.125


class Progress:
    """One member as its leader sees it. Indexes as in Figure 2 of the paper."""

    def __init__(self, next_index: int, clock: int, is_connected: bool) -> None:
        self.state = PROBE
        self.next_index = next_index
        self.match_index = 0
        self.is_probing = False  # an append is out, and its answer is waited for
        self._beats_since_probe = 0
        self.in_flight_bytes = 0
        self.told_commit_index = 0
        self.replied_at = clock
        self.is_connected = is_connected
        #: For a majority, with the leader's own disk: it gets entries at once.
        self.is_needed = False
        self.install: InstallSender | None = None
        #: How long it takes to have entries on its disk and say so: a moving average, milliseconds.
        self.lag_ms = 0.0
        self._in_flight: deque[tuple[int, int, int]] = deque()  # (last index, octets, when it was sent)

    @property
    def sent_index(self) -> int:
        """Up to here the member has everything once all that was sent has arrived."""
        return self.next_index - 1 if self.state is REPLICATE else self.match_index

    def sent(self, last_index: int, size: int, clock: int) -> None:
        """Entries up to last_index, of `size` octets, are on their way."""
        if self.state is PROBE:
            self.is_probing = True
            self._beats_since_probe = 0
        else:
            self.next_index = last_index + 1
            self._in_flight.append((last_index, size, clock))
            self.in_flight_bytes += size

    def matched(self, index: int, clock: int) -> bool:
        """The logs match up to `index`, on its disk. Returns whether that is news."""
        is_news = index > self.match_index
        if is_news:
            self.match_index = index
            in_flight = self._in_flight
            while in_flight and in_flight[0][0] <= index:
                _, size, sent_at = in_flight.popleft()
                self.in_flight_bytes -= size
                self.lag_ms += (clock - sent_at - self.lag_ms) * LAG_WEIGHT
        if self.state is PROBE and index >= self.next_index - 1:
            self.state = REPLICATE
            self.is_probing = False
        if self.state is REPLICATE and index >= self.next_index:
            self.next_index = index + 1
        return is_news

    def record_silence(self, clock: int) -> None:
        """What was sent first is waited for still: its lag is that at least."""
        if self._in_flight:
            self.lag_ms = max(self.lag_ms, float(clock - self._in_flight[0][2]))

    def probe(self, next_index: int) -> None:
        """Begin, or go on, to look for where the logs match."""
        self.drop_install()
        self.state = PROBE
        self.is_probing = False
        self.next_index = max(next_index, self.match_index + 1)
        self._in_flight.clear()
        self.in_flight_bytes = 0

    def probe_may_be_lost(self) -> None:
        """A beat was answered while a probe is out; the second such beat was sent after the probe."""
        self._beats_since_probe += 1
        if self._beats_since_probe > 1:
            self.is_probing = False

    def begin_install(self, install: InstallSender) -> None:
        """Send the state instead of entries."""
        self.probe(self.next_index)
        self.state = INSTALL
        self.install = install

    def drop_install(self) -> None:
        """The install is over, or abandoned."""
        if self.install is not None:
            install, self.install = self.install, None
            install.close()
