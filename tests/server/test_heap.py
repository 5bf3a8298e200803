"""What the C library does with memory that was given back; each case in a process of its own."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="this C library gives no choice")

#: Bodies come and go, four at a time: how many pages are had from the system for 400 of them.
PROGRAM = """
import resource, sys
from amqp_broker.server.heap import keep_room

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def carry(bodies):
    for _ in range(bodies // 4):
        held = [bytearray(700_000) for _ in range(4)]
        del held

chosen = sys.argv[1] == "kept" and keep_room()
carry(40)
before = faults()
carry(400)
print(int(chosen), faults() - before)
"""
PAGES_OF_A_BODY = 700_000 // 4096


def carried(how: str, **environment: str) -> tuple[bool, int]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("GLIBC_", "MALLOC_"))}
    command = [sys.executable, "-c", PROGRAM, how]
    done = subprocess.run(command, env={**inherited, **environment}, capture_output=True, text=True, check=True)
    chosen, faults = done.stdout.split()
    return chosen == "1", int(faults)


def test_bodies_that_come_and_go_cost_no_pages() -> None:
    assert carried("left alone")[1] > 100 * PAGES_OF_A_BODY
    chosen, faults = carried("kept")
    assert chosen
    assert faults < 20 * PAGES_OF_A_BODY


@pytest.mark.parametrize("name", ["MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"])
def test_the_environment_decides_first(name: str) -> None:
    assert carried("kept", **{name: str(1 << 20)})[0] is False
