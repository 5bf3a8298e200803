"""Moments: where in a query's life somebody is killed. Whoever armed one says who; the code that gets there does it.

A moment is a file in the folder that AMQP_CHAOS_DIR names: NAME.armed holds who is to die, and is renamed to NAME.fired
by the one process that kills. Used in the processes of Spark, by `hooked_source`.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

VARIABLE = "AMQP_CHAOS_DIR"
DRIVER, EXECUTOR, WORKER, BROKER = "driver", "executor", "worker", "broker"


def folder() -> Path:
    return Path(os.environ[VARIABLE])


def reach(name: str) -> None:
    """The process has come to this moment: if it is armed, its victim dies here and now."""
    armed = folder() / f"{name}.armed"
    try:
        victim = armed.read_text()
        armed.rename(folder() / f"{name}.fired")
    except FileNotFoundError:
        return
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


def pids(name: str) -> list[int]:
    return [int(word) for word in (folder() / f"{name}.pid").read_text().split()]


def kill_all(victims: list[int]) -> None:
    for pid in victims:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue  # dead already


def java_above(pid: int) -> int:
    """The Java that a Python process of Spark serves."""
    while Path(f"/proc/{pid}/comm").read_text().strip() != "java":
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        if pid <= 1:
            raise RuntimeError("no Java above this process")
    return pid
