"""NodeFacts: what a node cannot know of itself, and whoever runs it says: where it listens, and where its files are."""

from __future__ import annotations

from typing import Final, NamedTuple

#: Protocols, as RabbitMQ calls them.
AMQPS: Final = "amqp/ssl"
CLUSTERING: Final = "clustering"


class ListenerFacts(NamedTuple):
    """protocol: as RabbitMQ calls it: amqp, amqp/ssl, clustering."""

    protocol: str
    ip_address: str
    port: int
    tls: bool = False


class CertificateFacts(NamedTuple):
    """What a listener of TLS shows, and whom it trusts: the files, and when each certificate in them ends, milliseconds
    since the epoch."""

    listener: ListenerFacts
    certfile: str
    cacertfile: str
    certfile_ends_at: tuple[int, ...]
    cacertfile_ends_at: tuple[int, ...]


class NodeFacts:
    """started_at: milliseconds since the epoch. process_id: 0 where nobody said. is_ending: it is about to end.
    is_drained: somebody wants it to let go of its work."""

    def __init__(self, started_at: int) -> None:
        self.started_at = started_at
        self.listeners: tuple[ListenerFacts, ...] = ()
        self._certificates: dict[str, tuple[CertificateFacts, ...]] = {}
        self.process_id = 0
        self.data_dir = ""
        self.config_files: tuple[str, ...] = ()
        self.is_ending = False
        self.is_drained = False

    @property
    def is_draining(self) -> bool:
        """Whether it parts from its clients."""
        return self.is_ending or self.is_drained

    def runs_as(self, process_id: int, data_dir: str) -> None:
        """A process of its own has these."""
        self.process_id = process_id
        self.data_dir = data_dir

    def listens(self, listeners: tuple[ListenerFacts, ...]) -> None:
        """Clients and other nodes are let in there from now on."""
        self.listeners = listeners

    @property
    def certificates(self) -> tuple[CertificateFacts, ...]:
        """Of all listeners of TLS."""
        return tuple(each for protocol in sorted(self._certificates) for each in self._certificates[protocol])

    def shows(self, protocol: str, certificates: tuple[CertificateFacts, ...]) -> None:
        """Its listeners of a protocol show these from now on."""
        self._certificates[protocol] = certificates

    def drain(self, is_drained: bool) -> None:
        """Somebody wants it to let go of its work, or no longer."""
        self.is_drained = is_drained

    def ends(self) -> None:
        """It is about to end, and parts from its clients."""
        self.is_ending = True
