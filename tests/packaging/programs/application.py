"""An application that has packages with the names of ours, and runs a broker: whoever is imported first.

Started with the word `broker first`, or another.
"""

from __future__ import annotations

import importlib
import sys

PACKAGES = {"exchanges": "registry", "octets": "buffer", "queues": "classic", "raft": "host", "storage": "journal"}


def import_own() -> None:
    """Our own packages: the application's."""
    for package, module in PACKAGES.items():
        for name in (package, f"{package}.{module}"):
            owner = importlib.import_module(name).OWNER
            assert owner == f"stranger's {package}", f"{name} is {owner}"


def use_broker() -> None:
    """Classic and quorum queues, and what is confirmed outlives a crash."""
    import pika

    import amqp_broker
    from amqp_broker.client import Connection

    with amqp_broker.running() as broker:
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            for queue, kind in (("c", "classic"), ("q", "quorum")):
                channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind})
                channel.basic_publish("", queue, b"hello", pika.BasicProperties(delivery_mode=2))
        broker.restart(kill=True)
        with Connection.open(broker.url) as own, own.channel() as channel:
            for queue in ("c", "q"):
                delivery = channel.get(queue)
                assert delivery is not None, queue
                assert delivery.body == b"hello"
        words = "plain modules" if "plain" in sys.argv else "compiled modules"
        assert words in broker.logs, broker.logs


def main() -> None:
    if "last" in sys.argv:
        import_own()
    use_broker()
    import_own()
    ours = [name for name in ("amqp_broker.node", "queues.message", "raft.member") if name in sys.modules]
    assert not ours, f"{ours} were loaded into the application"


if __name__ == "__main__":
    main()
