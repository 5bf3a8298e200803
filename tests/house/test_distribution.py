"""The distribution's name, which is not the command's: docs/decisions/0019-distribution-name.md."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAME = "warrenmq"
#: The name in the index that is somebody else's, where a text would have pip look for it.
FOREIGN = re.compile(
    r"amqp[-_]broker\[|pip3? install [^\n]*\bamqp[-_]broker\b|(?:version|distribution|metadata)\(.amqp[-_]broker"
)


def test_the_project_and_what_is_installed_bear_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == NAME
    assert NAME in metadata.packages_distributions()["amqp_broker"], "run `make setup`"


def test_nobody_is_sent_to_the_foreign_name() -> None:
    texts = [ROOT / "README.md", ROOT / "Makefile", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    for folder in ("amqp_broker", "spark_connector", "examples", "tests", "interop_tests", "benchmarks"):
        texts += (ROOT / folder).rglob("*.py")
    told = [str(path.relative_to(ROOT)) for path in texts if FOREIGN.search(path.read_text(encoding="utf-8"))]
    assert told == []
