"""Queues: the contract, and a package for each type."""
