"""The ids of queues: 1.. those that the metadata give, DELAY_IDS.. what delaying exchanges hold back, TRANSIENT_IDS..
those that only one node knows, and no restart.

No id is ever used twice, nor is what lies on a disk under one taken for another queue's.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_broker.metadata.metadata import Metadata

DELAY_IDS = 1 << 61
TRANSIENT_IDS = 1 << 62


def delay_id(vhost: str, exchange: str, number: int) -> int:
    """The id under which an exchange's delayed messages are stored: from its number, or (0) from its name: so it was
    for exchanges that were declared before they had numbers."""
    if number:
        return DELAY_IDS + number
    digest = hashlib.blake2b(f"{vhost}\0{exchange}".encode("utf-8", "surrogateescape"), digest_size=7).digest()
    return DELAY_IDS + int.from_bytes(digest, "big")


def is_numbered(queue_id: int, metadata: Metadata) -> bool:
    """Whether the metadata have given this id, or the number that it was made from."""
    number = queue_id - DELAY_IDS if queue_id >= DELAY_IDS else queue_id
    return 0 < number < metadata.next_queue_id


def is_known(queue_id: int, metadata: Metadata) -> bool:
    """Whether the metadata have a queue with this id, or an exchange that holds messages back under it."""
    if queue_id < DELAY_IDS:
        return metadata.queue_by_id(queue_id) is not None
    return any(
        exchange.number == queue_id - DELAY_IDS
        for vhost in metadata.vhosts()
        for exchange in metadata.exchanges(vhost.name)
    )
