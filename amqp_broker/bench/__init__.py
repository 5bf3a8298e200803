"""The load generator: `amqp-broker bench`, in the manner of RabbitMQ's PerfTest, against any AMQP 0-9-1
broker.

`scenario` says what to do, `load` does it and returns a `result`, `cli` is the command. It knows the wire
format and nothing of our broker's inside.
"""
