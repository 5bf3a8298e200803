"""The names of a node's workers: n1 is its worker 0, which is the member of the cluster; n1/1, n1/2 are the others.

A node's own name cannot have the mark, so nobody else is called like a worker.
"""

from __future__ import annotations

from amqp_broker.settings.kinds import WORKER_MARK


def worker_name(node: str, number: int) -> str:
    """The name of one of a node's workers."""
    return f"{node}{WORKER_MARK}{number}" if number else node


def worker_number(name: str) -> int:
    """Which of its node's workers one is."""
    return int(name.partition(WORKER_MARK)[2] or 0)


def node_of_worker(name: str) -> str:
    """The node that a worker is of; a node's name is that of its worker 0."""
    return name.partition(WORKER_MARK)[0]


def are_beside(name: str, other: str) -> bool:
    """Whether two are different workers of one node."""
    return name != other and node_of_worker(name) == node_of_worker(other)
