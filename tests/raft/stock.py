"""The stock pysyncobj class, driven by hand: a transport that keeps what is sent, and a time that a test sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pysyncobj import SyncObj, SyncObjConf, replicated, syncobj
from pysyncobj.node import Node
from pysyncobj.transport import Transport

Message = dict[str, Any]


class StockTransport(Transport):  # type: ignore[misc]  # pysyncobj is not typed
    """Keeps messages instead of sending them."""

    def __init__(self) -> None:
        super().__init__(None, None, [])
        self.sent: list[tuple[str, Message]] = []

    def send(self, node: Node, message: Message) -> bool:
        self.sent.append((node.id, message))
        return True

    def feed(self, sender: str, message: Message) -> None:
        self._onMessageReceived(Node(sender), message)


class StockList(SyncObj):  # type: ignore[misc]
    """A replicated list on the stock class."""

    def __init__(self, name: str, others: list[str], **configuration: Any) -> None:
        self.items: list[Any] = []
        self.outlet = StockTransport()
        self.fails = False
        configuration |= {"autoTick": False, "pollerType": "select", "dynamicMembershipChange": True, "useFork": False}
        conf = SyncObjConf(**configuration)
        super().__init__(Node(name), [Node(each) for each in others], conf, nodeClass=Node, transport=self.outlet)
        for each in others:
            self.outlet._onNodeConnected(Node(each))

    @replicated  # type: ignore[untyped-decorator]
    def append(self, item: Any) -> None:
        self.items.append(item)
        if self.fails:
            raise ValueError("apply fails")

    def log(self) -> list[tuple[bytes, int, int]]:
        return [self._SyncObj__raftLog[at] for at in range(len(self._SyncObj__raftLog))]

    @property
    def last_index(self) -> int:
        return int(self.log()[-1][1])

    def follow(self, leader: str, term: int, first: int, count: int) -> None:
        """Take entries first..first+count-1 of `term` from a leader; the entry before is of the log."""
        before = {index: entry_term for _, index, entry_term in self.log()}
        self.outlet.feed(leader, {
            "type": "append_entries", "term": term, "commit_index": 1, "prevLogIdx": first - 1,
            "prevLogTerm": before[first - 1],
            "entries": [(b"\1x%d" % index, index, term) for index in range(first, first + count)],
        })  # fmt: skip

    def win(self, time: StockTime, voters: list[str]) -> None:
        """Become the leader by these votes."""
        time.pass_seconds(2)
        self.doTick()
        for voter in voters:
            self.outlet.feed(voter, {"type": "response_vote", "term": self._getTerm()})
        assert self._isLeader()

    def acknowledge(self, follower: str) -> None:
        """A follower says that it has everything."""
        self.outlet.feed(follower, {
            "type": "next_node_idx", "next_node_idx": self.last_index + 1, "reset": False, "success": True
        })  # fmt: skip
        self.doTick()


class StockTime:
    """What the stock class takes for the time, in seconds."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        patch.setattr(syncobj, "monotonicTime", lambda: self.now)

    def pass_seconds(self, seconds: float) -> None:
        self.now += seconds


def journal_options(folder: Path) -> dict[str, str]:
    """The journal and the dump in a folder."""
    return {"journalFile": str(folder / "journal"), "fullDumpFile": str(folder / "dump")}
