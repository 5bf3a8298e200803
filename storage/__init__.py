"""The only code that touches files: the disk port, the journal, queue pages, the metadata log.

It knows nothing of AMQP, queues or messages: callers give octets and get them back, checked.
"""
