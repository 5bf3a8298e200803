"""Lists that are kept for a second hold so many rows at most, all together."""

from __future__ import annotations

import threading
from typing import Any

from amqp_broker.web.objects import REUSED_S, ObjectLists

#: All columns of all queues, whoever asks.
QUEUES = ("queues", None, None, None)


class Node:
    """Answers with so many rows of a kind, and counts how often."""

    def __init__(self, **rows: int) -> None:
        self._rows = rows
        self.asked: list[str] = []
        self.columns: object = None
        self.may_answer = threading.Event()
        self.may_answer.set()

    def request(self, verb: str, kind: str, **fields: object) -> dict[str, Any]:
        self.asked.append(kind)
        self.columns = fields.get("columns")
        assert self.may_answer.wait(10)
        return {"columns": ["name"], "rows": [[str(number)] for number in range(self._rows[kind])]}


def lists(node: Any, most_rows: int, now: list[float]) -> ObjectLists:
    return ObjectLists(node, most_rows, lambda: now[0])


def test_what_was_read_first_makes_room() -> None:
    now = [0.0]
    node = Node(queues=6, channels=3, exchanges=2)
    known = lists(node, 10, now)
    for kind in ("queues", "channels", "queues", "exchanges"):
        assert len(known.read(kind, None).rows) > 0
        now[0] += REUSED_S / 10
    assert node.asked == ["queues", "channels", "exchanges"]  # the second time it was kept; then there were 11
    known.read("channels", None)
    known.read("exchanges", None)
    assert len(node.asked) == 3
    known.read("queues", None)
    assert node.asked[3:] == ["queues"]


def test_a_list_that_is_too_long_is_read_once_by_those_who_ask_together() -> None:
    node = Node(queues=100)
    known = lists(node, 10, [0.0])
    node.may_answer.clear()
    found: list[int] = []
    readers = [threading.Thread(target=lambda: found.append(len(known.read("queues", None).rows))) for _ in range(3)]
    for reader in readers:
        reader.start()
    while QUEUES not in known._kept or known._kept[QUEUES].readers < 3:
        node.may_answer.wait(0.001)
    node.may_answer.set()
    for reader in readers:
        reader.join()
    assert (found, node.asked) == ([100] * 3, ["queues"])
    assert not known._kept
    assert len(known.read("queues", None).rows) == 100
    assert node.asked == ["queues"] * 2


def test_some_columns_are_a_list_of_their_own() -> None:
    node = Node(queues=2)
    known = lists(node, 10, [0.0])
    known.read("queues", None)
    assert node.columns is None
    known.read("queues", None, columns=("name", "type"))
    known.read("queues", None, columns=("name", "type"))
    assert (node.asked, node.columns) == (["queues"] * 2, ["name", "type"])
