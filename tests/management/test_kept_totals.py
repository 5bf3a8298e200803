"""The counters of a node outlast it, and whatever the disk does with their file stops nobody."""

from __future__ import annotations

import logging
import os
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from amqp_broker.management.kept_totals import FILE, PATIENCE_MS, KeptTotals, _octets_of
from amqp_broker.management.totals import FRESH_MS
from amqp_broker.protocol import methods
from amqp_broker.turn.clock import TurnClock
from queues.timers import Timers
from storage.disk import FileDisk
from tests.management.counters import fallen, publish_mandatory, totals
from tests.node.node_driver import NodeDriver, declare
from tests.node.system_service import SystemService


def test_counters_go_on_when_the_node_starts_again(driver: NodeDriver, service: SystemService) -> None:
    client = driver.client(1)
    client.send(1, declare("q"), declare("short", x_max_length=1), declare("quorum", x_queue_type="quorum"))
    driver.settle()
    for _ in range(3):
        for name in ("q", "short", "quorum"):
            client.publish(1, name, b"x" * 200)
    client.send(1, methods.BasicGet(0, "q", True))
    publish_mandatory(driver, client, "nowhere")
    driver.settle()
    told = totals(driver, service)
    assert (told["message_sizes"][1], told["publish_oct"] >= 9 * 200) == (9, True)
    # What comes behind an answer may be forgotten, not what was in it.
    client.publish(1, "q", b"x")
    driver.settle()
    driver.start()  # the process was killed; of a machine that goes down the file may be an older one
    again = totals(driver, SystemService(driver))
    assert not fallen(again, told)
    assert (again["queue_created"], again["get_no_ack"], again["maxlen_dropped"], again["return_unroutable"]) == (
        3, 1, 2, 1,
    )  # fmt: skip
    assert again["connection_created"] > told["connection_created"]
    assert again["connections"] == 1


NO_COUNTERS = [
    b"", b"{", b"[]", b'{"v": 3, "counters": {}}', b'{"v": 1, "counters": []}', b'{"v": 1, "counters": {"acked": "9"}}',
    b'{"v": 1, "counters": {"acked": -1}}', b'{"v": 1, "counters": {"by_type": {"classic": {"acked": NaN}}}}',
    b'{"v": 1, "counters": {"acked": ' + b"9" * 400 + b"}}", b'{"v": 2, "counters": {}}',
    b'{"v": 2, "crc": "00000000", "kept": {"counters": {"connection_created": 7}, "fleeting": 0}}',
    _octets_of({"connection_created": 7}, -1),
    _octets_of({"connection_created": -7}, 0),
]  # fmt: skip


@pytest.mark.parametrize("octets", NO_COUNTERS, ids=range(len(NO_COUNTERS)))
def test_a_file_of_counters_that_cannot_be_read_stops_nobody(
    driver: NodeDriver, service: SystemService, octets: bytes
) -> None:
    totals(driver, service)
    driver.disk.remove(FILE)
    driver.disk.append(FILE, [octets])
    driver.start()
    assert totals(driver, SystemService(driver))["connection_created"] == 1


def test_a_file_of_counters_that_the_disk_refuses_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    kept = KeptTotals(FileDisk(tmp_path), deque(), TurnClock(), Timers())
    kept.open()
    assert kept.go_on({"acked": 2}) == {"acked": 2}


def test_a_file_of_the_version_before_is_read(driver: NodeDriver, service: SystemService) -> None:
    totals(driver, service)
    driver.disk.remove(FILE)
    driver.disk.append(FILE, [b'{"v": 1, "counters": {"connection_created": 7, "connection_closed": 5}}'])
    driver.start()
    found = totals(driver, SystemService(driver))
    assert (found["connection_created"], found["connection_closed"]) == (8, 7)


def test_one_octet_that_is_another_is_found(driver: NodeDriver, service: SystemService) -> None:
    totals(driver, service)
    octets = driver.disk.contents(FILE)
    driver.disk.overwrite(FILE, octets.replace(b'"connection_created": 1', b'"connection_created": 9'))
    driver.start()
    assert totals(driver, SystemService(driver))["connection_created"] == 1


