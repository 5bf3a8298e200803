"""Quorum queues: queues whose log is a Raft group's. docs/quorum-queues.md has the shape and the invariants."""
