"""A program whose types mypy finds: ours, and those of a stranger's packages."""

from __future__ import annotations

import amqp_broker
import queues
from amqp_broker.client import Connection


def url_and_owner() -> tuple[str, str]:
    with amqp_broker.running() as broker, Connection.open(broker.url) as connection:
        connection.channel()
        wrong: int = broker.url
        return broker.url, queues.OWNER + str(wrong)
