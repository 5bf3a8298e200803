"""Processors: how many a process may use: those that it may run on, and no more than the quotas of its control groups.

    /proc/self/cgroup           which groups it is in: `0::/a/b` (version 2), `4:cpu,cpuacct:/a/b` (version 1)
    /sys/fs/cgroup/a/b          cpu.max; of version 1 cpu.cfs_quota_us and cpu.cfs_period_us, in the folder of `cpu`

The quota of each parent counts, too. In a container the folders may begin at its own group while the path is that of
the host: what is not there says nothing, and what is at the top is the container's.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_CONTROLLER: Final = "cpu"
#: Where the tree of version 2 is; `unified` where a machine has both versions.
_TREES: Final = ("", "unified")


def usable_processors(root: Path = Path("/")) -> int:
    """How many there are for this process, 1 at least. root: where /proc and /sys are."""
    usable = len(os.sched_getaffinity(0))
    for quota in _quotas(root):
        usable = min(usable, int(quota))
    return max(1, usable)


def _quotas(root: Path) -> Iterator[float]:
    """Those of its groups and of all their parents, in processors."""
    base = root / "sys/fs/cgroup"
    for controllers, path in _groups(root):
        trees = [base / tree for tree in _TREES]
        if controllers:
            trees = [base / tree for tree in (",".join(controllers), _CONTROLLER)]
        for tree in trees:
            for folder in (path, *path.parents):
                quota = _quota_of(tree / folder)
                if quota is not None:
                    yield quota


def _groups(root: Path) -> Iterator[tuple[list[str], PurePosixPath]]:
    """The groups that have to do with processors: the controllers, none in version 2, and the path below the tree."""
    lines: list[str] = []
    with suppress(OSError, UnicodeDecodeError):
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    for line in [*lines, "0::/"]:  # whatever the file says, the top counts
        number, _, rest = line.partition(":")
        names, _, place = rest.partition(":")
        path = PurePosixPath(place.lstrip("/"))
        if ".." in path.parts:  # it is outside of what can be seen here
            path = PurePosixPath()
        controllers = names.split(",") if names else []
        if _CONTROLLER in controllers or (number == "0" and not controllers):
            yield controllers, path


def _quota_of(folder: Path) -> float | None:
    """That of one group, in processors; None: it has none."""
    with suppress(OSError, ValueError, ZeroDivisionError):
        quota, period = (folder / "cpu.max").read_text().split()
        return int(quota) / int(period)  # of one without a quota it is "max"
    with suppress(OSError, ValueError, ZeroDivisionError):
        quota_us, period_us = (int((folder / f"cpu.cfs_{each}_us").read_text()) for each in ("quota", "period"))
        return quota_us / period_us if quota_us > 0 else None
    return None
