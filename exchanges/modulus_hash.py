"""x-modulus-hash exchange: a message goes to one destination, its key's hash modulo their number.

Binding keys mean nothing. When a destination comes or goes, most keys move: x-consistent-hash is the one that
avoids it. The hash is CRC-32, the same in every process.
"""

from __future__ import annotations

from collections.abc import Mapping

from amqp_broker.octets.checksum import crc32
from exchanges.bindings import Binding, Destination, Identity
from exchanges.exchange import Exchange, MessageFacts


class ModulusHashExchange(Exchange):
    type_name = "x-modulus-hash"

    def __init__(self, arguments: Mapping[str, object]) -> None:
        super().__init__(arguments)
        self.reads_every_key = False
        self._slots: list[Destination] | None = []

    def matches(self, routing_key: str, facts: MessageFacts | None) -> list[Destination]:
        if self._slots is None:
            # Sorted, so that the order in which the bindings came (it differs after a restart) moves no key.
            self._slots = sorted(self._held)
        if not self._slots:
            return []
        return [self._slots[crc32(routing_key.encode("utf-8", "surrogateescape")) % len(self._slots)]]

    def _link(self, binding: Binding, key: Identity) -> None:
        self._slots = None

    def _unlink(self, binding: Binding, key: Identity) -> None:
        self._slots = None

    def _unlink_all(self, destination: Destination, held: dict[Identity, Binding]) -> None:
        self._slots = None
