"""The only code that touches files: the disk port, the journal, queue pages.

It knows nothing of AMQP, queues or messages: callers give octets and get them back, checked.
"""
