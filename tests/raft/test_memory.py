"""Memory: its records there and back, from every end of the journal; and what it notices of a folder's past."""

from __future__ import annotations

import random
from typing import Any

import pytest

from amqp_broker.octets.buffer import Buffer
from raft.journal_records import RAFT_GIVEN_UP, RAFT_LIVES, RAFT_WITNESS
from raft.memory import MAX_LIVES, Memory, Point

RECORD_BYTES = 100


class Port:
    """A journal: the records, and who is told to leave a segment. Each is as long as the others."""

    def __init__(self) -> None:
        self.records: list[tuple[int, bytes]] = []
        self.touched: list[tuple[int, Any]] = []
        self.current_segment = 1
        self.position = 0
        self._open: tuple[int, Buffer] | None = None

    def open_entry(self, kind: int) -> Buffer:
        self._open = (kind, Buffer())
        return self._open[1]

    def close_entry(self) -> int:
        assert self._open is not None
        kind, buffer = self._open
        self.records.append((kind, buffer.take()))
        self.position += RECORD_BYTES
        return self.position

    def touch(self, segment: int, owner: Any) -> None:
        self.touched.append((segment, owner))

    def carry(self, octets: int) -> None:
        """There are no checkpoints."""


def recover(records: list[tuple[int, bytes]]) -> Memory:
    memory = Memory()
    for kind, payload in records:
        memory.take(kind, payload)
    return memory


def live(port: Port, seed: int = 1, identity: bytes = b"") -> Memory:
    """A start on what the journal holds."""
    memory = recover(port.records)
    memory.open(port, random.Random(seed).randbytes, identity)
    return memory


def test_each_life_has_a_number_and_finds_the_earlier_ones() -> None:
    port = Port()
    first = live(port, 1)
    point = first.point(50)
    second = live(port, 2)
    assert (first.life, second.life) == (1, 2)
    assert second.identity == first.identity
    assert second.missing(point) == ""
    assert second.missing(second.point(10_000)) == ""
    assert "had started 2 times, and this folder 1 times" in first.missing(second.point(0))


def test_a_copy_from_the_midst_of_a_life_is_noticed_by_what_it_lacks() -> None:
    port = Port()
    first = live(port, 1)
    copied = Port()
    copied.records, copied.position = list(port.records), port.position
    port.position += 5000
    seen = first.point(port.position)
    assert live(port, 2).missing(seen) == ""
    assert "octets of its journal" in live(copied, 3).missing(seen)


def test_a_life_beside_the_one_that_was_seen_is_noticed() -> None:
    port = Port()
    live(port, 1)
    copied = Port()
    copied.records, copied.position = list(port.records), port.position
    seen = live(port, 2).point(0)
    other = live(copied, 3)
    assert "its start number 2 was another one" in other.missing(seen)
    assert "its start number 2 was another one" in live(copied, 4).missing(seen), "however long it has lived on"


def test_an_emptied_folder_is_another_one() -> None:
    assert "was emptied, or is another one" in live(Port(), 2).missing(live(Port(), 1).point(0))


def test_an_emptied_folder_that_was_made_with_an_identity_lacks_its_lives() -> None:
    identity = bytes(range(16))
    assert live(Port(), 2, identity).missing(live(Port(), 1, identity).point(0))


def test_so_many_lives_are_kept_and_earlier_ones_count_for_nothing() -> None:
    port = Port()
    first = live(port, 0).point(0)
    for seed in range(1, MAX_LIVES + 5):
        memory = live(port, seed)
        del port.records[:-1]
    assert memory.life == MAX_LIVES + 5
    assert memory.missing(first) == ""
    assert memory.missing(memory.point(0)) == ""


def test_what_is_known_of_others_is_there_again_at_whichever_record_the_journal_ends() -> None:
    port = Port()
    memory = live(port)
    points = [Point(bytes([number]) * 16, number, 7, 100 * number) for number in range(1, 4)]
    history: list[dict[str, Point]] = [{}]
    for name, point in zip(("n2", "n3", "n2"), points, strict=True):
        memory.saw(name, point, as_of=5)
        history.append({**history[-1], name: point})
    memory.forget("n3")
    history.append({"n2": points[2]})
    for count, expected in enumerate(history, 1):
        found = recover(port.records[:count]).witnesses
        assert {name: witness.point for name, witness in found.items()} == expected


def test_the_same_point_is_not_written_twice() -> None:
    port = Port()
    memory = live(port)
    point = Point(bytes(16), 1, 2, 3)
    memory.saw("n2", point, as_of=5)
    count = len(port.records)
    memory.saw("n2", point, as_of=6)
    assert len(port.records) == count
    assert memory.witnesses["n2"].as_of == 6


def test_all_of_it_leaves_a_segment() -> None:
    port = Port()
    memory = live(port)
    memory.saw("n2", Point(bytes([1]) * 16, 1, 2, 3), as_of=5)
    memory.give_up("for a reason")
    port.current_segment = 2
    count = len(port.records)
    memory.leave_segment(1)
    again = recover(port.records[count:])
    assert (again.identity, again.witnesses, again.reason) == (memory.identity, memory.witnesses, "for a reason")
    assert port.touched[-1] == (2, memory)


@pytest.mark.parametrize(
    ("kind", "payload"),
    [(RAFT_LIVES, b""), (RAFT_LIVES, b"\x02"), (RAFT_LIVES, b"\x01abc"), (RAFT_LIVES, b"\x01" + bytes(27) + b"\x01"),
     (RAFT_WITNESS, b"\x01"), (RAFT_WITNESS, b"\x01" + bytes(48) + b"\x09n2"), (RAFT_GIVEN_UP, b"\x01\xff")],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(kind: int, payload: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Memory().take(kind, payload)
