"""Proxies: queues whose log is elsewhere (a quorum group, another node), as this node's channels see them."""
