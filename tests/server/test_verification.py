"""Verifying stored pages: how much before the start, what is left, and what a bad page says."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import pytest

from amqp_broker.resources.page_check import PageCheck
from amqp_broker.server.verification import failures_of, take_few, verify_at_start
from queues.page import Page
from storage.disk import FileDisk
from storage.errors import CorruptRecord
from storage.page_store import PageStore

QUEUE = 7
PAGE_BYTES = 1000


def stored(folder: Path, count: int) -> tuple[PageStore, list[Page], list[PageCheck]]:
    page_store = PageStore(FileDisk(folder))
    pages = []
    for number in range(count):
        page = Page(None, 1, number, number, 1)
        page.location = page_store.append(QUEUE, bytes([number]) * PAGE_BYTES)
        pages.append(page)
    return page_store, pages, [PageCheck(page_store, QUEUE, page) for page in pages]


def damage(folder: Path, page: Page) -> None:
    file = folder / "queues" / str(QUEUE) / "00000001.seg"
    octets = bytearray(file.read_bytes())
    octets[page.location.offset + 100] ^= 1
    file.write_bytes(octets)


def test_everything_within_the_limit(tmp_path: Path) -> None:
    _, pages, checks = stored(tmp_path, 50)
    assert verify_at_start(checks, 1 << 30) == deque()
    damage(tmp_path, pages[40])
    with pytest.raises(CorruptRecord, match=rf"queues/7/00000001.seg at offset {pages[40].location.offset}: "):
        verify_at_start(checks, 1 << 30)


def test_what_is_beyond_the_limit_is_left_in_order(tmp_path: Path) -> None:
    _, pages, checks = stored(tmp_path, 10)
    damage(tmp_path, pages[5])
    left = verify_at_start(checks, 5 * checks[0].disk_bytes)
    assert list(left) == checks[5:]
    assert verify_at_start(checks, 0) == deque(checks)
    few = take_few(left, 2 * checks[0].disk_bytes)
    assert few == checks[5:7]
    assert [check for check, _ in failures_of(few)] == [checks[5]]
    assert list(left) == checks[7:]


def test_a_page_that_is_gone_or_was_read_needs_no_check(tmp_path: Path) -> None:
    page_store, pages, checks = stored(tmp_path, 3)
    page_store.release(QUEUE, pages[0].location)
    pages[0].location = None
    pages[1].size = PAGE_BYTES
    assert [check.is_needed for check in checks] == [False, False, True]
    assert take_few(deque(checks)) == checks[2:]
    assert take_few(deque(checks[:2])) == []
