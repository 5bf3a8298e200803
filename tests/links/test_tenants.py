"""What goes between nodes for several tenants: who gets which frame, in which order they leave, and the same octets as
ever."""

from __future__ import annotations

import pytest

from amqp_broker.links.frame_kinds import FrameKind
from amqp_broker.links.levels import LEVEL
from amqp_broker.links.tenants import Tenants
from raft.errors import PeerProtocolError
from raft.outbox import Outbox
from raft.wire import decode, encode

#: A frame of each kind as it was written when Raft still carried them (commit eaf47b6), or first.
FRAMES = {
    FrameKind.METADATA_COMMANDS: (
        "010b017b226f726967696e223a226e32222c2273657373696f6e223a313734303830303030303030303131302c226669727374223a312c"
        "22636f6d6d616e6473223a5b7b226f70223a226e6f64652e73746172746564222c226e6f6465223a226e32227d5d7d"
    ),
    FrameKind.METADATA_APPLIED: "010b020000000000000002",
    FrameKind.QUEUE_BATCH: (
        "010b0300000002020000000000000000026e3100018bcfe568005b0000000000000001000000000000000000000000"
    ),
    FrameKind.HOME_COMMANDS: "010b0481020000018bcfe56c600000000000000001000000000000000100",
    FrameKind.HOME_EFFECTS: "010b05020000018bcfe56c6000000001110000000101",
    FrameKind.DIRECT_REPLY: "010b06010200000000001000b8",
    FrameKind.TRANSFER_REQUEST: "010b077b2267726f7570223a20332c2022746f223a20226e32227d",
    FrameKind.RELEASE: "010b08",
    FrameKind.LEASE_REQUEST: (
        "010b090118bcfe570fc000000000000000000000012f0874786e2e73746174000000027b7d00000000"
    ),
    FrameKind.LEASE_ANSWER: (
        "010b0a0118bcfe56d1400000106170706c69636174696f6e2f6a736f6e00000000000000197b226f6b223a20747275652c202273746167"
        "6564223a20357d"
    ),
    FrameKind.MEMBERS: (
        "010b0b7b22696e646578223a20382c20226d656d62657273223a207b226e32223a20223132372e302e302e313a37303031227d2c202267"
        "726f75706564223a206e756c6c7d"
    ),
    FrameKind.ACQUAINTANCE: "010b0c7b2277686174223a20227265636f72646564227d",
    FrameKind.MANAGEMENT: (
        "010b0d010000000000000000017b2276657262223a2022616c61726d73222c20226669656c6473223a207b7d2c20226e616d65223a20"
        "226f7073222c202274616773223a205b226d6f6e69746f72696e67225d7d"
    ),
    FrameKind.GUEST_REQUEST: "010b0e0101000000020000000000000005",
    FrameKind.GUEST_ANSWER: "010b0f0101000000020000000000000005020000000000000003026e31",
    FrameKind.STREAM_REQUEST: "010b100100000000000000050000000000000002000000000000000a0000000000000014000005dc",
    FrameKind.STREAM_ANSWER: "010b11010000000000000005036e6f",
    FrameKind.METADATA_FEED: "010b1201010000000000000007",
    FrameKind.CONNECTION_MOVE: "010b1301020000000000000007",
    FrameKind.STREAM_READ: "010b140103000000000000000b0000000000000003",
    FrameKind.STREAM_READ_ANSWER: "010b150101000000000000000b666f6f",
    FrameKind.QUEUE_MOVE: "010b1601040000000000000007000000000000000b",
}
#: The same, of Raft's own types.
RAFT_FRAMES = (
    "010100000001000000000000000100000000000000040000000000000001000000000000000400000000",
    "010200000000000000000000000101000000000000000200000000000000000000000000000000",
    "010300000000000000000000000100000000000000080000000000000009",
    "010400000002000000000000000100000000000000040000000000000004",
    "010500000000000000000000000100000000000000040000000000000005",
    "0106000000000000000000000001010000000000000000000000000000000000",
    "01070000000000000000000000010101",
    "010a000000010000000000000001",
)


