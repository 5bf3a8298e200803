"""TimedPlace: where a message stands among others that wait for a time each: it has this in place of its number.

    u42 the time, milliseconds since the epoch; u22 the last bits of its number: of those of one time, who came first

No class, as a place is the sequence of an Entry.
"""

from __future__ import annotations

#: Bits of a message's number that are in its place.
PLACE_BITS = 22
PLACE_MASK = (1 << PLACE_BITS) - 1


def place_at(when: int, number: int) -> int:
    """The place of a message of this number that waits until then."""
    return when << PLACE_BITS | number & PLACE_MASK


def time_of(place: int) -> int:
    """Until when it waits."""
    return place >> PLACE_BITS
