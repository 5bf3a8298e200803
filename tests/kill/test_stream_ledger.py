"""What a StreamLedger takes for a loss in a stream that is compacted."""

from __future__ import annotations

import pytest

from tests.kill.streams import COMPACTED, StreamLedger, is_tombstone

#: Of one key: messages, the first tombstone, a message behind it.
VALUES, TOMBSTONE, BEHIND = (1, 8, 15), 22, 29


def checked(confirmed: tuple[int, ...], there: tuple[int, ...], unconfirmed: tuple[int, ...] = ()) -> list[str]:
    """What is violated where these numbers were confirmed, or not, and those are there when it is read."""
    violated: list[str] = []
    ledger = StreamLedger(violated.append)
    ledger.to_repeat("p")
    for number in range(1, max((*confirmed, *unconfirmed), default=0) + 1):
        stream = COMPACTED if number in confirmed + unconfirmed else "kill.stream"
        assert ledger.publishing("p", stream) == number
        if number not in unconfirmed:
            ledger.confirm("p", number)
    for number in there:
        body = b"" if is_tombstone(number) else b"p:%d.x" % number
        ledger.read_of_key(number, {"x-producer-id": "p", "x-producer-sequence": number}, body)
    ledger.check_compacted(list(there), 100)
    return violated


def test_these_are_what_they_are_called() -> None:
    assert [number for number in (*VALUES, TOMBSTONE, BEHIND) if is_tombstone(number)] == [TOMBSTONE]


@pytest.mark.parametrize(
    ("confirmed", "there", "unconfirmed"),
    [
        (VALUES, (15,), ()),
        (VALUES, VALUES, ()),
        ((*VALUES, TOMBSTONE), (TOMBSTONE,), ()),
        ((*VALUES, TOMBSTONE), (), ()),
        (VALUES, (), (TOMBSTONE,)),
        ((*VALUES, TOMBSTONE, BEHIND), (BEHIND,), ()),
    ],
)
def test_what_may_be(confirmed: tuple[int, ...], there: tuple[int, ...], unconfirmed: tuple[int, ...]) -> None:
    assert checked(confirmed, there, unconfirmed) == []


@pytest.mark.parametrize(
    ("confirmed", "there"),
    [
        (VALUES, ()),
        (VALUES, (8,)),
        ((*VALUES, TOMBSTONE), (15,)),
        ((*VALUES, TOMBSTONE, BEHIND), ()),
        ((*VALUES, TOMBSTONE, BEHIND), (TOMBSTONE,)),
    ],
)
def test_what_is_a_loss(confirmed: tuple[int, ...], there: tuple[int, ...]) -> None:
    assert len(checked(confirmed, there)) == 1
