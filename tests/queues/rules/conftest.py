"""The fixture `make_host`: a queue with some arguments, of each host of QueueRules in turn.

A test of a rule that not every host has is marked with `of_rule`. With a host that lacks it the test has to come to
that rule, and to find that what is asked for is refused, or not heeded: the host raises Lacking, having seen to that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest

from queues.arguments import QueueArguments
from queues.rule import Rule
from tests.queues.rules.hosts import BareHost, ClassicHost, CursorHost, Host, Lacking, QuorumHost

HOSTS: tuple[type[Any], ...] = (ClassicHost, QuorumHost, CursorHost, BareHost)


class MakeHost:
    """Makes queues of one host. lacks: as Host."""

    def __init__(self, of: Any) -> None:
        self._of = of
        self.lacks = of.lacks

    def __call__(self, **arguments: Any) -> Host:
        host: Host = self._of(QueueArguments(**arguments))
        return host


@pytest.fixture(params=HOSTS, ids=["classic", "quorum", "cursor", "bare"])
def make_host(request: pytest.FixtureRequest) -> MakeHost:
    return MakeHost(request.param)


#: The rules that tests are about.
TESTED: set[Rule] = set()


def of_rule(rule: Rule) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Marks a test of a rule that hosts may lack."""
    TESTED.add(rule)

    def mark(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def run(make_host: MakeHost, **parameters: Any) -> None:
            if rule not in make_host.lacks:
                test(make_host, **parameters)
                return
            with pytest.raises(Lacking) as lacking:
                test(make_host, **parameters)
            assert lacking.value.rule is rule

        return run

    return mark
