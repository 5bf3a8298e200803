"""The programs of examples/, as somebody would run them; and the README has a line for each."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from amqp_broker.pytest_plugin import BrokerForTest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
#: Nothing here takes a tenth of it on a machine that is not slow.
PATIENCE_S = 300


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AMQP_BROKER_TEST")}
    return kept | {"PYTHONPATH": str(ROOT), "C_FORCE_ROOT": "1", "PATIENCE_S": str(PATIENCE_S)} | more


def output_of(*command: str, **more: str) -> str:
    done = subprocess.run(
        [sys.executable, *command], cwd=EXAMPLES, env=environment(**more), capture_output=True, text=True,
        timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


def test_a_pool_of_workers(amqp_broker: BrokerForTest) -> None:
    said = output_of("worker_pool.py", amqp_broker.url)
    for name in ("cat", "dog", "bird"):
        assert len(re.findall(rf"worker \d: resize {name}.jpg: done", said)) == 1
    assert len(re.findall("resize broken.jpg: failed, once more", said)) == 2
    assert len(re.findall("resize broken.jpg: failed 3 times, put aside", said)) == 1
    assert said.endswith("4 jobs are over, 1 of them in jobs.dead\n")


def test_topic_routing(amqp_broker: BrokerForTest) -> None:
    sections = re.split(r"^(\S.*):\n", output_of("topic_routing.py", amqp_broker.url), flags=re.MULTILINE)[1:]
    pairs = zip(sections[::2], sections[1::2], strict=True)
    got = {listener: re.findall(r"^    (\S+):", body, re.MULTILINE) for listener, body in pairs}
    assert got == {
        "everything (#)": ["shop.error", "shop.order.new", "kitchen.error", "kitchen.info"],
        "errors (*.error)": ["shop.error", "kitchen.error"],
        "the shop (shop.#)": ["shop.error", "shop.order.new"],
    }


def test_remote_procedure_calls(amqp_broker: BrokerForTest) -> None:
    squares = [f"the square of {number} is {number**2}" for number in (3, 12, 111_111_111)]
    assert output_of("rpc.py", amqp_broker.url).splitlines() == squares


@contextmanager
def celery_worker(url: str, log: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "celery", "-A", "celery_app", "worker", "--loglevel", "INFO", "-c", "2"]
    with log.open("wb") as file:
        worker = subprocess.Popen(
            command, cwd=EXAMPLES, env=environment(BROKER_URL=url), stdout=file, stderr=file, start_new_session=True
        )
    try:
        yield
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE_S) == 0, log.read_text()
    finally:
        if worker.poll() is None:
            os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()


def test_celery(amqp_broker: BrokerForTest, tmp_path: Path) -> None:
    with celery_worker(amqp_broker.url, tmp_path / "log"):
        said = output_of("celery_app.py", BROKER_URL=amqp_broker.url)
    assert said.splitlines() == [f"a cup of {drink} with milk" for drink in ("coffee", "tea", "cocoa")]


def test_a_test_suite_with_the_fixture() -> None:
    said = output_of("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_with_a_broker.py")
    assert "4 passed" in said


def test_failover() -> None:
    said = output_of("failover.py", "200")
    assert "100 messages are confirmed; killing the node that we are connected to" in said
    assert len(re.findall("^connected to", said, re.MULTILINE)) >= 3
    assert said.endswith("200 of 200 messages are there, 0 are lost\n")


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_the_readme_names_it(path: Path) -> None:
    assert f"examples/{path.name}" in (ROOT / "README.md").read_text(encoding="utf-8")
