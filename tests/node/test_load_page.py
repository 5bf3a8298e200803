"""The page of memory in which workers say what they have to do: nothing half, nothing of the past taken for the
present."""

from __future__ import annotations

import mmap
import os
import signal
import struct
import time

import pytest

from amqp_broker.resources.load_page import FRESH_MS, LoadPage


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def write(page: LoadPage, worker: int, busy: int = 500, queues: int = 7) -> None:
    page.write(worker, busy=busy, held_bytes=30, used_bytes=20, budget_bytes=40, queues=queues)


def test_what_one_has_said_the_others_read() -> None:
    page = LoadPage(3, Clock())
    write(page, 1)
    write(page, 1, busy=600)
    found = page.fresh(1)
    assert found is not None
    assert found[2:] == (600, 30, 20, 40, 7)
    assert (found.number, found.written_at) == (2, 100_000)
    assert page.read(0) is None
    assert page.read(3) is None
    write(page, 3)  # who has no place says nothing


def test_other_processes_read_it() -> None:
    page = LoadPage(2, time.monotonic)
    process = os.fork()
    if not process:
        write(page, 1, queues=9)
        os._exit(0)
    os.waitpid(process, 0)
    found = page.fresh(1)
    assert found is not None
    assert found.queues == 9


def test_what_is_old_says_nothing_of_the_present() -> None:
    clock = Clock()
    page = LoadPage(2, clock)
    write(page, 1)
    clock.now += FRESH_MS / 1000
    assert page.fresh(1) is not None
    clock.now += 0.01
    assert page.fresh(1) is None


def test_one_that_has_ended_does_not_look_idle() -> None:
    page = LoadPage(2, time.monotonic)
    write(page, 1)
    page.forget(1)
    assert page.fresh(1) is None
    found = page.read(1)
    assert found is not None
    assert found.number == 2
    write(page, 1)
    assert page.fresh(1) is not None


@pytest.mark.parametrize("where", range(64, 64 + 60))
def test_what_is_half_written_is_not_taken(where: int) -> None:
    """What was whole before is."""
    octets = mmap.mmap(-1, 64 * 3)
    struct.pack_into("<8sIII", octets, 0, b"AMQPLOAD", 1, 64, 2)
    page = LoadPage(2, time.monotonic, octets)
    write(page, 0)
    before = page.read(0)
    octets[where] ^= 0x55
    assert page.read(0) == before
    assert LoadPage(2, time.monotonic, octets).read(0) is None


def test_one_of_another_version_is_not_read() -> None:
    octets = mmap.mmap(-1, 64 * 3)
    struct.pack_into("<8sIII", octets, 0, b"AMQPLOAD", 2, 64, 2)
    page = LoadPage(2, time.monotonic, octets)
    write(page, 0)
    assert page.read(0) is None
    assert octets[64:] == bytes(128)


def test_who_reads_while_another_process_writes_sees_whole_records() -> None:
    page = LoadPage(1, time.monotonic)
    write(page, 0, busy=0, queues=0)
    process = os.fork()
    if not process:
        try:
            number = 0
            while os.getppid() > 1 and number < 1_000_000:
                number += 1
                write(page, 0, busy=number, queues=2 * number)
        finally:
            os._exit(0)
    try:
        numbers = []
        for _ in range(20_000):
            found = page.read(0)
            assert found is not None
            assert found.queues == 2 * found.busy
            numbers.append(found.number)
        assert numbers == sorted(numbers)
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
