"""How many processors a process may use, by the files of its control groups."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from amqp_broker.server.processors import usable_processors


@pytest.fixture(autouse=True)
def many_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(16)))


def lay_out(root: Path, groups: str, **files: str) -> Path:
    """A machine: what /proc/self/cgroup says, and files below /sys/fs/cgroup."""
    for name, text in {"proc/self/cgroup": groups, **{f"sys/fs/cgroup/{name}": files[name] for name in files}}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_without_control_groups_there_are_as_many_as_it_may_run_on(tmp_path: Path) -> None:
    assert usable_processors(tmp_path) == 16


@pytest.mark.parametrize(
    ("files", "usable"),
    [
        ({"cpu.max": "max 100000\n"}, 16),
        ({"cpu.max": "400000 100000\n"}, 4),
        ({"a/b/c/cpu.max": "300000 100000\n"}, 3),
        ({"a/b/c/cpu.max": "350000 100000\n"}, 3),
        ({"a/b/c/cpu.max": "20000 100000\n"}, 1),
        ({"a/b/c/cpu.max": "max 100000\n", "a/b/cpu.max": "250000 50000\n", "a/cpu.max": "900000 100000\n"}, 5),
        ({"a/b/c/cpu.max": "600000 100000\n", "a/cpu.max": "200000 100000\n"}, 2),
        ({"a/other/cpu.max": "100000 100000\n"}, 16),
        ({"unified/a/b/cpu.max": "700000 100000\n"}, 7),
        ({"a/b/c/cpu.max": "what\n"}, 16),
    ],
)
def test_version_2_its_own_group_and_all_of_its_parents_count(
    tmp_path: Path, files: dict[str, str], usable: int
) -> None:
    assert usable_processors(lay_out(tmp_path, "0::/a/b/c\n", **files)) == usable


@pytest.mark.parametrize("tree", ["cpu,cpuacct", "cpu"])
@pytest.mark.parametrize(
    ("quotas", "usable"),
    [({"a/b": (-1, 100000)}, 16), ({"a/b": (500000, 100000)}, 5), ({"a/b": (-1, 100000), "a": (300000, 50000)}, 6),
     ({"": (200000, 100000)}, 2)],
)  # fmt: skip
def test_version_1_its_own_group_and_all_of_its_parents_count(
    tmp_path: Path, tree: str, quotas: dict[str, tuple[int, int]], usable: int
) -> None:
    files = {}
    for folder, (quota, period) in quotas.items():
        files[f"{tree}/{folder}/cpu.cfs_quota_us"] = f"{quota}\n"
        files[f"{tree}/{folder}/cpu.cfs_period_us"] = f"{period}\n"
    groups = "11:memory:/m\n4:cpu,cpuacct:/a/b\n1:name=systemd:/x\n0::/x\n"
    assert usable_processors(lay_out(tmp_path, groups, **files)) == usable


def test_in_a_container_the_top_is_its_own_whatever_the_path_says(tmp_path: Path) -> None:
    files = {"cpu.max": "300000 100000\n"}
    assert usable_processors(lay_out(tmp_path, "0::/docker/0123\n", **files)) == 3
    assert usable_processors(lay_out(tmp_path, "0::/../../elsewhere\n", **files)) == 3
