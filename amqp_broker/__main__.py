"""`python -m amqp_broker`: the same as the command amqp-broker."""

from __future__ import annotations

import sys

from amqp_broker.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
