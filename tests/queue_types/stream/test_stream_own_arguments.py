"""What streams alone know other types of queues refuse: nobody gets something else than was asked for, unsaid."""

from __future__ import annotations

import pytest

from amqp_broker.queue_types.stream.arguments import OWN_ARGUMENTS
from queues.arguments import WrongArgument, parse_arguments
from queues.quorum.arguments import parse_quorum_arguments

#: Quorum queues have it too, and classic queues of RabbitMQ pass it over.
_SHARED = "x-queue-leader-locator"


@pytest.mark.parametrize("key", sorted({*OWN_ARGUMENTS} - {_SHARED}))
@pytest.mark.parametrize("parse", [parse_arguments, parse_quorum_arguments], ids=["classic", "quorum"])
def test_other_types_refuse_it(parse: object, key: str) -> None:
    assert callable(parse)
    with pytest.raises(WrongArgument):
        parse({key: 2})
