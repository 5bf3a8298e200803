"""The management process: RabbitMQ's HTTP API over the verbs of `amq.system`, Prometheus' text, and probes.

It is a program of its own, a client of the node, and may stop, hang or be killed without the broker noticing. What is
sorted, filtered, turned into rates, JSON or text is that here, never in the node.
"""
