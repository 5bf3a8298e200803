"""What a result is worth nothing without: the machine, the versions, the commit, the date; and where its page is."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import amqp_broker
from benchmarks.brokers import ROOT

RESULTS = Path(__file__).parent / "results"


def page_of(kind: str, is_whole: bool = True) -> Path:
    """Where the result of this kind is: always the newest, git has those before. What was measured in part only does
    not take its place; that page is not committed."""
    return RESULTS / f"{kind}{'' if is_whole else '-part'}.md"


def describe_machine() -> str:
    """Processor, cores, memory, kernel."""
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB, Linux {platform.release()}"


def commit(root: Path = ROOT) -> str:
    """The short hash of a checkout's commit, with `+changes` where the tree differs from it."""
    head = _git(root, "rev-parse", "--short", "HEAD")
    if not head:
        return "no commit"
    return f"{head}+changes" if _git(root, "status", "--porcelain", "--untracked-files=no") else head


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def is_compiled() -> bool:
    """Whether the hot modules beside this folder are compiled."""
    return bool(list((ROOT / "queues").glob("*.so")))


def header(title: str, facts: dict[str, str]) -> list[str]:
    """The beginning of a result page: a title, then one line for each fact."""
    own = {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "commit": commit(),
        "machine": describe_machine(),
        "amqp-broker": f"{amqp_broker.__version__}, {'compiled' if is_compiled() else 'plain'}",
        "Python": platform.python_version(),
    }
    return [f"# {title}", "", *(f"- {name}: {value}" for name, value in {**own, **facts}.items()), ""]


def write_page(path: Path, lines: list[str], raw: object) -> None:
    """The page, and beside it every single result as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    path.with_suffix(".json").write_text(json.dumps(raw, indent=1) + "\n", encoding="utf-8")


def table(columns: list[str], rows: list[list[str]]) -> list[str]:
    """A Markdown table; every column but the first is set to the right."""
    rule = ["---"] + ["---:"] * (len(columns) - 1)
    return ["| " + " | ".join(row) + " |" for row in (columns, rule, *rows)]
