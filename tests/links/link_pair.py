"""Two PeerProtocols with nothing between them but a function call."""

from __future__ import annotations

from amqp_broker.links.peer_frames import PeerFrames
from amqp_broker.links.peer_handshake import LinkIdentity, PeerLinkError, TlsFacts
from amqp_broker.links.peer_protocol import LinkOpened, PeerProtocol, PeerProved

MEMBERS = ("n1", "n2", "n3")
SECRET = b"a secret that nobody could ever guess"
OTHER_SECRET = b"a secret that somebody else has made"
MAX_FRAME_BYTES = 100_000
#: The number that the senior gives to its links here.
EPOCH = 7


def identity(
    name: str, *, secret: bytes = SECRET, cluster: str = "test", is_inside: bool = False
) -> LinkIdentity:
    return LinkIdentity(name, cluster, secret, MAX_FRAME_BYTES, is_inside)


def nonce(number: int) -> bytes:
    return number.to_bytes(32)


def dialler(
    name: str = "n1",
    target: str = "n2",
    *,
    secret: bytes = SECRET,
    cluster: str = "test",
    number: int = 1,
    tls: TlsFacts | None = None,
) -> PeerProtocol:
    return PeerProtocol(identity(name, secret=secret, cluster=cluster), MEMBERS, nonce(number), dialled=target, tls=tls)


def acceptor(
    name: str = "n2", *, secret: bytes = SECRET, cluster: str = "test", number: int = 2, tls: TlsFacts | None = None
) -> PeerProtocol:
    return PeerProtocol(identity(name, secret=secret, cluster=cluster), MEMBERS, nonce(number), tls=tls)


def admit(protocol: PeerProtocol) -> LinkOpened | None:
    return protocol.admit(EPOCH if protocol.is_senior else 0)


def take(protocol: PeerProtocol, data: bytes) -> list[PeerProved | LinkOpened]:
    """Feed octets of the handshake; a peer that is proved is admitted."""
    events: list[PeerProved | LinkOpened] = []
    event = protocol.receive_handshake(data)
    if event is not None:
        events.append(event)
    if isinstance(event, PeerProved) and (opened := admit(protocol)) is not None:
        events.append(opened)
    return events


def shake(first: PeerProtocol, second: PeerProtocol) -> list[bytes]:
    """Run the handshake; returns what was said, message by message, the dialler's first."""
    said = []
    speaker, listener = first, second
    while message := speaker.take_output():
        said.append(message)
        take(listener, message)
        speaker, listener = listener, speaker
    return said


def opened(name: str = "n1", target: str = "n2", tls: bool = False) -> tuple[PeerProtocol, PeerProtocol]:
    """An open link: who dialled, who accepted."""
    first = dialler(name, target, tls=TlsFacts((target,), b"channel") if tls else None)
    second = acceptor(target, tls=TlsFacts((name,), b"channel") if tls else None)
    shake(first, second)
    assert first.is_open
    assert second.is_open
    return first, second


def frames_of(protocol: PeerProtocol) -> PeerFrames:
    """What an open link says and hears."""
    assert protocol.frames is not None
    return protocol.frames


def refusal(protocol: PeerProtocol, data: bytes) -> str:
    """The reason for which octets are refused. Asserts that nothing is said and nothing more is taken."""
    try:
        events = take(protocol, data) if not protocol.is_open else frames_of(protocol).receive(data)
    except PeerLinkError as error:
        assert protocol.take_output() == b""
        assert not protocol.is_open
        said = [protocol.receive_handshake]
        if protocol.frames is not None:
            said.append(protocol.frames.receive)  # type: ignore[arg-type]
        for receive in said:
            try:
                receive(data)
            except PeerLinkError:
                continue
            raise AssertionError("a link that has failed takes octets") from error
        return str(error)
    raise AssertionError(f"not refused: {events}")
