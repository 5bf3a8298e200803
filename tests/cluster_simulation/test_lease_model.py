"""LeaseModel has to complain: answers that a broken broker would give, and the right ones beside them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.cluster_simulation.client_model import Attempt, Channel, Sent
from tests.cluster_simulation.lease_blob import read_blob, write_blob
from tests.cluster_simulation.lease_model import LeaseModel
from tests.cluster_simulation.transmission import Answer, Transmission
from tests.simulation.state import Violation

QUEUE = "orders"
MESSAGES = 6


def blob_of(first: int, numbers: list[int], flags: int = 0, key: str = QUEUE) -> bytes:
    """A blob as lease.fetch answers it."""
    found = b""
    for place, number in enumerate(numbers):
        one = write_blob([("", key, b"\0\0", b"%d:" % number)])[5:]
        found += (first + place).to_bytes(8, "big") + bytes(8) + bytes([flags]) + one[17:]
    return b"\x01" + len(numbers).to_bytes(4, "big") + found


class Reader:
    """Asks, and is answered as a test says. Each answer comes before the next question is sent."""

    def __init__(self) -> None:
        self.now = 0
        messages = {number: self._published(number) for number in range(1, MESSAGES + 1)}
        self.model = LeaseModel(messages)

    def _published(self, number: int) -> Sent:
        message = Sent(number, b"%d:" % number, True, (QUEUE,), (QUEUE,))
        message.attempts.append(Attempt(message, Channel("publisher", "n1", 1), number, 0, False, "ack"))
        return message

    def send(self, verb: str, **fields: Any) -> Transmission:
        self.now += 1
        transmission = Transmission(verb, {"queue": QUEUE, "group": "g", **fields}, self.now)
        self.model.sent(transmission)
        return transmission

    def answer(self, transmission: Transmission, code: str = "ok", blob: bytes = b"", **said: Any) -> None:
        self.now += 1
        headers = {"x-end": said.pop("x_end")} if "x_end" in said else {}
        transmission.end(Answer(code, said, headers, blob), self.now)
        self.model.answered(transmission)

    def open(self, owner: str = "a", incarnation: str = "i", trimmed: int = 0, end: int = 0) -> None:
        self.answer(self.send("lease.open", owner=owner), incarnation=incarnation, trimmed=trimmed, next=end)

    def _own(self, owner: str, incarnation: str) -> dict[str, str]:
        return {"owner": owner, "incarnation": incarnation}

    def claim(
        self, after: int, most: int, end: int, owner: str = "a", incarnation: str = "i", code: str = "ok"
    ) -> None:
        limits = {"max_messages": most, "max_bytes": 1000}
        claim = self.send("lease.claim", **self._own(owner, incarnation), after=after, **limits)
        self.answer(claim, code, **({"end": end} if code == "ok" else {}))

    def ack(self, upto: int, owner: str = "a", incarnation: str = "i", code: str = "ok", trimmed: int = -1) -> None:
        ack = self.send("lease.ack", **self._own(owner, incarnation), upto=upto)
        self.answer(ack, code, **({"trimmed": upto if trimmed < 0 else trimmed} if code == "ok" else {}))

    def release(self, owner: str = "a", incarnation: str = "i") -> None:
        self.answer(self.send("lease.release", **self._own(owner, incarnation)), released=0)

    def fetch(self, first: int, numbers: list[int], last: int = 100, incarnation: str = "i", **blob: Any) -> None:
        fetch = self.send("lease.fetch", incarnation=incarnation, **{"from": first, "to": last})
        self.answer(fetch, blob=blob_of(first, numbers, **blob), x_end=first + len(numbers))

    def end(self, committed: list[int], taken: tuple[int, ...] = ()) -> None:
        self.model.at_the_end(Counter(committed), lambda message, queue: message.number in taken, {QUEUE})


@pytest.fixture
def reader() -> Reader:
    found = Reader()
    found.open()
    found.claim(0, 3, 3)
    return found


def refuses(what: str) -> Any:
    return pytest.raises(Violation, match=what)


def test_a_batch_is_read_as_often_as_one_likes_and_acknowledged(reader: Reader) -> None:
    reader.fetch(0, [1, 2, 3])
    reader.fetch(1, [2, 3])
    reader.claim(0, 3, 3)
    reader.ack(3)
    reader.claim(3, 3, 6)
    reader.fetch(3, [4, 5, 6])
    reader.ack(6)
    reader.end([1, 2, 3, 4, 5, 6])
    assert reader.model.counts["read again"] == 2
    assert reader.model.counts["claimed again"] == 1


def test_another_message_at_an_offset(reader: Reader) -> None:
    reader.fetch(0, [1, 2, 3])
    with refuses("offset 1 was"):
        reader.fetch(1, [3, 2])


def test_a_message_with_other_octets_than_before(reader: Reader) -> None:
    reader.fetch(0, [1])
    with refuses("offset 0 was"):
        reader.fetch(0, [1], flags=1)


def test_a_message_at_two_offsets(reader: Reader) -> None:
    reader.fetch(0, [1, 2])
    with refuses("is at 1 of .*, and at 2"):
        reader.fetch(2, [2])


@pytest.mark.parametrize(("number", "key"), [(77, QUEUE), (1, "elsewhere")])
def test_a_message_that_was_not_published_there(reader: Reader, number: int, key: str) -> None:
    with refuses("was never published there|has another address"):
        reader.fetch(0, [number], key=key)


def test_a_fetch_that_leaves_one_out(reader: Reader) -> None:
    fetch = reader.send("lease.fetch", incarnation="i", **{"from": 0, "to": 3})
    with refuses("with offsets"):
        reader.answer(fetch, blob=blob_of(1, [2]), x_end=2)


def test_a_blob_that_ends_too_soon() -> None:
    with refuses("ends in the midst|octets"):
        read_blob(blob_of(0, [1, 2])[:-1])


@pytest.mark.parametrize("end", [2, 4])
def test_the_same_claim_with_another_end(reader: Reader, end: int) -> None:
    with refuses("ends at"):
        reader.claim(0, 3, end)


def test_a_claim_behind_what_was_done_with(reader: Reader) -> None:
    reader.ack(3)
    with refuses("was acknowledged"):
        reader.claim(1, 3, 3)
    with refuses("was acknowledged"):
        reader.fetch(2, [3])


def test_an_acknowledgement_that_has_done_less_or_more(reader: Reader) -> None:
    with refuses("is trimmed to 1"):
        reader.ack(2, trimmed=1)
    with refuses("is trimmed to 3"):
        reader.ack(2, trimmed=3)


def test_a_group_that_has_forgotten_a_claim(reader: Reader) -> None:
    with refuses("more than that was claimed"):
        reader.open("b", end=2)


def test_a_group_that_has_forgotten_an_acknowledgement(reader: Reader) -> None:
    reader.ack(2)
    with refuses("is trimmed to 0"):
        reader.open("b", trimmed=0, end=3)


def test_a_group_that_was_made_anew(reader: Reader) -> None:
    with refuses("made anew"):
        reader.open("b", "j")


def test_after_a_release_what_was_held_comes_in_another_group(reader: Reader) -> None:
    reader.fetch(0, [1, 2, 3])
    reader.ack(1)
    reader.release()
    with refuses("is there again"):
        reader.open("a", "i", 1, 3)
    reader.open("a", "j")
    reader.claim(0, 2, 2, incarnation="j")
    reader.fetch(0, [2, 3], incarnation="j", flags=1)
    with refuses("was acknowledged at 0"):
        reader.fetch(2, [1], incarnation="j", flags=1)


def test_what_was_released_is_marked(reader: Reader) -> None:
    reader.fetch(0, [1])
    reader.release()
    reader.open("a", "j")
    with refuses("not marked as redelivered"):
        reader.fetch(0, [1], incarnation="j")


def test_an_owner_who_was_fenced_and_goes_on(reader: Reader) -> None:
    reader.open("b", end=3)
    reader.ack(1, "a", code="fenced")
    reader.ack(1, "b")
    with refuses("b had opened the group before"):
        reader.ack(2, "a")
    with refuses("b had opened the group before"):
        reader.claim(3, 1, 4, "a")


def test_who_opens_once_more_owns_it_again(reader: Reader) -> None:
    reader.open("b", end=3)
    reader.open("a", end=3)
    reader.ack(2, "a")


def test_an_opening_that_was_lost_may_take_effect_at_any_time(reader: Reader) -> None:
    reader.send("lease.open", owner="b")
    reader.ack(1, "a")
    reader.ack(2, "a", code="fenced")


def test_fenced_by_nobody(reader: Reader) -> None:
    with refuses("nobody else has opened"):
        reader.ack(1, code="fenced")


def test_gone_without_a_cause(reader: Reader) -> None:
    fetch = reader.send("lease.fetch", incarnation="i", **{"from": 1, "to": 3})
    with refuses("has lost"):
        reader.answer(fetch, "gone")
    reader.send("lease.ack", owner="a", incarnation="i", upto=2)
    reader.answer(fetch, "gone")
    with refuses("has lost"):
        reader.ack(3, code="gone")


def test_a_code_that_is_never_right(reader: Reader) -> None:
    with refuses("not-found"):
        reader.answer(reader.send("lease.open", owner="b"), "not-found")


def test_the_end(reader: Reader) -> None:
    everything = list(range(1, MESSAGES + 1))
    reader.end(everything)
    reader.end(everything[1:], taken=(1,))
    with refuses("in 2 committed epochs"):
        reader.end([*everything, 3])
    with refuses("in no committed epoch"):
        reader.end(everything[1:])
    with refuses("a consumer has settled it as well"):
        reader.end(everything, taken=(2,))
