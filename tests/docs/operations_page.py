"""Writes the tables of docs/operations.md that are made from code: `python -m tests.docs.operations_page`.

Which fields the statistics have, and which loggers there are, the code says. What they mean is written here; one that
lacks a meaning, and a meaning of what is no more, is an error. A table stands between two markers.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping

from amqp_broker.management.statistics import count_node, queue_statistics
from amqp_broker.turn.task import Task
from tests.docs.source_names import DOCS, PACKAGES, ROOT
from tests.node.node_driver import NodeDriver, declare

PAGE = DOCS / "operations.md"

STATISTICS = {
    "node": "the node that answers",
    "connections": "of clients of this node, open now",
    "publishers_blocked": "connections of this node whose publishing waits: for memory, for the disk or for a home",
    "channels": "of clients of this node, open now",
    "connection_moves": "connections that came from other workers of the node ([scale.md](scale.md#who-goes-where))",
    "vhosts": "that this node knows: all of the cluster",
    "queues": "that this node knows: all of the cluster",
    "consumers": "of the queues that this node counts: its classic queues, and quorum queues",
    "messages_ready": "of the same queues",
    "messages_unacked": "of the same queues",
    "messages_delayed": "held back by `x-delayed-message` exchanges, by those of the whole cluster where they are "
    "durable and the messages persistent",
    "memory_used": "what queues hold in RAM",
    "memory_quorum_queues": "the part of it that quorum queues hold, with their logs",
    "memory_assembling": "messages of which a part has come",
    "memory_budget": "the setting `memory_budget`, or what it has come to on this machine; of a worker what it has of "
    "that just now ([scale.md](scale.md#memory))",
    "memory_budget_of_node": "that of all workers of the node",
    "pages_stored": "pages of queues written to the disk since the start",
    "pages_loaded": "pages of queues read from the disk since the start",
    "journal_bytes": "the journal's length",
    "unsynced_bytes": "what waits for the disk",
    "unapplied_bytes": "commands to quorum queues that this node has proposed, and that are not applied yet",
    "unroutable": "messages that no queue got, since the start",
    "messages_leased": "held by lease groups of queues of this node, and of quorum queues ([leases.md](leases.md))",
    "lease_requests": "requests of `lease.` and `txn.` verbs since the start",
    "lease_claims_waiting": "claims that wait for messages",
    "txn_staged_messages": "staged here and not published, as far as they were staged since the start",
    "dead_letter_cycles_dropped": "dead letters dropped because they went in a circle",
    "delivery_limit_dropped": "messages dropped since the start because they came back more often than their queue's "
    "delivery limit allows, and the queue has no dead letter exchange",
    "is_blocked": "an alarm is on",
    "is_full": "nobody is accepted: clients have taken all descriptors that the files can spare (`ulimit -Hn`)",
    "timings": "where the setting `timings` is on: how many, median, 99th percentile and longest time, ms, of `turn` "
    "(until its outputs leave), `sync`, `append` (a frame of another node until it is on this disk), `commit` "
    "(a proposal of the leader until it is applied), `timer` (how late it is), `collector` (of cycles)",
}

QUEUE_LIST = {
    "name": "",
    "type": "`classic` or `quorum`",
    "durable": "",
    "messages_ready": "waiting for a consumer",
    "messages_unacked": "delivered, and not settled",
    "consumers": "",
    "leased": "messages that lease groups hold",
    "messages_delayed": "messages that came back and rest before they come again (delayed retry)",
    "message_bytes_ready": "octets of the ready messages",
    "dead_letters": "given up, and not in their new place yet",
    "lease_groups": "each with what it holds ([leases.md](leases.md))",
    "published": "since the queue was made, or the node has started",
    "delivered": "since then",
    "redelivered": "since then, of the delivered",
    "settled": "since then",
}

LOGGERS = {
    "amqp_broker": "the node: alarms, recovery, expired queues, dropped cycles, what leases and transactions gave up",
    "amqp_broker.audit": "the [audit log](management.md#audit-log): when the disk does not take its lines",
    "amqp_broker.cluster": "links to other members, who comes and goes, transfers of leaderships",
    "amqp_broker.connection": "who came (peer, user, virtual host, name) and why they ended, refused logins, "
    "channel errors, defects while serving a client",
    "amqp_broker.proxies": "queues of other nodes and quorum queues: sessions that end, nodes whose consumers go",
    "amqp_broker.web": "the [management process](management.md): when its node does not answer, and faults of its own",
    "uvicorn": "its HTTP server",
    "amqp_broker.server": "the disk, descriptors, listeners, what a start waits for, the end",
}


def statistics_fields() -> list[str]:
    """Of the verb `statistics`, as a node answers it."""
    driver = NodeDriver()
    task = Task(driver.node.background, count_node(driver.node.system.counts))
    driver.settle()
    return list(task.result)


def queue_fields() -> dict[str, list[str]]:
    """Of the verb `queue.list`, by the type of the queue."""
    driver = NodeDriver()
    client = driver.client(1)
    client.send(1, declare("classic"), declare("quorum", x_queue_type="quorum"))
    driver.settle()
    return {name: list(queue_statistics(driver.queue(name), 1)) for name in ("classic", "quorum")}


def loggers() -> list[str]:
    """Whose lines a broker's log may have."""
    found: set[str] = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            found |= set(re.findall(r'getLogger\("([^"]+)"\)', path.read_text(encoding="utf-8")))
    return sorted(found)


def meanings(found: Iterable[str], known: Mapping[str, str]) -> list[tuple[str, str]]:
    """Each with its meaning. Raises ValueError unless they are the same names."""
    names = list(dict.fromkeys(found))
    if set(names) != set(known):
        raise ValueError(f"tests/docs/operations_page.py: tell, or tell no more, of {sorted(set(names) ^ set(known))}")
    return [(name, known[name]) for name in names]


def statistics_table() -> list[str]:
    rows = meanings(statistics_fields(), STATISTICS)
    return ["| field of `statistics` | meaning |", "|---|---|", *(f"| `{name}` | {what} |" for name, what in rows)]


def queue_list_table() -> list[str]:
    fields = queue_fields()
    lines = ["| field of `queue.list` | of queues of type | meaning |", "|---|---|---|"]
    for name, what in meanings([*fields["classic"], *fields["quorum"]], QUEUE_LIST):
        lines.append(f"| `{name}` | {', '.join(kind for kind in fields if name in fields[kind])} | {what} |")
    return lines


def loggers_table() -> list[str]:
    return [
        "| logger | what |",
        "|---|---|",
        *(f"| `{name}` | {what} |" for name, what in meanings(loggers(), LOGGERS)),
    ]


TABLES: dict[str, Callable[[], list[str]]] = {
    "statistics": statistics_table,
    "queue.list": queue_list_table,
    "loggers": loggers_table,
}


def markers(name: str) -> tuple[str, str]:
    """What stands before and after a table."""
    return f"<!-- generated: {name} (make docs) -->\n", f"<!-- end of {name} -->\n"


def written(page: str) -> str:
    """The page with its tables as the code has them. Raises ValueError for a table without its markers."""
    for name, table in TABLES.items():
        begin, end = markers(name)
        if page.count(begin) != 1 or page.count(end) != 1:
            raise ValueError(f"{PAGE.name}: the table of {name} stands between {begin!r} and {end!r}")
        head, _, rest = page.partition(begin)
        page = head + begin + "\n" + "\n".join(table()) + "\n\n" + end + rest.partition(end)[2]
    return page


def main() -> None:
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"wrote {len(TABLES)} tables to {PAGE.name}\n")


if __name__ == "__main__":
    main()
