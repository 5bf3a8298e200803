"""Leases and transactions: what connectors of batch systems ask of queues (docs/leases.md)."""
