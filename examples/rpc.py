"""Remote procedure calls over queues, with pika: a request names where the answer goes.

The client consumes from `amq.rabbitmq.reply-to`, which is no queue but a way straight back to this channel: nothing is
declared and nothing is left behind. Servers share the queue `rpc.square`; start as many as you like.

    python examples/rpc.py [URL]     # a broker has to run: make run
"""

import sys
import threading
import uuid

import pika

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@127.0.0.1/"
QUEUE = "rpc.square"


def serve(is_ready):
    """A server; in real life a program of its own."""
    connection = pika.BlockingConnection(pika.URLParameters(URL))  # pika's connections are for one thread each
    channel = connection.channel()
    channel.queue_declare(QUEUE)
    channel.basic_qos(prefetch_count=1)

    def answer(channel, method, properties, body):
        result = str(int(body) ** 2).encode()
        same = pika.BasicProperties(correlation_id=properties.correlation_id)
        channel.basic_publish("", properties.reply_to, result, same)
        channel.basic_ack(method.delivery_tag)  # behind the answer: if we die before, another server does it

    channel.basic_consume(QUEUE, answer)
    is_ready.set()
    channel.start_consuming()


class Client:
    def __init__(self):
        self.connection = pika.BlockingConnection(pika.URLParameters(URL))
        self.channel = self.connection.channel()
        self.answers = {}
        self.channel.basic_consume("amq.rabbitmq.reply-to", self.on_answer, auto_ack=True)

    def on_answer(self, channel, method, properties, body):
        self.answers[properties.correlation_id] = int(body)

    def square(self, number):
        request = uuid.uuid4().hex  # tells which answer is to which request
        properties = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id=request)
        self.channel.basic_publish("", QUEUE, str(number).encode(), properties)
        while request not in self.answers:
            self.connection.process_data_events(time_limit=None)
        return self.answers.pop(request)


is_ready = threading.Event()
threading.Thread(target=serve, args=(is_ready,), daemon=True).start()
is_ready.wait()
client = Client()
for number in (3, 12, 111_111_111):
    print(f"the square of {number} is {client.square(number)}")
client.connection.close()
