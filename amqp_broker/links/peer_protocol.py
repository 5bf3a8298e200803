"""PeerProtocol: one link between two nodes without I/O: octets in, octets and what they mean out.

    AWAITS_CHALLENGE -- CHALLENGE --> PROVED -- admit --> AWAITS_READY -- READY --> OPEN        (who dials)
    AWAITS_HELLO -- HELLO --> AWAITS_PROOF -- PROOF --> PROVED -- admit --> OPEN                (who accepts)
    any -- PeerLinkError --> FAILED

Every message is `length u32 | ...` where the length counts what follows it. What follows the handshake are frames:
`frames`, which are there from OPEN on (peer_frames.py).

It knows no sockets, no clock and no chance: the nonce is an argument. Whether a link is wanted is its owner's to say,
in PROVED: `admit`, or close.

Of two nodes the one whose name comes first is the senior. It numbers the links of the pair (`epoch`), each higher than
those before; so both know which of two links is the newer.

Invariants:
1. Before the peer has shown that it has the secret nothing is said to it, beyond the HELLO of who dials.
2. After a PeerLinkError nothing goes out and nothing is taken.
3. Each direction has a key of its own for its frames, and no two links have a key in common.
4. What is kept of an unfinished message is bounded: MAX_HANDSHAKE_BYTES.
"""

from __future__ import annotations

import enum
import hmac
import struct
from collections.abc import Container
from dataclasses import dataclass

from amqp_broker.links.peer_frames import PeerFrames
from amqp_broker.links.peer_handshake import (
    MAX_HANDSHAKE_BYTES,
    NONCE_BYTES,
    PROOF,
    READY,
    Agreement,
    Hello,
    LinkIdentity,
    PeerLinkError,
    TlsFacts,
    agree,
    cluster_key,
    decode_challenge,
    decode_epoch_and_proof,
    decode_hello,
    encode_challenge,
    encode_epoch_and_proof,
    encode_hello,
    is_hello_proved,
)
from amqp_broker.settings.workers import node_of_worker

MAX_EPOCH = (1 << 64) - 1

_LENGTH = struct.Struct(">I")


class LinkState(enum.Enum):
    """See the module's docstring."""

    AWAITS_HELLO = enum.auto()
    AWAITS_CHALLENGE = enum.auto()
    AWAITS_PROOF = enum.auto()
    AWAITS_READY = enum.auto()
    PROVED = enum.auto()
    OPEN = enum.auto()
    FAILED = enum.auto()


@dataclass(frozen=True, slots=True)
class PeerProved:
    """The peer is who it says. Answer with `admit`, or close. `epoch` is 0 unless the peer has numbered the link."""

    name: str
    epoch: int


@dataclass(frozen=True, slots=True)
class LinkOpened:
    """Frames may be sent and taken."""

    name: str
    epoch: int


