"""The fixture `make_host`: a queue with some arguments, of each host of QueueRules in turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from queues.arguments import QueueArguments
from tests.queues.rules.hosts import BareHost, ClassicHost, Host, QuorumHost

MakeHost = Callable[..., Host]


@pytest.fixture(params=[ClassicHost, QuorumHost, BareHost], ids=["classic", "quorum", "bare"])
def make_host(request: pytest.FixtureRequest) -> MakeHost:
    def make(**arguments: Any) -> Host:
        host: Host = request.param(QueueArguments(**arguments))
        return host

    return make
