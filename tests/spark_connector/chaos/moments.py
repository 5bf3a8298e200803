"""Moments: where in a query's life somebody is killed. Whoever armed one says who; the code that gets there does it.

A moment is a file in the folder that AMQP_CHAOS_DIR names: NAME.armed holds who is to die, and is renamed to NAME.fired
by the one process that kills. Used in the processes of Spark, by `hooked_source`.

Some victims are not killed but stopped (SIGSTOP): `stopped.pid` holds their processes until the campaign lets them go
on.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

VARIABLE = "AMQP_CHAOS_DIR"
DRIVER, EXECUTOR, WORKER, BROKER = "driver", "executor", "worker", "broker"
STOPPED_WORKER, STOPPED_EXECUTOR = "worker, stopped", "executor, stopped"
_STOPPED = "stopped.pid"
#: The moments of those who are stopped: half a range is read, and they differ in when it goes on.
STOPS = ("half", "twin", "twin-staged", "late")


def folder() -> Path:
    return Path(os.environ[VARIABLE])


def reach(name: str) -> None:
    """The process has come to this moment: if it is armed, its victim dies, or is stopped, here and now."""
    armed = folder() / f"{name}.armed"
    try:
        victim = armed.read_text()
        armed.rename(folder() / f"{name}.fired")
    except FileNotFoundError:
        return
    if victim in (STOPPED_WORKER, STOPPED_EXECUTOR):
        stop(victim)
    else:
        kill(victim)


def kill(victim: str) -> None:
    """SIGKILL. What belongs to the victim goes with it, so that nothing of it is done after its death."""
    if victim == BROKER:
        kill_all(pids("broker"))
    elif victim == DRIVER:
        kill_all([*pids("driver"), os.getpid()])
    elif victim == EXECUTOR:
        kill_all([java_above(os.getpid()), os.getpid()])
    elif victim == WORKER:
        kill_all([os.getpid()])
    else:
        raise ValueError(f"nobody is called {victim!r}")


def stop(victim: str) -> None:
    """SIGSTOP, to this process last. It returns when somebody has let it go on."""
    others = [java_above(os.getpid())] if victim == STOPPED_EXECUTOR else []
    new = folder() / "stopped.new"
    new.write_text(" ".join(str(pid) for pid in (*others, os.getpid())))
    new.rename(folder() / _STOPPED)
    for pid in (*others, os.getpid()):
        os.kill(pid, signal.SIGSTOP)


def stopped() -> tuple[list[int], float]:
    """The processes that are stopped, and for how many seconds they have been. None are: ([], 0)."""
    try:
        since = (folder() / _STOPPED).stat().st_mtime
        return pids("stopped"), time.time() - since
    except FileNotFoundError:
        return [], 0.0


def let_go_on() -> None:
    """SIGCONT to those who are stopped."""
    signal_all(stopped()[0], signal.SIGCONT)
    (folder() / _STOPPED).unlink(missing_ok=True)


def pids(name: str) -> list[int]:
    return [int(word) for word in (folder() / f"{name}.pid").read_text().split()]


def living(name: str) -> list[int]:
    """Those who are this now: nobody before the first of them has written it down, and while the next one starts."""
    known = pids(name) if (folder() / f"{name}.pid").exists() else []
    return [pid for pid in known if Path(f"/proc/{pid}").exists()]


def kill_all(victims: list[int]) -> None:
    signal_all(victims, signal.SIGKILL)


def signal_all(processes: list[int], which: signal.Signals) -> None:
    for pid in processes:
        try:
            os.kill(pid, which)
        except ProcessLookupError:
            continue  # dead already


def java_above(pid: int) -> int:
    """The Java that a Python process of Spark serves."""
    while Path(f"/proc/{pid}/comm").read_text().strip() != "java":
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        if pid <= 1:
            raise RuntimeError("no Java above this process")
    return pid
