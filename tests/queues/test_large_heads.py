"""Large messages that wait are not packed, and so not copied, unless they are many, in the journal, or RAM is tight."""

from __future__ import annotations

import random
from typing import Any

import pytest

from queues.message import SEPARATE_BODY_BYTES, Message
from queues.pager import Pager
from queues.ready import Ready
from storage.page_store import PageStore
from tests.queues.queue_world import message_named, name_of
from tests.simulation.simulated_disk import SimulatedDisk

COUNT = 20
HEAD_MESSAGES = 3
HEAD_BYTES = 1500
PAGE_BYTES = SEPARATE_BODY_BYTES
MUCH = 1 << 30


def ready_messages(large_head_bytes: int = MUCH, budget_bytes: int = MUCH) -> Any:
    """Of a queue that has nothing yet."""
    store = PageStore(SimulatedDisk(random.Random(1)), 1 << 20)
    return Ready(Pager(store, budget_bytes, PAGE_BYTES, HEAD_MESSAGES, HEAD_BYTES, large_head_bytes), 1)


def push(ready: Any, name: int, journal_segment: int = 0, body_size: int = SEPARATE_BODY_BYTES) -> Message:
    message = message_named(name, body_size, journal_segment > 0)
    ready.push(message, name, 0, journal_segment)
    return message


def drain(ready: Any) -> list[Message]:
    """All messages in order; what they were counted is given back, as their queue would."""
    found = []
    while (entry := ready.pop()) is not None:
        ready.pager.used -= entry.message.size
        found.append(entry.message)
    return found


def test_large_messages_wait_as_they_came() -> None:
    ready = ready_messages()
    pushed = [push(ready, name) for name in range(1, COUNT + 1)]
    assert ready.pages is None
    assert ready.pager.used == sum(message.size for message in pushed)
    drained = drain(ready)
    assert all(there is came for there, came in zip(drained, pushed, strict=True))
    assert ready.pager.used == 0


def test_small_ones_and_those_of_the_journal_are_packed() -> None:
    for journal_segment, body_size in ((1, SEPARATE_BODY_BYTES), (0, SEPARATE_BODY_BYTES - 1), (1, 10)):
        ready = ready_messages()
        for name in range(1, COUNT + 1):
            push(ready, name, journal_segment, body_size)
        assert len(ready.head) <= HEAD_MESSAGES
        assert [name_of(message) for message in drain(ready)] == list(range(1, COUNT + 1))


def test_beyond_their_limit_they_are_packed_and_keep_their_order() -> None:
    ready = ready_messages(5 * SEPARATE_BODY_BYTES)
    pushed = [push(ready, name) for name in range(1, COUNT + 1)]
    assert 5 <= len(ready.head) <= 6
    drained = drain(ready)
    assert [name_of(message) for message in drained] == list(range(1, COUNT + 1))
    assert [message.body_bytes() for message in drained] == [message.body_bytes() for message in pushed]
    assert ready.pager.used == 0


def test_a_small_message_behind_them_stays_behind_them() -> None:
    ready = ready_messages()
    sizes = [SEPARATE_BODY_BYTES, 10, SEPARATE_BODY_BYTES, 10, 10, SEPARATE_BODY_BYTES]
    for name, size in enumerate(sizes, 1):
        push(ready, name, 0, size)
    assert [name_of(message) for message in drain(ready)] == [1, 2, 3, 4, 5, 6]


def test_where_ram_is_tight_they_are_packed() -> None:
    ready = ready_messages(budget_bytes=COUNT * SEPARATE_BODY_BYTES)
    pager = ready.pager
    for name in range(1, COUNT + 1):
        push(ready, name)
        assert pager.used <= pager.tight_bytes + PAGE_BYTES + 2 * SEPARATE_BODY_BYTES
    assert ready.pages
    assert [name_of(message) for message in drain(ready)] == list(range(1, COUNT + 1))
    assert pager.used == 0


def test_a_head_of_large_messages_can_be_brought_to_disk() -> None:
    ready = ready_messages()
    pager = ready.pager
    for name in range(1, COUNT + 1):
        push(ready, name)
    assert ready.ram_page_bytes() > 0, "or nobody would ask this queue"
    ready.shorten_head()
    assert len(ready.head) == COUNT, "their size is what they are counted for"
    freed = 0
    while ready.ram_page_bytes() > 0:
        gained = ready.page_out(PAGE_BYTES)
        assert gained > 0
        freed += gained
    assert freed > (COUNT - 6) * SEPARATE_BODY_BYTES
    assert pager.used < 6 * (SEPARATE_BODY_BYTES + 500) + PAGE_BYTES
    assert [name_of(message) for message in drain(ready)] == list(range(1, COUNT + 1))
    assert pager.used == 0


@pytest.mark.parametrize("journal_segment", [0, 1])
def test_of_what_comes_back_only_what_the_journal_does_not_have_stays_unpacked(journal_segment: int) -> None:
    ready = ready_messages()
    entries = []
    for name in range(1, COUNT + 1):
        push(ready, name, journal_segment)
        entries.append(ready.pop())
    ready.put_back(entries)
    ready.shorten_head()
    if journal_segment:
        assert ready.head_size <= max(HEAD_BYTES, entries[0].message.size)
    else:
        assert len(ready.head) == COUNT
    assert [name_of(message) for message in drain(ready)] == list(range(1, COUNT + 1))
    assert ready.pager.used == 0


def test_of_what_comes_back_no_more_stays_unpacked_than_the_setting_says() -> None:
    ready = ready_messages(8 * SEPARATE_BODY_BYTES)
    entries = []
    for name in range(1, COUNT + 1):
        push(ready, name)
        entries.append(ready.pop())
    ready.put_back(entries)
    ready.shorten_head()
    assert 7 <= len(ready.head) <= 8
    assert [name_of(message) for message in drain(ready)] == list(range(1, COUNT + 1))
