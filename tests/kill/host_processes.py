"""The processes of one node, of which there are several with `serve --workers N`: its supervisor, which leads a session
of its own, and what that has started.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

#: Who was killed is gone after so long, seconds.
GONE_S = 30.0
_STATE, _PARENT, _SESSION = 0, 1, 3


def _states() -> Iterator[tuple[int, list[str]]]:
    """All processes of the machine: their numbers, and the fields of their states behind the name."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it may end meanwhile
            yield int(stat.parent.name), stat.read_text().rpartition(")")[2].split()


def processes_in(session: int) -> list[int]:
    """Those that run, whoever of them has ended."""
    return [number for number, state in _states() if int(state[_SESSION]) == session and state[_STATE] not in "ZX"]


def workers_of(supervisor: int) -> list[int]:
    """Those that run; none of a node of one process."""
    return [number for number, state in _states() if int(state[_PARENT]) == supervisor and state[_STATE] not in "ZX"]


def process_of_worker(data: Path, worker: int) -> int:
    """Whose folder it is, whether it runs or not. Raises OSError, ValueError where nobody has it."""
    folder = data / "workers" / str(worker) if worker else data
    return int((folder / "LOCK").read_text())


def send(processes: list[int], number: signal.Signals) -> None:
    """A signal to those that are there."""
    for each in processes:
        with suppress(ProcessLookupError):
            os.kill(each, number)


def kill_session(session: int) -> None:
    """SIGKILL for all of a node at once. Returns when none runs. Its supervisor stands still meanwhile, which starts
    nobody again, and is the last, as the others would leave in peace without it."""
    send([session], signal.SIGSTOP)
    running = [*(each for each in processes_in(session) if each != session), session]
    while running:
        send(running, signal.SIGKILL)
        wait_until_gone(running)
        running = processes_in(session)  # one that was just being started


def wait_until_gone(processes: list[int], seconds: float = GONE_S) -> bool:
    """Whether all of these end within this time each."""
    for each in processes:
        with suppress(ProcessLookupError):
            watched = os.pidfd_open(each)
            try:
                if not select.select([watched], [], [], seconds)[0]:
                    return False
            finally:
                os.close(watched)
    return True
