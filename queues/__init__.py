"""Queues: pure state machines that order, page, expire, limit and dispatch messages. They know no sockets and no clock."""
