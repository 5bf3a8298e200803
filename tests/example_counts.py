"""How many examples a property is tried with, and how many of a test's cases are run.

A property is tried with a quarter of its examples, other ones each time, and with all where EXAMPLES=all says so:
`make kill-test` does, and runs all properties.

Without the compiled modules the source is the same, and has been tried with all of them: there a part is enough to see
whether the two forms differ. The same holds for the cases of a test, where FEW_CASES=1 says so: `make test`
does, and takes still fewer examples; `make test-plain` runs them all. What is marked `once` is left out there: it
counts steps, which are the same in both forms, or has very many of something, or whole hosts or processes, of which one
form says as much as the other when the tests of their parts have run in both.

What runs once a seed does so for a part of them in every test, and for the others in `make kill-test`; and so does what
looks at every octet in turn, for one of a few.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

IS_PLAIN = os.environ.get("AMQP_BROKER_PLAIN") == "1"
IS_FEW = os.environ.get("FEW_CASES") == "1"
_PART_OF_EXAMPLES = 1 if os.environ.get("EXAMPLES") == "all" else 4
_PART, _LEAST, _LEAST_CASES = 10 if IS_FEW else 5, 10, 2
_PART_OF_SEEDS, _LEAST_SEEDS = 4, 5
#: Of so many octets that follow each other a test that looks at each looks at one.
ONE_OF = 4


def examples(count: int) -> int:
    """So many of `count`."""
    return max(count // (_PART if IS_PLAIN else _PART_OF_EXAMPLES), min(count, _LEAST))


def some(cases: Sequence[T]) -> list[T]:
    """Those of a test's cases that are run, from the first to the last: what is alike stands together."""
    if not IS_FEW:
        return list(cases)
    count = max(len(cases) // _PART, min(len(cases), _LEAST_CASES))
    return [cases[number * len(cases) // count] for number in range(count)]


def seeds(numbers: range) -> list[Any]:
    """The first of these, and the others for the tests that take long."""
    few = max(len(numbers) // _PART_OF_SEEDS, min(len(numbers), _LEAST_SEEDS))
    return [*numbers[:few], *(pytest.param(number, marks=pytest.mark.long) for number in numbers[few:])]


def each_octet() -> pytest.MarkDecorator:
    """The test gets `first`, and looks at every ONE_OFth octet from it on; the other firsts are for the tests that take
    long."""
    return pytest.mark.parametrize(
        "first", [0, *(pytest.param(each, marks=pytest.mark.long) for each in range(1, ONE_OF))]
    )
