"""The simulation of a cluster notices when a rule of Raft is broken.

Without the compiled modules only: the classes of those cannot be changed (conftest.py leaves this file out). With all
rules the same runs do no harm: test_cluster_bites.py.
"""

from __future__ import annotations

import pytest

from tests.cluster_simulation.bites import GROUP_CASES, Rule, check_noticed


@pytest.mark.parametrize(("rule", "weather", "seed"), GROUP_CASES, ids=[case[0].__name__ for case in GROUP_CASES])
def test_a_broken_rule_is_noticed(rule: Rule, weather: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check_noticed(rule, weather, seed, monkeypatch)
