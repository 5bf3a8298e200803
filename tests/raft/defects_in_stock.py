"""S1 to S13 on the stock class: each scenario returns what went wrong, in a few words, or an empty text."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from pysyncobj import pickle
from pysyncobj.config import FAIL_REASON
from pysyncobj.journal import FileJournal, ResizableFile

from tests.raft.stock import StockList, StockTime, journal_options

Patch = pytest.MonkeyPatch


def s1(time: StockTime, folder: Path, patch: Patch) -> str:
    """The second append was sent before the first was acknowledged, and arrives after the third."""
    node = StockList("n2", ["n1", "n3"])
    node.follow("n1", 1, 2, 1)
    node.follow("n1", 1, 3, 4)
    acknowledged = node.last_index
    node.follow("n1", 1, 3, 1)
    return f"{acknowledged} acknowledged, {node.last_index} left" if node.last_index < acknowledged else ""


def s2(time: StockTime, folder: Path, patch: Patch) -> str:
    """A deposed leader with entries that nobody else has hears from a leader that is going to send a snapshot."""
    node = StockList("n2", ["n1", "n3"])
    node.win(time, ["n1"])
    results: list[int] = []
    node.append("divergent", callback=lambda result, error: results.append(error))
    node.doTick()
    node.outlet.feed("n3", {"type": "append_entries", "term": 9, "commit_index": 50, "serialized": None})
    node.doTick()
    return "told SUCCESS for an entry that only this member has" if results == [FAIL_REASON.SUCCESS] else ""


def s3(time: StockTime, folder: Path, patch: Patch) -> str:
    """Killed when the dump is written and the journal not yet shortened."""
    options: dict[str, Any] = journal_options(folder)
    node = StockList("n1", [], **options)
    for _ in range(3):
        time.pass_seconds(2)
        node.doTick()
    for number in range(5):
        node.append(number)
    for _ in range(3):
        node.doTick()
    acknowledged: list[int] = []
    copy = folder / "copy"

    def on_result(result: Any, error: int) -> None:
        acknowledged.append(error)
        if len(acknowledged) == 20:
            copy.mkdir()
            for name in os.listdir(folder):
                if name != "copy":
                    shutil.copy(folder / name, copy / name)

    for number in range(20):
        node.append(100 + number, callback=on_result)
    node.forceLogCompaction()
    node.doTick()
    node.doTick()
    assert acknowledged == [FAIL_REASON.SUCCESS] * 20
    again = StockList("n1", [], **journal_options(copy))
    for _ in range(4):
        time.pass_seconds(2)
        again.doTick()
    lost = 25 - len(again.items)
    return f"{lost} acknowledged entries lost" if lost else ""


def s4(time: StockTime, folder: Path, patch: Patch) -> str:
    """Count what could bring anything to the disk."""
    syncs: list[str] = []
    for name in ("fsync", "fdatasync"):
        patch.setattr(os, name, lambda file, name=name: syncs.append(name))
    patch.setattr(ResizableFile, "flush", lambda self: syncs.append("msync"))
    node = StockList("n1", [], journalFile=str(folder / "journal"))
    for number in range(20):
        node.append(number)
    for _ in range(4):
        time.pass_seconds(2)
        node.doTick()
    return f"{len(node.items)} entries committed, no sync" if len(node.items) == 20 and not syncs else ""


def s5(time: StockTime, folder: Path, patch: Patch) -> str:
    """The file with term and vote is damaged."""
    journal = FileJournal(str(folder / "journal"))
    journal.setCurrentTerm(7, "n1")
    (folder / "journal.meta").write_bytes(b"\0" * 30)
    again = FileJournal(str(folder / "journal"))
    is_silent = again.getCurrentTerm() == 0 and again.getVotedForNodeId() is None
    return "term 7 and its vote became term 0, silently" if is_silent else ""


def s6(time: StockTime, folder: Path, patch: Patch) -> str:
    """The commit index was stored, and the end of the journal was not."""
    journal = FileJournal(str(folder / "journal"))
    journal.add(b"\1", 1, 0)
    journal.setRaftCommitIndex(50)
    journal.setCurrentTerm(1, None)
    node = StockList("n1", ["n2", "n3"], journalFile=str(folder / "journal"))
    node.win(time, ["n2"])
    results: list[int] = []
    node.append("alone", callback=lambda result, error: results.append(error))
    node.doTick()
    node.doTick()
    return "told SUCCESS, and no follower has it" if results == [FAIL_REASON.SUCCESS] else ""


def s7(time: StockTime, folder: Path, patch: Patch) -> str:
    """A follower's reply to the leader of an earlier term arrives late. Nothing in it says of which term it is."""
    node = StockList("n1", ["n2", "n3"])
    node.follow("n2", 1, 2, 5)
    late = {"type": "next_node_idx", "next_node_idx": 9, "reset": False, "success": True}
    node.win(time, ["n2"])
    node.append("new")
    node.doTick()
    node.outlet.feed("n3", late)
    node.doTick()
    commit_index = node.raftCommitIndex
    return f"committed up to {commit_index} by a reply of another term" if commit_index >= node.last_index else ""