def test_what_was_open_has_closed_when_the_node_starts_again(driver: NodeDriver, service: SystemService) -> None:
    for _ in range(3):
        client = driver.client(1, 2)
        client.send(1, declare("lasting"), declare("fleeting", durable=False))
        client.send(1, methods.QueueDeclare(0, "own", False, False, True, False, False))
        driver.settle()
        totals(driver, SystemService(driver))
        driver.start()
    found = totals(driver, SystemService(driver))
    for created, closed, there in (("connection_created", "connection_closed", "connections"),
                                   ("channel_created", "channel_closed", "channels"),
                                   ("queue_created", "queue_deleted", "queues")):  # fmt: skip
        assert found[created] - found[closed] == found[there], created


def test_an_orderly_stop_keeps_what_was_counted_last(driver: NodeDriver, service: SystemService) -> None:
    totals(driver, service)
    client = driver.client(1)
    client.send(1, declare("q"))
    client.publish(1, "q", b"x")
    driver.settle()
    driver.node.system.close()
    driver.start()
    assert totals(driver, SystemService(driver))["queue_publish"] == 1


def test_a_disk_that_stands_still_delays_totals_but_for_a_moment(driver: NodeDriver, service: SystemService) -> None:
    """And one write is under way at a time."""
    driver.held_files = []
    for number in range(3):
        driver.client(1)
        driver.wait(FRESH_MS)
        service.send("totals", b"{}")
        driver.settle()
        assert bool(service.answers()) == bool(number)  # a disk that is late already is not waited for
        driver.wait(PATIENCE_MS)
        if not number:
            assert service.answers()[0]["connections"] == 2
        assert len(driver.held_files) == 1
    driver.bring_files()
    found = totals(driver, service)
    assert found["connections"] == 4
    driver.bring_files()
    driver.start()
    assert not fallen(totals(driver, SystemService(driver)), found)


class _Refusing:
    """A disk that takes no file of counters."""

    def __init__(self, disk: Any) -> None:
        self._disk = disk

    def replace(self, path: str, octets: bytes) -> None:
        raise OSError(28, "No space left on device", path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)


def test_a_disk_that_takes_no_counters_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    driver = NodeDriver(disk=_Refusing(NodeDriver().disk))  # type: ignore[arg-type]  # the same but for one verb
    service = SystemService(driver)
    with caplog.at_level(logging.WARNING, "amqp_broker"):
        for _ in range(3):
            assert totals(driver, service)["connections"] == 1
    assert [record.getMessage().split(":")[0] for record in caplog.records] == ["counters cannot be written"]


def test_what_ends_the_walk_is_said(
    driver: NodeDriver, service: SystemService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise ValueError("no counters")

    monkeypatch.setattr(KeptTotals, "keep", fail)
    driver.wait(FRESH_MS)
    assert service.ask("totals") == {"ok": False, "error": "totals: no counters", "code": "bad_request"}


def test_a_whole_file_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    for octets in (b"longer than the next", b"short"):
        disk.replace(FILE, octets)
        assert disk.read(FILE, 0, 100) == octets
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_counters_that_cannot_be_written_fail_no_disk(tmp_path: Path) -> None:
    """Not even where descriptors are few, so that those of other files are synced on their way out."""
    disk = FileDisk(tmp_path, max_descriptors=1)
    (tmp_path / f"{FILE}.new").mkdir()
    kept = KeptTotals(disk, deque(), TurnClock(), Timers())
    kept.close({"acked": 2}, 0)
    disk.append("journal", [b"x"])
    disk.sync("journal")
    assert list(disk._descriptors) == ["journal"]


def test_nobody_waits_at_the_disk_while_a_file_of_counters_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FileDisk(tmp_path)
    opened = []

    def look(path: str, flags: int, mode: int = 0o777) -> int:
        opened.append((Path(path).name, disk._guard.locked()))
        return real(path, flags, mode)

    real = os.open
    monkeypatch.setattr(os, "open", look)
    KeptTotals(disk, deque(), TurnClock(), Timers()).close({"acked": 1}, 0)
    disk.append("new", [b"x"])
    assert opened == [(f"{FILE}.new", False), ("new", False)]
