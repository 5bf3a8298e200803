"""The aliveness test: declares a queue in a virtual host, publishes to it, and gets the message, as who asks."""

from __future__ import annotations

from amqp_broker.protocol import methods as m
from amqp_broker.web.answer import Answer
from amqp_broker.web.asked import Asked
from amqp_broker.web.endpoint import Endpoint
from amqp_broker.web.endpoints.lists import require_vhost
from amqp_broker.web.errors import unhealthy

QUEUE = "aliveness-test"


def test_vhost(asked: Asked) -> Answer:
    vhost = asked.name("vhost")
    require_vhost(asked, vhost)
    with asked.channel(vhost) as channel:
        channel.call(m.QueueDeclare(queue=QUEUE))
        channel.publish("", QUEUE, b"test_message")
        delivery = channel.get(QUEUE, no_ack=True)
    if delivery is None:
        raise unhealthy(f"the message that was published to queue '{QUEUE}' was not there")
    return Answer(value={"status": "ok"})


ENDPOINTS = (Endpoint("GET", "/aliveness-test/{vhost}", test_vhost, for_viewers=False),)