def s8(time: StockTime, folder: Path, patch: Patch) -> str:
    """One of four peers answers twice."""
    node = StockList("n1", ["n2", "n3", "n4", "n5"])
    time.pass_seconds(2)
    node.doTick()
    for voter in ("n2", "n2"):
        node.outlet.feed(voter, {"type": "response_vote", "term": node._getTerm()})
    return "two of five votes, and one of them twice, made a leader" if node._isLeader() else ""


def s9(time: StockTime, folder: Path, patch: Patch) -> str:
    """Four changes before one is committed."""
    node = StockList("n1", ["n2", "n3"])
    node.win(time, ["n2"])
    node.acknowledge("n2")
    node.doTick()
    for name in ("n4", "n5", "n6", "n7"):
        node.addNodeToCluster(name)
    node.doTick()
    added = len(node.otherNodes) - 2
    return f"{added} members added, none of them committed" if added > 1 else ""


def s10(time: StockTime, folder: Path, patch: Patch) -> str:
    """Killed after the journal was cleared, before the rest was written again; and a flipped bit."""
    path = str(folder / "journal")
    journal = FileJournal(path)
    for index in range(1, 11):
        journal.add(b"\0entry %d" % index, index, 1)
    octets = bytearray(Path(path).read_bytes())
    octets[octets.index(b"entry 7")] ^= 1
    Path(folder / "flipped").write_bytes(octets)
    is_unnoticed = len(FileJournal(str(folder / "flipped"))) == 10

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    patch.setattr(FileJournal, "add", killed)
    with pytest.raises(KeyboardInterrupt):
        journal.deleteEntriesTo(5)
    left = len(FileJournal(path))
    return f"{left} of 5 needed entries left, a flipped bit goes unnoticed" if left < 5 and is_unnoticed else ""


def s11(time: StockTime, folder: Path, patch: Patch) -> str:
    """The state that the leader sends cannot be read."""
    node = StockList("n2", ["n1", "n3"])
    node.outlet.feed("n1", {
        "type": "append_entries", "term": 1, "commit_index": 1, "serialized": (b"no dump", True, True)
    })  # fmt: skip
    return "acknowledged a state that it could not load" if node.outlet.sent[-1][1].get("success") else ""


def s12(time: StockTime, folder: Path, patch: Patch) -> str:
    """The replicated method fails after it has done half of its work."""
    node = StockList("n1", [])
    node.append("once")
    node.fails = True
    for _ in range(5):
        time.pass_seconds(2)
        try:
            node.doTick()
        except ValueError:
            continue
    return f"applied {len(node.items)} times" if len(node.items) > 1 else ""


def s13(time: StockTime, folder: Path, patch: Patch) -> str:
    """Two chunks and a bit."""
    leader = StockList("n1", ["n2", "n3"])
    leader.win(time, ["n2"])
    leader.acknowledge("n2")
    leader._applyCommand(b"x" * (2 * 2**16 - 20), None, 0)
    leader.doTick()
    time.pass_seconds(1)
    leader.outlet.sent.clear()
    leader.doTick()
    follower = StockList("n2", ["n1", "n3"])
    chunks = [message for name, message in leader.outlet.sent if name == "n2" and "transmission" in message]
    try:
        for message in chunks:
            follower.outlet.feed("n1", message)
    except (EOFError, pickle.pickle.UnpicklingError) as error:
        return f"the follower raises {type(error).__name__}"
    return ""
