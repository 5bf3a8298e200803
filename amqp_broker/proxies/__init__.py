"""Queues whose log is not this node's own journal, as channels see them."""
