"""The broker's command with a defect: `basic.qos` raises KeyError."""

from __future__ import annotations

import sys

from amqp_broker.channel.handlers import HANDLERS
from amqp_broker.cli.main import main
from amqp_broker.protocol import methods


def _break(channel: object, method: object) -> None:
    raise KeyError("a defect")


if __name__ == "__main__":
    HANDLERS[methods.BasicQos.index] = _break
    sys.exit(main())
