"""Writes the table of docs/cluster-links.md that is made from code: `python -m tests.docs.cluster_links_page`.

Which kinds of frames there are, the code says; what they are is written here, and each has to have its line.
"""

from __future__ import annotations

import sys

from amqp_broker.links.frame_kinds import SINCE, FrameKind
from tests.docs.operations_page import markers
from tests.docs.source_names import DOCS

PAGE = DOCS / "cluster-links.md"

KINDS = {
    FrameKind.METADATA_COMMANDS: "commands for the metadata, to who leads their group, in JSON: `Batch` in "
    "`amqp_broker/metadata/machine.py`",
    FrameKind.METADATA_APPLIED: "u64: up to which index the sender has applied the metadata: a member with its "
    "workers; and to these, they and all linked members",
    FrameKind.QUEUE_BATCH: "u32 group, and commands for its quorum queues, to who leads it: "
    "`queues/quorum/commands.py`",
    FrameKind.HOME_COMMANDS: "what clients here do with classic queues there: "
    "`amqp_broker/queue_types/remote/effects_codec.py`",
    FrameKind.HOME_EFFECTS: "what became of it: confirms, deliveries, answers; in the same file",
    FrameKind.DIRECT_REPLY: "a message for a reply consumer there, or how much of them was taken: "
    "`amqp_broker/routing/reply_to.py`",
    FrameKind.TRANSFER_REQUEST: 'lead this group no more: `{"group": 3, "to": "n2"}`',
    FrameKind.RELEASE: "nothing more: the receiver is in no group, as far as the sender knows",
    FrameKind.LEASE_REQUEST: "a request of `lease.*` or `txn.*` that the receiver has to answer: "
    "`amqp_broker/leases/peer_requests.py`",
    FrameKind.LEASE_ANSWER: "the answer; in the same file",
    FrameKind.MEMBERS: "who is a member by the metadata, up to an index, and who is in any group, null while a "
    'configuration is not committed: `{"index": 17, "members": {"n1": "host:port"}, "grouped": ["n1"]}`',
    FrameKind.ACQUAINTANCE: "who the sender is, and what it has seen of the receiver, in JSON: "
    "`amqp_broker/links/acquaintances.py`",
    FrameKind.MANAGEMENT: "what a node asks another for who wants to see the whole cluster, and the answer: "
    "`amqp_broker/management/peer_questions.py`",
    FrameKind.GUEST_REQUEST: "what a node asks of a group of queues in which it is not: "
    "`amqp_broker/queue_types/groups/guest_frames.py`",
    FrameKind.GUEST_ANSWER: "what the member that leads says to it: what its commands have come to; in the same file",
    FrameKind.STREAM_REQUEST: (
        "chunks of a stream that the sender cannot read: `amqp_broker/queue_types/stream/page_frames.py`"
    ),
    FrameKind.STREAM_ANSWER: "a part of them, that these were all, or why there are none; in the same file",
    FrameKind.METADATA_FEED: "what a node's worker 0 has applied of the metadata, for its other workers: "
    "`amqp_broker/metadata/feed.py`",
    FrameKind.CONNECTION_MOVE: "what is known of a client's connection that another worker of the node is to go on "
    "with, and the answer: `amqp_broker/connection/steering.py`",
    FrameKind.STREAM_READ: "what readers here, who have no copy of a stream, want of it: "
    "`amqp_broker/queue_types/stream/read_frames.py`",
    FrameKind.STREAM_READ_ANSWER: "chunks, an offset, or who of a group reads; in the same file",
    FrameKind.QUEUE_MOVE: "what nodes say to each other while the home of a classic queue changes: "
    "`amqp_broker/rehoming/frames.py`",
}


def written(page: str) -> str:
    """The page with its table as the code has it."""
    begin, end = markers("frame kinds")
    since = {kind: f"; to nodes that speak level {level}" for kind, level in SINCE.items()}
    rows = [f"| {int(kind)} | `{kind.name}` | {KINDS[kind]}{since.get(kind, '')} |" for kind in FrameKind]
    head, _, rest = page.partition(begin)
    table = "\n".join(["| kind | name | what follows it |", "|--:|---|---|", *rows])
    return f"{head}{begin}\n{table}\n\n{end}{rest.partition(end)[2]}"


def main() -> None:
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"wrote the table of {PAGE.name}\n")


if __name__ == "__main__":
    main()