class Link:
    """Tenants of a node that is linked to n2, and what each was given."""

    def __init__(self) -> None:
        self.tenants = Tenants(Outbox())
        self.given: list[tuple[FrameKind | None, str, bytes, int]] = []
        self.tenants.register_raft(lambda name, frame, now: self.given.append((None, name, frame, now)))
        self.senders = {kind: self.tenants.register(kind, self._of(kind)) for kind in FrameKind}
        self.tenants.link_up("n2", LEVEL)

    def _of(self, kind: FrameKind):  # type: ignore[no-untyped-def]
        return lambda name, payload, now: self.given.append((kind, name, payload, now))


@pytest.fixture
def link() -> Link:
    return Link()


@pytest.mark.parametrize("kind", FrameKind)
def test_the_octets_are_those_of_the_version_before(link: Link, kind: FrameKind) -> None:
    frame = bytes.fromhex(FRAMES[kind])
    link.tenants.receive("n2", frame, 5)
    ((of, name, payload, now),) = link.given
    assert (of, name, now) == (kind, "n2", 5)
    assert link.senders[kind]("n2", payload)
    assert link.tenants.outbox.take() == [("n2", [frame])]


@pytest.mark.parametrize("text", RAFT_FRAMES)
def test_rafts_own_go_to_raft_whole(link: Link, text: str) -> None:
    frame = bytes.fromhex(text)
    link.tenants.receive("n2", frame, 5)
    assert link.given == [(None, "n2", frame, 5)]
    assert encode(decode(frame)) == frame


@pytest.mark.parametrize("frame", [b"", b"\x01", b"\x02\x0b\x01", b"\x01\x0c"])
def test_what_is_of_no_tenant_is_rafts_to_refuse(link: Link, frame: bytes) -> None:
    link.tenants.receive("n2", frame, 5)
    assert link.given == [(None, "n2", frame, 5)]
    with pytest.raises(PeerProtocolError):
        decode(frame)


@pytest.mark.parametrize(("frame", "shown"), [(b"\x01\x0b", "kind :"), (b"\x01\x0b\xc8x", "kind c8:")])
def test_a_kind_that_nobody_knows_changes_nothing(
    link: Link, frame: bytes, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    link.tenants.receive("n2", frame, 5)
    assert link.given == []
    assert f"n2 sends a message of unknown {shown} is it of a newer version?" in caplog.text


def test_frames_leave_in_the_order_in_which_they_were_put_whoever_puts_them(link: Link) -> None:
    link.senders[FrameKind.HOME_EFFECTS]("n2", b"1")
    link.tenants.outbox.put("n2", b"raft's")
    link.senders[FrameKind.LEASE_ANSWER]("n2", b"2")
    assert link.tenants.outbox.take() == [("n2", [b"\x01\x0b\x051", b"raft's", b"\x01\x0b\x0a2"])]
    assert link.tenants.outbox.take() == []


def test_nothing_is_said_without_a_link(link: Link) -> None:
    send = link.senders[FrameKind.RELEASE]
    assert not send("n3", b"")
    assert send("n2", b"")
    link.tenants.link_down("n2")
    assert not send("n2", b"")
    assert link.tenants.outbox.take() == []
    link.tenants.receive("n2", b"\x01\x0b\x08", 5)
    assert link.given == []


def test_nothing_goes_out_when_raft_has_stopped(link: Link) -> None:
    send = link.senders[FrameKind.RELEASE]
    send("n2", b"")
    link.tenants.outbox.stop()
    send("n2", b"")
    assert link.tenants.outbox.take() == []


def test_a_kind_has_one_tenant(link: Link) -> None:
    with pytest.raises(ValueError, match=r"^frames of kind 8 \(RELEASE\) are another tenant's already$"):
        link.tenants.register(FrameKind.RELEASE, print)
    with pytest.raises(ValueError, match=r"^Raft's frames are another tenant's already$"):
        link.tenants.register_raft(print)
