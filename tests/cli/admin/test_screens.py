"""`top` and `--watch` on a terminal, driven by keys, and `--watch` in a pipe."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import ioctl
from struct import pack
from termios import TIOCSWINSZ

from amqp_broker import RunningBroker
from amqp_broker.cli.admin.top import VIEWS, Sample, busiest, rate
from amqp_broker.client import Connection
from amqp_broker.protocol import methods as m
from tests.cli.admin.conftest import Command

DEADLINE_S = 30.0


class Terminal:
    """What a command does on a terminal of 200 by 50."""

    def __init__(self, descriptor: int, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._descriptor = descriptor
        self._seen = ""

    def wait_for(self, pattern: str) -> str:
        """What matches the pattern for the first time since the last that was waited for."""
        deadline = time.monotonic() + DEADLINE_S
        while (found := re.search(pattern, self._seen)) is None:
            left = deadline - time.monotonic()
            assert left > 0, f"no {pattern!r} in {self._seen[-3000:]!r}"
            if select.select([self._descriptor], [], [], left)[0]:
                self._seen += os.read(self._descriptor, 65536).decode("utf-8", "replace")
        self._seen = self._seen[found.end() :]
        return found[0]

    def press(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def end(self) -> int:
        """Reads what is left; the exit status."""
        try:
            while os.read(self._descriptor, 65536):
                pass
        except OSError:  # the other side is closed
            pass
        return self.process.wait(DEADLINE_S)


@contextmanager
def terminal(url: str, *arguments: str) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, pack("HHHH", 50, 200, 0, 0))
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200", "LINES": "50", "AMQP_BROKER_MANAGEMENT_URL": url}
    command = [sys.executable, "-m", "amqp_broker", *arguments]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        try:
            yield Terminal(ours, process)
        finally:
            process.kill()
            os.close(ours)


def test_top_shows_the_busiest_and_quits(broker: RunningBroker) -> None:
    with Connection.open(broker.url, name="busy") as connection, connection.channel() as channel:
        for name, count in (("few", 1), ("many", 9)):
            channel.call(m.QueueDeclare(queue=name))
            for _ in range(count):
                channel.publish("", name, b"x")
        channel.call(m.QueueDeclare(queue="many", passive=True))
        with terminal(broker.url, "top", "--interval", "0.2", "--vhost", "/") as screen:
            screen.wait_for(r"solo  memory")
            screen.wait_for(r"queues by messages_ready, every 200ms")
            screen.wait_for(r"many +9")
            screen.wait_for(r"publish \d+(\.\d)?/s")
            screen.press("p")
            screen.wait_for(r"queues by publish/s")
            screen.press("\t")
            screen.wait_for(r"connections by recv_oct/s")
            screen.wait_for(r"127\.0\.0\.1:\d+ -> ")
            screen.press("q")
            assert screen.end() == 0
        for name in ("few", "many"):
            channel.call(m.QueueDelete(queue=name))


def test_watch_on_a_terminal(broker: RunningBroker, command: Command) -> None:
    with terminal(broker.url, "list", "exchanges", "--vhost", "/", "--watch", "0.2") as screen:
        screen.wait_for(r"amq\.direct .*direct")
        command.out("exchange", "declare", "later", "fanout")
        screen.wait_for(r"later .*fanout")
        screen.press("q")
        assert screen.end() == 0
    command.out("exchange", "delete", "later")


def test_units_on_a_terminal(broker: RunningBroker) -> None:
    with terminal(broker.url, "list", "nodes", "--columns", "name,memory_budget,connections") as screen:
        screen.wait_for(r"solo +\d+\.\d [MG]iB +\d+")
        assert screen.end() == 0


def test_a_password_is_asked_for_twice_and_not_shown(broker: RunningBroker, command: Command) -> None:
    with terminal(broker.url, "user", "add", "typed") as screen:
        screen.wait_for("Password of typed: ")
        screen.press("geheim\n")
        screen.wait_for("Repeat for confirmation: ")
        screen.press("geheim\n")
        assert "geheim" not in screen.wait_for("(?s).*user 'typed' is made")
        assert screen.end() == 0
    command.out("user", "delete", "typed")


def test_watch_in_a_pipe_is_a_document_on_each_line(broker: RunningBroker) -> None:
    command = [sys.executable, "-m", "amqp_broker", "list", "nodes", "--json", "--watch", "0.1", "--url", broker.url]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(3)]
    try:
        for lines, process in enumerate(processes, 1):
            assert process.stdout is not None
            found = [json.loads(process.stdout.readline()) for _ in range(lines)]
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=DEADLINE_S)
            assert (process.returncode, said) == (0, b"")
            assert [rows[0]["name"] for rows in found] == ["solo"] * lines
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_top_needs_a_terminal(command: Command) -> None:
    assert "top needs a terminal" in command.refusal("top", status=2)


def test_rates_are_of_two_samples() -> None:
    assert rate(10, 30, 2000) == 10.0
    assert rate(None, 30, 2000) is None
    assert rate(10, 30, 0) is None
    assert rate(30, 10, 1000) == 0.0, "made anew under its name: nothing is taken back"
    view = VIEWS[0]

    def sample(now: int, **published: int) -> Sample:
        rows = {
            ("/", name): {
                "messages_ready": 1, "messages_unacknowledged": 0, "consumers": 0, "publish": count, "deliver": None,
                "ack": count,
            }
            for name, count in published.items()
        }  # fmt: skip
        return Sample({}, now, dict(rows))

    table = busiest(view, sample(1000, a=10, b=10), sample(2000, a=15, b=30, new=99), "publish/s")
    place = view.columns.index("publish/s")
    assert [(row[1], row[place]) for row in table.rows] == [("b", 20.0), ("a", 5.0), ("new", None)]
    assert all(row[view.columns.index("deliver/s")] is None for row in table.rows)
