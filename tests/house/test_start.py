"""What a broker has loaded when it says `ready`: nothing that only other commands need, and no more than the bounds
here. A start is little else than the loading of modules.

Raise a bound when what came is needed before the first client; otherwise load it where it is first needed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("amqp_broker", "exchanges", "queues", "raft", "storage")
#: At most so many modules of ours. Each takes some 0.3 ms and 35 KiB.
MOST_OF_OURS = 565
#: At most so many of the library and of other packages.
MOST_OF_OTHERS = 250
#: Only other commands, or programs of others, use them.
OF_OTHER_COMMANDS = (
    *("amqp_broker.bench", "amqp_broker.cli.admin", "amqp_broker.client", "amqp_broker.moving", "amqp_broker.testing"),
    *("amqp_broker.web", "h11", "msgspec", "pyarrow", "rich", "spark_connector", "starlette", "uvicorn"),
)
#: Starts a broker, prints which modules there are when it is ready, and stops it.
PROGRAM = """
import json, os, signal, sys
from amqp_broker.cli.main import main
from amqp_broker.server import main as server

def tell(line):
    if line.startswith("ready"):
        print(json.dumps(sorted(sys.modules)))
        os.kill(os.getpid(), signal.SIGTERM)

server._say = tell
off = ("--management-listen=off", "--prometheus-listen=off")
sys.exit(main(["serve", *off, "--listen", "127.0.0.1:0", "--data-dir", sys.argv[1]]))
"""


@cache
def loaded(folder: Path) -> list[str]:
    """The modules of a broker that is ready."""
    command = [sys.executable, "-P", "-c", f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n{PROGRAM}", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    names: list[str] = json.loads(done.stdout)
    return names


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return loaded(tmp_path_factory.mktemp("start") / "data")


def is_of(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == each or module.startswith(f"{each}.") for each in packages)


def test_ready_comes_before_what_other_commands_need(names: list[str]) -> None:
    assert [name for name in names if is_of(name, OF_OTHER_COMMANDS)] == []


def test_no_more_modules_are_loaded_than_the_bounds_say(names: list[str]) -> None:
    ours = [name for name in names if is_of(name, PACKAGES)]
    rooms = Counter(name.removeprefix("amqp_broker.").partition(".")[0] for name in ours)
    assert len(ours) <= MOST_OF_OURS, f"{len(ours)} of ours: {rooms.most_common()}"
    others = [name for name in names if not is_of(name, PACKAGES)]
    assert len(others) <= MOST_OF_OTHERS, f"{len(others)} of others: {others}"
