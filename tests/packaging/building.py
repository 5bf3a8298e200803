"""A wheel or an sdist, built of a copy of the sources."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.packaging.environment import outside

ROOT = Path(__file__).parents[2]
#: What an sdist is made of, and so a wheel.
SOURCES = (
    "setup.py", "pyproject.toml", "README.md", "LICENSE", "pyspark_amqp.py", "amqp_broker", "exchanges", "queues",
    "raft", "spark_connector", "storage", "docs/man", "packaging",
)  # fmt: skip
PLAIN = {"AMQP_BROKER_NO_COMPILE": "1"}


def copy_sources(folder: Path, names: Iterable[str] = SOURCES) -> Path:
    """The sources as they are, with nothing that was built."""
    built = shutil.ignore_patterns("*.so", "*.c", "__pycache__")
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=built)
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


def build(checkout: Path, form: str, folder: Path, **variables: str) -> Path:
    """A wheel or an sdist of the checkout."""
    command = {
        "wheel": ["-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps", "--no-build-isolation", "-w"],
        "sdist": ["setup.py", "--quiet", "sdist", "-d"],
    }[form]
    done = subprocess.run(
        [sys.executable, *command, folder, *(["."] if form == "wheel" else [])],
        cwd=checkout,
        env=outside() | variables,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = folder.iterdir()
    return made
