"""Three nodes, one is killed: what is confirmed is still there, and publishing goes on, with pika.

It starts a cluster of its own and kills the node that the publisher is connected to. For your own: `make cluster`, and
give your client the URLs of all nodes.

    python examples/failover.py [MESSAGES]
"""

import sys
import time

import pika
import pika.exceptions

import amqp_broker

MESSAGES = int(sys.argv[1]) if len(sys.argv) > 1 else 600
#: What a publisher meets when its node goes, or when a message finds no majority for a moment.
LOST = (pika.exceptions.AMQPError, pika.exceptions.NackError, pika.exceptions.UnroutableError)


def connected(urls):
    """A channel to the first node that answers."""
    while True:
        for url in urls:
            try:
                connection = pika.BlockingConnection(pika.URLParameters(f"{url}?connection_attempts=1"))
                channel = connection.channel()
                channel.confirm_delivery()  # `basic_publish` returns when a majority has the message on its disks
                # A quorum queue is kept by all nodes; a classic one lives on one of them and would go with it.
                channel.queue_declare("orders", durable=True, arguments={"x-queue-type": "quorum"})
            except LOST:
                continue
            print(f"connected to {url.rpartition('@')[2]}", flush=True)
            return channel


def publish(channel, number):
    persistent = pika.BasicProperties(delivery_mode=2)
    channel.basic_publish("", "orders", str(number).encode(), persistent, mandatory=True)


print("starting three nodes", flush=True)
with amqp_broker.running_cluster(3) as cluster:
    channel = connected(cluster.urls)
    longest = 0.0
    for number in range(MESSAGES):
        if number == MESSAGES // 2:
            print(f"{number} messages are confirmed; killing the node that we are connected to", flush=True)
            cluster.nodes[0].kill()
        began = time.monotonic()
        while True:
            try:
                publish(channel, number)
                break
            except LOST as error:
                # Not confirmed: it may be stored or not, so it is published again. Consumers may see it twice.
                print(f"message {number}: {type(error).__name__}; connecting to another node", flush=True)
                channel = connected(cluster.urls)
        longest = max(longest, time.monotonic() - began)
    print(f"all {MESSAGES} are confirmed; the longest took {longest:.1f} s")

    print("starting the node again, and reading everything from it", flush=True)
    cluster.nodes[0].start()
    channel = connected(cluster.urls[:1])
    seen = set()
    while len(seen) < MESSAGES:
        method, _, body = channel.basic_get("orders")
        if method is None:
            break
        seen.add(int(body))
        channel.basic_ack(method.delivery_tag)
    print(f"{len(seen)} of {MESSAGES} messages are there, {MESSAGES - len(seen)} are lost")
    channel.connection.close()
