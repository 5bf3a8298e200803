"""Quorum queues on one node: their groups, leases and dead letters."""
