"""What the node's processes use of its machine, read where the management process runs: the same machine, usually.
Where it is another, or the system does not tell, the numbers are 0."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

_KIB = 1024


@dataclass(frozen=True, slots=True)
class Usage:
    """Of one process, or of all of a node together, and of the disk that the data are on."""

    descriptors: int = 0
    descriptors_limit: int = 0
    sockets: int = 0
    resident_bytes: int = 0
    memory_bytes: int = 0
    disk_free_bytes: int = 0
    threads: int = 0
    threads_limit: int = 0
    context_switches: int = 0
    cpu_seconds: float = 0.0


def usage_of(pid: int, data_dir: str | None) -> Usage:
    """`pid` 0 is no process."""
    found: dict[str, int | float] = {"memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")}
    if data_dir:
        with suppress(OSError):
            disk = os.statvfs(data_dir)
            found["disk_free_bytes"] = disk.f_bavail * disk.f_frsize
    if pid:
        process = Path("/proc") / str(pid)
        with suppress(OSError):
            found |= _descriptors(process)
        with suppress(OSError, ValueError):
            found |= _status(process)
        with suppress(OSError, ValueError, IndexError):
            found["cpu_seconds"] = _cpu_seconds(process)
        with suppress(OSError, ValueError):
            found["descriptors_limit"] = _limit(process, "Max open files")
            found["threads_limit"] = _limit(process, "Max processes")
    return Usage(**found)  # type: ignore[arg-type]


#: What all processes of a node share: their machine, its disk, and what one user may start.
_SHARED = frozenset({"memory_bytes", "disk_free_bytes", "threads_limit"})


def sum_of(usages: Iterable[Usage]) -> Usage:
    """Of the processes of a node together. Memory that they share counts for each."""
    found: dict[str, int | float] = {}
    for usage in usages:
        for name, value in asdict(usage).items():
            known = found.get(name, 0)
            found[name] = max(known, value) if name in _SHARED else known + value
    return Usage(**found)  # type: ignore[arg-type]


def _descriptors(process: Path) -> dict[str, int | float]:
    used = sockets = 0
    for name in os.listdir(process / "fd"):
        used += 1
        with suppress(OSError):
            sockets += os.readlink(process / "fd" / name).startswith("socket:")
    return {"descriptors": used, "sockets": sockets}


def _status(process: Path) -> dict[str, int | float]:
    fields = dict(
        line.split(":", 1) for line in (process / "status").read_text(encoding="ascii", errors="replace").splitlines()
    )
    switches = ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")
    return {
        "resident_bytes": int(fields.get("VmRSS", "0 kB").split()[0]) * _KIB,
        "threads": int(fields.get("Threads", "0")),
        "context_switches": sum(int(fields.get(name, "0")) for name in switches),
    }


def _cpu_seconds(process: Path) -> float:
    """The name of the program, in brackets, may hold spaces."""
    fields = (process / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    user, system = int(fields[11]), int(fields[12])
    return (user + system) / os.sysconf("SC_CLK_TCK")


def _limit(process: Path, name: str) -> int:
    for line in (process / "limits").read_text(encoding="ascii").splitlines():
        if line.startswith(name):
            soft = line[len(name) :].split()[0]
            return int(soft) if soft != "unlimited" else resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return 0
