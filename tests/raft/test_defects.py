"""The defects of the stock class, S1 to S13: each is shown on the stock class, and shown to be gone here.

A scenario returns what went wrong in it, or an empty text. The stock one must return something: the day that it does
not, the override that it is the reason for wants another look.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.raft import defects_here, defects_in_stock
from tests.raft.stock import StockTime

DEFECTS = {
    "S1": "a tail that was acknowledged is cut by an older append",
    "S2": "the commit index is believed without a look at the log",
    "S3": "a dump makes the journal's tail disappear at a restart",
    "S4": "an entry is acknowledged without a sync",
    "S5": "a damaged file makes the term 0, and the vote free",
    "S6": "a stored commit index is believed, and the leader acknowledges alone",
    "S7": "a reply of an earlier term counts",
    "S8": "one peer votes twice, a stranger once",
    "S9": "several membership changes at a time",
    "S10": "a crash while the journal is shortened loses entries; damage goes unnoticed",
    "S11": "a state that cannot be loaded is acknowledged",
    "S12": "an entry is applied twice after an exception",
    "S13": "an entry just below 128 KiB cannot be received",
}


def scenario(module: object, defect: str) -> Callable[..., str]:
    found: Callable[..., str] = getattr(module, defect.lower())
    return found


@pytest.mark.parametrize("defect", DEFECTS, ids=[f"{key}: {text}" for key, text in DEFECTS.items()])
def test_the_stock_class_has_the_defect(defect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = scenario(defects_in_stock, defect)(StockTime(monkeypatch), tmp_path, monkeypatch)
    assert wrong, "the stock class does it right now: look at what was overridden for this"


@pytest.mark.parametrize("defect", DEFECTS, ids=[f"{key}: {text}" for key, text in DEFECTS.items()])
def test_the_member_has_not(defect: str) -> None:
    assert not scenario(defects_here, defect)()
