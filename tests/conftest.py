"""What holds for all tests:

AMQP_BROKER_PLAIN=1 decides, before any of our modules is loaded, which files run. No example of a property is a failure
for being slow: the cores are shared, and what is slow is measured elsewhere.

A shell that starts something in the background without job control has it ignore SIGINT, and all that it starts: what
tests start to interrupt it listens.
"""

from __future__ import annotations

import gc
import itertools
import os
import re
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

import amqp_broker  # noqa: F401 - its import installs the hook for plain modules, if that is asked for
from tests.example_counts import IS_FEW, examples, some

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadGroupScheduling

settings.register_profile("shared cores", deadline=None, max_examples=examples(100))
settings.load_profile("shared cores")
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Thousands of processes start in the tests: none of them has to compile the sources again, which takes longer than all
# else at a broker's start (`make` sees to that for its own).
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


#: What has tests of half a minute and more, the longest first: at the end of a parallel run one worker would go on
#: alone. Before them xdist begins the groups, those of many tests first.
_LONGEST = (
    "tests/chaos", "tests/upgrade", "tests/server", "tests/kill", "tests/moving", "tests/cluster_simulation",
    "tests/packaging", "tests/docs",
)  # fmt: skip


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes long comes first, and what is for one worker of a parallel run goes to one: pytest 9.2 ignores what
    xdist 3.8 adds to the name of a test, and then each worker starts its own Java."""
    _leave_out(config, items)
    if not getattr(config.option, "loadgroup", False):
        return
    ranks = {folder: rank for rank, folder in enumerate(_LONGEST)}
    items.sort(key=lambda item: ranks.get("/".join(item.nodeid.split("/", 2)[:2]), len(ranks)))
    for item in items:
        if item.get_closest_marker("xdist_group") is not None and "@" not in item.nodeid:
            raise pytest.UsageError(
                f"pytest {pytest.__version__} does not let pytest-xdist keep the group of {item.nodeid} in one worker: "
                "install pytest<9.2, or run without --dist loadgroup"
            )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadGroupScheduling | None:
    """See Scheduling."""
    if config.getoption("dist") != "loadgroup":
        return None
    from tests.scheduling import Scheduling  # there may be no xdist

    return Scheduling(config, log)


def _leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a test with many cases some are run, where that is enough, and some tests only once (example_counts.py)."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if IS_FEW and item.get_closest_marker("once") is not None:
            continue
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = {item for each in cases.values() for item in some(each)}
    if len(kept) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = [item for item in items if item in kept]


_REPR = re.compile(r"\b[A-Z][a-z]\w*\((?:\w+=|['\"])")


@pytest.fixture(autouse=True)
def _log_lines_are_for_people(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No line of a log shows an object as Python does, as in `SetAside(file=...)`."""
    yield
    shown = [record.getMessage() for record in caplog.get_records("call") if record.name.startswith("amqp_broker")]
    assert not [line for line in shown if _REPR.search(line)], "a log line is for people; write what it means"


#: After so many tests what they have left is looked through once more, and then never again.
_KEPT_AFTER = 25
_ended = itertools.count(1)


def pytest_collection_finish() -> None:
    """The garbage collector need not walk through twelve thousand tests again and again."""
    _keep()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Nor through what thousands of tests have left: nodes that nobody has ended are cycles that it does not see
    (queues/message.py), and a process of many tests would end with seconds for each collection."""
    if next(_ended) % _KEPT_AFTER == 0:
        _keep()


def _keep() -> None:
    """What is alive now stays so: the garbage collector leaves it alone."""
    gc.collect()
    gc.freeze()