class PeerProtocol:
    """One end of one link. `dialled` is the name of the node that was dialled, None where a link was accepted.

    Raises PeerLinkError if the certificate of the node that was dialled does not have its name.
    """

    def __init__(
        self,
        identity: LinkIdentity,
        members: Container[str],
        nonce: bytes,
        *,
        dialled: str | None = None,
        tls: TlsFacts | None = None,
    ) -> None:
        if len(nonce) != NONCE_BYTES:
            raise ValueError(f"the nonce has {len(nonce)} octets: it takes {NONCE_BYTES}")
        self.peer_name = dialled
        self.epoch = 0
        self.state = LinkState.AWAITS_HELLO if dialled is None else LinkState.AWAITS_CHALLENGE
        #: What may be said and heard from OPEN on.
        self.frames: PeerFrames | None = None
        self._identity = identity
        self._members = members
        self._nonce = nonce
        self._is_dialler = dialled is not None
        self._tls = tls
        #: Frames need no MACs.
        self._is_sealed = tls is not None or identity.is_inside
        self._binding = b"" if tls is None else tls.binding
        self._key = cluster_key(identity)
        self._agreement = Agreement(b"", b"")
        self._hello = b""
        self._pending = bytearray()
        self._output = b""
        if dialled is not None:
            self._check_certificate(dialled)
            hello = Hello(self._is_sealed, nonce, identity.cluster_name, identity.node_name, dialled)
            self._hello = encode_hello(hello, self._key, self._binding)
            self._say(self._hello)

    @property
    def is_senior(self) -> bool:
        """Whether this node numbers the links of the pair. Known once the peer has said its name."""
        return self.peer_name is not None and self._identity.node_name < self.peer_name

    @property
    def is_open(self) -> bool:
        """Whether frames may be said and taken."""
        return self.frames is not None and not self.frames.has_failed

    def take_output(self) -> bytes:
        """What the handshake has to say."""
        output, self._output = self._output, b""
        return output

    # -- the handshake -----------------------------------------------------------------------------------------------

    def receive_handshake(self, data: bytes) -> PeerProved | LinkOpened | None:
        """Octets that came before the link is open. Raises PeerLinkError.

        After LinkOpened, what came with it is had by `take_rest`.
        """
        if self.is_open:
            raise ValueError("the link is open: what comes now are frames")
        pending = self._pending
        pending += data
        try:
            if self.state in (LinkState.FAILED, LinkState.OPEN) or (self.state is LinkState.PROVED and data):
                raise PeerLinkError("it speaks out of turn")
            if len(pending) < _LENGTH.size or self.state is LinkState.PROVED:
                return None
            (length,) = _LENGTH.unpack_from(pending)
            if not 0 < length <= MAX_HANDSHAKE_BYTES:
                raise PeerLinkError(self._wrong_length(length))
            if len(pending) < _LENGTH.size + length:
                return None
            payload = bytes(pending[_LENGTH.size : _LENGTH.size + length])
            del pending[: _LENGTH.size + length]
            event = self._take_message(payload)
            if pending and not self.is_open:
                raise PeerLinkError(f"it speaks out of turn: {len(pending)} octets that nobody has asked for")
            return event
        except PeerLinkError:
            self._fail()
            raise

    def take_rest(self) -> bytes:
        """The octets of frames that came with the end of the handshake."""
        rest, self._pending = bytes(self._pending), bytearray()
        return rest

    def admit(self, epoch: int = 0) -> LinkOpened | None:
        """The owner wants the link; `epoch` is its number, which the senior gives. Raises ValueError out of turn."""
        if self.state is not LinkState.PROVED or self.peer_name is None:
            raise ValueError(f"a link that is {self.state.name} cannot be admitted")
        if self.is_senior:
            if not 0 < epoch <= MAX_EPOCH:
                raise ValueError(f"the senior's links have numbers from 1 to {MAX_EPOCH}, not {epoch}")
            self.epoch = epoch
        if self._is_dialler:
            self._say(encode_epoch_and_proof(PROOF, self.epoch, self._agreement.dialler_proof(self.epoch)))
            self.state = LinkState.AWAITS_READY
            return None
        self._say(encode_epoch_and_proof(READY, self.epoch, self._agreement.ready_proof(self.epoch)))
        return self._open()

    def _take_message(self, payload: bytes) -> PeerProved | LinkOpened | None:
        if self.state is LinkState.AWAITS_HELLO:
            self._on_hello(payload)
            return None
        if self.state is LinkState.AWAITS_CHALLENGE:
            return self._on_challenge(payload)
        if self.state is LinkState.AWAITS_PROOF:
            return self._on_proof(payload)
        return self._on_ready(payload)

    def _on_hello(self, payload: bytes) -> None:
        hello = decode_hello(payload)
        identity = self._identity
        if hello.cluster_name != identity.cluster_name:
            raise PeerLinkError(f"it belongs to the cluster {hello.cluster_name!r}, not {identity.cluster_name!r}")
        if hello.acceptor != identity.node_name:
            raise PeerLinkError(
                f"{hello.dialler!r} looks for {hello.acceptor!r} here, and this node is {identity.node_name!r}: "
                f"correct the list of members there"
            )
        if hello.dialler == identity.node_name or hello.dialler not in self._members:
            raise PeerLinkError(f"it calls itself {hello.dialler!r}, which is no other member of this cluster")
        if hello.is_protected != self._is_sealed:
            raise PeerLinkError(f"{hello.dialler!r} and this node do not agree whether TLS protects the link")
        self._check_certificate(hello.dialler)
        if not is_hello_proved(payload, self._key, self._binding):
            raise PeerLinkError(f"it calls itself {hello.dialler!r} but has not the cluster's secret")
        self.peer_name = hello.dialler
        self._agreement = agree(self._key, payload, self._nonce, self._binding)
        self._say(encode_challenge(self._nonce, self._agreement.challenge_proof()))
        self.state = LinkState.AWAITS_PROOF

    def _on_challenge(self, payload: bytes) -> PeerProved:
        nonce, proof = decode_challenge(payload)
        self._agreement = agree(self._key, self._hello, nonce, self._binding)
        self._compare(proof, self._agreement.challenge_proof())
        return self._proved(0)

    def _on_proof(self, payload: bytes) -> PeerProved:
        epoch, proof = decode_epoch_and_proof(PROOF, payload)
        self._compare(proof, self._agreement.dialler_proof(epoch))
        self._check_epoch(epoch, 0)
        return self._proved(epoch)

    def _on_ready(self, payload: bytes) -> LinkOpened:
        epoch, proof = decode_epoch_and_proof(READY, payload)
        self._compare(proof, self._agreement.ready_proof(epoch))
        self._check_epoch(epoch, self.epoch)
        self.epoch = epoch
        return self._open()

    def _proved(self, epoch: int) -> PeerProved:
        assert self.peer_name is not None
        self.epoch = epoch
        self.state = LinkState.PROVED
        return PeerProved(self.peer_name, epoch)

    def _open(self) -> LinkOpened:
        assert self.peer_name is not None
        of_dialler, of_acceptor = self._agreement.frame_keys()
        own, theirs = (of_dialler, of_acceptor) if self._is_dialler else (of_acceptor, of_dialler)
        limit = self._identity.max_frame_bytes
        keys = (None, None) if self._is_sealed else (own, theirs)
        self.frames = PeerFrames(self.peer_name, limit, *keys)
        self.state = LinkState.OPEN
        return LinkOpened(self.peer_name, self.epoch)

    def _check_certificate(self, name: str) -> None:
        """Workers of a node have its certificate."""
        if self._tls is not None and node_of_worker(name) not in self._tls.certificate_names:
            names = ", ".join(map(repr, self._tls.certificate_names)) or "nobody"
            raise PeerLinkError(f"it should be {name!r}, but its certificate names {names}")

    def _check_epoch(self, epoch: int, own: int) -> None:
        """The senior numbers the link, and the junior says the same number, or 0 while it knows none."""
        if (epoch != own) if self.is_senior else (epoch == 0):
            raise PeerLinkError(f"{self.peer_name!r} gives the link the number {epoch}, which is not its to give")

    def _compare(self, proof: bytes, expected: bytes) -> None:
        if not hmac.compare_digest(proof, expected):
            raise PeerLinkError(f"it should be {self.peer_name!r}, but its proof is wrong: has it the same secret?")

    def _wrong_length(self, length: int) -> str:
        hint = ""
        if self.state is LinkState.AWAITS_HELLO and length >> 16 == 0x1603:
            hint = "; it looks like TLS, which this node does not use between nodes"
        return f"a message of {length} octets came before the login, where 1 to {MAX_HANDSHAKE_BYTES} are allowed{hint}"

    def _say(self, payload: bytes) -> None:
        self._output += _LENGTH.pack(len(payload)) + payload

    def _fail(self) -> None:
        self.state = LinkState.FAILED
        self._output = b""
        self._pending = bytearray()
