"""One exchange, many listeners: a topic exchange sends each message to every queue whose pattern fits, with pika.

A routing key is words with dots between. In a pattern `*` stands for one word, `#` for any number of them.

    python examples/topic_routing.py [URL]     # a broker has to run: make run
"""

import sys

import pika

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@127.0.0.1/"
PATTERNS = {"everything": "#", "errors": "*.error", "the shop": "shop.#"}
MESSAGES = {
    "shop.error": "out of coffee",
    "shop.order.new": "one espresso",
    "kitchen.error": "too hot",
    "kitchen.info": "lunch is ready",
}

connection = pika.BlockingConnection(pika.URLParameters(URL))
channel = connection.channel()
channel.confirm_delivery()  # from here on, `basic_publish` returns when the broker answers for the message
channel.exchange_declare("news", "topic", durable=True)

queues = {}
for listener, pattern in PATTERNS.items():
    # A queue without a name gets one from the broker; an exclusive one goes with this connection.
    queues[listener] = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queues[listener], "news", routing_key=pattern)

for routing_key, text in MESSAGES.items():
    # mandatory: an error here, and not silence, if no queue wants it
    channel.basic_publish("news", routing_key, text.encode(), mandatory=True)

for listener, queue in queues.items():
    print(f"{listener} ({PATTERNS[listener]}):")
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            break
        print(f"    {method.routing_key}: {body.decode()}")

channel.exchange_delete("news")
connection.close()
