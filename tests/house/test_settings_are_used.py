"""A setting that nothing reads would be a promise that nobody keeps."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from amqp_broker.settings.config import SETTINGS, Config
from amqp_broker.settings.sources import OTHER_VARIABLES, PREFIX

ROOT = Path(__file__).parents[2]
DECLARING = {"config.py", "cluster_config.py", "config_sources.py", "setting.py"}
FOR_RAFT = inspect.getsource(Config.raft_settings).replace("self.", "config.")
TEXT = FOR_RAFT + "\n".join(
    path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "amqp_broker").rglob("*.py"))
    if path.name not in DECLARING and path.parent.name != "bench"
)


def test_a_setting_is_read_by_the_broker() -> None:
    read = set(re.findall(r"\b_?config\.(\w+)", TEXT))
    assert not {each.attribute for each in SETTINGS} - read, "nothing reads these of `config`"


@pytest.mark.parametrize("name", ["Makefile", ".ci/run"])
def test_a_variable_that_is_set_for_tests_is_one_that_a_broker_takes(name: str) -> None:
    """What begins with our prefix reaches each broker that a test starts; one that it does not know ends its start."""
    known = {*OTHER_VARIABLES, *(each.variable for each in SETTINGS)}
    assert set(re.findall(rf"\b({PREFIX}[A-Z_]+)=", (ROOT / name).read_text(encoding="utf-8"))) <= known
