"""One channel: content assembly, confirms, consumers, unacknowledged deliveries, transactions, and the handlers.

The handler of a method is named after it: `on_queue_declare` handles queue.declare.
"""
