"""Queues: pure state machines that order, page, expire, limit and dispatch messages, without sockets or a clock."""
