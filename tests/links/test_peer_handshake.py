"""The handshake of a link: who gets in, and that everybody else gets nothing but a reason for the log."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_broker.links.peer_handshake import (
    MAX_HANDSHAKE_BYTES,
    PROOF,
    READY,
    Hello,
    LinkIdentity,
    PeerLinkError,
    TlsFacts,
    cluster_key,
    encode_epoch_and_proof,
    encode_hello,
)
from amqp_broker.links.peer_protocol import LinkOpened, LinkState, PeerProtocol, PeerProved
from tests.links.link_pair import (
    EPOCH,
    MEMBERS,
    OTHER_SECRET,
    SECRET,
    acceptor,
    admit,
    dialler,
    frames_of,
    identity,
    nonce,
    opened,
    refusal,
    shake,
    take,
)


def framed(payload: bytes) -> bytes:
    return struct.pack(">I", len(payload)) + payload


def hello_of(**changes: object) -> bytes:
    """A HELLO of n1 for n2, right but for the changes."""
    fields: dict[str, object] = {
        "is_protected": False,
        "nonce": nonce(1),
        "cluster_name": "test",
        "dialler": "n1",
        "acceptor": "n2",
    }
    return encode_hello(Hello(**{**fields, **changes}), cluster_key(identity("n1")), b"")  # type: ignore[arg-type]


# -- who gets in -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "target"), [("n1", "n2"), ("n2", "n1")])
def test_the_senior_numbers_the_link_whoever_dials(name: str, target: str) -> None:
    first, second = opened(name, target)
    assert (first.peer_name, first.epoch) == (target, EPOCH)
    assert (second.peer_name, second.epoch) == (name, EPOCH)


def test_the_events_of_a_handshake() -> None:
    first, second = dialler(), acceptor()
    assert take(second, first.take_output()) == []
    assert take(first, second.take_output()) == [PeerProved("n2", 0)]
    assert not first.is_open
    assert take(second, first.take_output()) == [PeerProved("n1", EPOCH), LinkOpened("n1", EPOCH)]
    assert take(first, second.take_output()) == [LinkOpened("n2", EPOCH)]


@pytest.mark.parametrize("is_tls", [False, True])
def test_cut_anywhere_it_is_the_same(is_tls: bool) -> None:
    """Octet by octet, as the network pleases."""
    tls = {"n1": TlsFacts(("n1", "x"), b"b"), "n2": TlsFacts(("n2",), b"b")} if is_tls else {"n1": None, "n2": None}
    first, second = dialler(tls=tls["n2"]), acceptor(tls=tls["n1"])
    speaker, listener = first, second
    while message := speaker.take_output():
        for position in range(len(message) - 1):
            assert take(listener, message[position : position + 1]) == []
        take(listener, message[-1:])
        speaker, listener = listener, speaker
    assert first.is_open
    assert second.is_open


def inside(name: str, dialled: str | None = None, secret: bytes = SECRET) -> PeerProtocol:
    """A worker's end of a link to another one of its node."""
    own = identity(name, secret=secret, is_inside=True)
    return PeerProtocol(own, ("n1", "n1/1"), nonce(1 if dialled else 2), dialled=dialled)


def test_workers_of_a_node_prove_who_they_are_and_their_frames_have_no_macs() -> None:
    first, second = inside("n1", "n1/1"), inside("n1/1")
    shake(first, second)
    assert b"".join(frames_of(first).encode([b"said"])) == framed(b"said")
    assert frames_of(second).receive(framed(b"said")) == [b"said"]


def test_who_has_not_their_secret_is_no_worker_of_the_node() -> None:
    first, second = inside("n1", "n1/1", OTHER_SECRET), inside("n1/1")
    assert "has not the cluster's secret" in refusal(second, first.take_output())


def test_frames_that_come_with_ready_are_kept() -> None:
    first, second = dialler(), acceptor()
    take(second, first.take_output())
    take(first, second.take_output())
    take(second, first.take_output())
    data = second.take_output() + b"".join(frames_of(second).encode([b"at once", b"and more"]))
    assert take(first, data[:-3]) == [LinkOpened("n2", EPOCH)]
    assert frames_of(first).receive(first.take_rest()) == [b"at once"]
    assert frames_of(first).receive(data[-3:]) == [b"and more"]


# -- who does not ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        (hello_of(dialler="n9"), "calls itself 'n9', which is no other member"),
        (hello_of(dialler="n2"), "calls itself 'n2', which is no other member"),
        (hello_of(cluster_name="other"), "belongs to the cluster 'other', not 'test'"),
        (hello_of(acceptor="n3"), "'n1' looks for 'n3' here, and this node is 'n2'"),
        (hello_of(is_protected=True), "do not agree whether TLS"),
        (hello_of()[:-1] + b"\0", "has not the cluster's secret"),
        (b"AMQPLINK\2" + hello_of()[9:], "speaks version 2 of the link protocol and this node version 1"),
        (b"AMQP\0\0\x09\1" + hello_of()[8:], "does not begin as a node"),
        (hello_of()[:70], "cut short"),
        (hello_of()[:-20], "cut short"),
        (hello_of()[:-5], "malformed"),
        (hello_of() + b"x", "malformed"),
        (hello_of().replace(b"\2n1", b"\0n1"), "malformed"),
        (hello_of().replace(b"\2n1", b"\xffn1"), "malformed"),
        (hello_of().replace(b"n1", b"\xff\xfe"), "not UTF-8"),
        (hello_of()[:9] + b"\2" + hello_of()[10:], "malformed"),
    ],
)
def test_a_wrong_hello_is_not_answered(hello: bytes, reason: str) -> None:
    assert reason in refusal(acceptor(), framed(hello))


def test_a_dialler_without_the_secret_is_told_nothing() -> None:
    assert "has not the cluster's secret" in refusal(acceptor(), dialler(secret=OTHER_SECRET).take_output())


def test_an_acceptor_without_the_secret_is_told_no_proof() -> None:
    """It has heard a HELLO and makes up the rest."""
    first, impostor = dialler(), acceptor()
    take(impostor, first.take_output())
    challenge = impostor.take_output()
    assert "proof is wrong" in refusal(first, challenge[:-1] + bytes((challenge[-1] ^ 1,)))


@pytest.mark.parametrize("length", [0, MAX_HANDSHAKE_BYTES + 1, 0xFFFFFFFF, 0x16030100])
def test_a_length_that_cannot_be_is_refused_before_anything_is_kept(length: int) -> None:
    reason = refusal(acceptor(), struct.pack(">I", length))
    assert f"a message of {length} octets" in reason
    assert ("looks like TLS" in reason) == (length == 0x16030100)


def test_a_web_browser_is_refused() -> None:
    assert "before the login" in refusal(acceptor(), b"GET / HTTP/1.1\r\nHost: n2\r\n\r\n")


def test_who_says_more_than_it_was_asked_is_refused() -> None:
    assert "out of turn" in refusal(acceptor(), dialler().take_output() + b"x")


def test_nothing_is_taken_until_the_owner_has_decided() -> None:
    first, second = dialler(), acceptor()
    take(second, first.take_output())
    take(first, second.take_output())
    assert second.receive_handshake(first.take_output()) == PeerProved("n1", EPOCH)
    assert second.state is LinkState.PROVED
    assert second.receive_handshake(b"") is None
    assert "out of turn" in refusal(second, b"x")


@pytest.mark.parametrize("message", [1, 2, 3])
def test_a_changed_octet_anywhere_in_the_handshake_is_noticed(message: int) -> None:
    """Of CHALLENGE, PROOF and READY; those of the HELLO are below."""
    length = len(shake(dialler(), acceptor())[message])
    for position in range(4, length):
        first, second = dialler(), acceptor()
        speaker, listener = first, second
        for _ in range(message):
            take(listener, speaker.take_output())
            speaker, listener = listener, speaker
        data = bytearray(speaker.take_output())
        data[position] ^= 0x80
        refusal(listener, bytes(data))


def test_a_changed_octet_anywhere_in_the_hello_is_noticed() -> None:
    hello = hello_of()
    for position in range(len(hello)):
        refusal(acceptor(), framed(hello[:position] + bytes((hello[position] ^ 0x80,)) + hello[position + 1 :]))


# -- repeated and reflected ------------------------------------------------------------------------------------------


def test_a_recorded_handshake_opens_nothing() -> None:
    """The acceptor's nonce is another, so the recorded PROOF is wrong."""
    said = shake(dialler(), acceptor(number=2))
    victim = acceptor(number=3)
    take(victim, said[0])
    assert len(victim.take_output()) == len(said[1])
    assert "proof is wrong" in refusal(victim, said[2])


def test_a_recorded_challenge_and_ready_open_nothing() -> None:
    said = shake(dialler(number=1), acceptor())
    victim = dialler(number=4)
    victim.take_output()
    assert "proof is wrong" in refusal(victim, said[1])


@pytest.mark.parametrize(("name", "target"), [("n1", "n2"), ("n2", "n1")])
def test_a_dialler_is_not_answered_with_its_own_words(name: str, target: str) -> None:
    victim = dialler(name, target)
    refusal(victim, victim.take_output())


@pytest.mark.parametrize(("name", "target"), [("n1", "n2"), ("n2", "n1")])
def test_a_hello_sent_back_to_the_node_that_said_it_is_refused(name: str, target: str) -> None:
    """On a connection of the attacker's to the dialler's own door."""
    hello = dialler(name, target).take_output()
    assert f"looks for '{target}' here" in refusal(acceptor(name), hello)


def test_two_handshakes_with_one_node_do_not_prove_for_each_other() -> None:
    """The attacker dials n2 with n1's HELLO, and gives n2's CHALLENGE to n1 in another link: its HELLO differs."""
    first, other = dialler(number=1), dialler(number=5)
    second = acceptor()
    take(second, first.take_output())
    other.take_output()
    assert "proof is wrong" in refusal(other, second.take_output())


def test_a_proof_for_one_member_is_none_for_another() -> None:
    """n3 relays what n1 says to it to n2, in n1's name."""
    hello = dialler("n1", "n3").take_output()
    assert "looks for 'n3' here" in refusal(acceptor("n2"), hello)


# -- TLS -------------------------------------------------------------------------------------------------------------


def test_the_certificate_must_name_the_node() -> None:
    with pytest.raises(PeerLinkError, match=r"should be 'n2', but its certificate names 'n3', 'db'"):
        dialler(tls=TlsFacts(("n3", "db"), b"b"))
    first = dialler(tls=TlsFacts(("n2",), b"b"))
    assert "certificate names nobody" in refusal(acceptor(tls=TlsFacts((), b"b")), first.take_output())


def test_what_was_said_in_one_channel_is_worth_nothing_in_another() -> None:
    """Somebody who ends TLS in between has two channels, with two bindings."""
    first = dialler(tls=TlsFacts(("n2",), b"one"))
    assert "has not the cluster's secret" in refusal(acceptor(tls=TlsFacts(("n1",), b"two")), first.take_output())


def test_tls_cannot_be_taken_away() -> None:
    assert "do not agree whether TLS" in refusal(
        acceptor(), dialler(tls=TlsFacts(("n2",), b"")).take_output()
    )


# -- numbers ---------------------------------------------------------------------------------------------------------


def test_a_junior_may_not_number_the_link() -> None:
    first, second = dialler("n2", "n1"), acceptor("n1")
    take(second, first.take_output())
    first.receive_handshake(second.take_output())
    proof = first._agreement.dialler_proof(9)
    assert "not its to give" in refusal(second, framed(encode_epoch_and_proof(PROOF, 9, proof)))


def test_the_junior_may_not_change_the_number() -> None:
    first, second = dialler("n1", "n2"), acceptor("n2")
    take(second, first.take_output())
    take(first, second.take_output())
    take(second, first.take_output())
    ready = encode_epoch_and_proof(READY, EPOCH + 1, second._agreement.ready_proof(EPOCH + 1))
    assert "not its to give" in refusal(first, framed(ready))


def test_the_senior_must_number_the_link() -> None:
    first, second = dialler(), acceptor()
    take(second, first.take_output())
    first.receive_handshake(second.take_output())
    for epoch in (0, -1, 1 << 64):
        with pytest.raises(ValueError, match="numbers from 1"):
            first.admit(epoch)
    assert admit(first) is None


# -- misuse by the owner, and octets of chance -----------------------------------------------------------------------


def test_what_an_owner_may_not_do() -> None:
    with pytest.raises(ValueError, match="it takes 32"):
        PeerProtocol(identity("n1"), MEMBERS, b"short")
    with pytest.raises(ValueError, match="cannot be admitted"):
        acceptor().admit(1)
    assert acceptor().frames is None
    with pytest.raises(ValueError, match="are frames"):
        opened()[0].receive_handshake(b"")
    with pytest.raises(ValueError, match="0 octets"):
        dialler(target="")


def test_the_secret_does_not_show() -> None:
    assert "guess" not in repr(identity("n1"))
    assert LinkIdentity("n1", "test", b"other", 1) != identity("n1")


@given(st.lists(st.binary(max_size=200), max_size=8))
def test_octets_of_chance_are_refused_or_waited_for(pieces: list[bytes]) -> None:
    for protocol in (acceptor(), dialler()):
        protocol.take_output()
        try:
            for piece in pieces:
                assert protocol.receive_handshake(piece) is None
        except PeerLinkError:
            assert protocol.state is LinkState.FAILED
        assert protocol.take_output() == b""
        assert not protocol.is_open


@given(st.integers(0, 3), st.data())
def test_a_damaged_conversation_never_opens_on_both_sides(message: int, data: st.DataObject) -> None:
    """One message is replaced by a piece of itself with octets of chance in it: only PeerLinkError escapes."""
    first, second = dialler(), acceptor()
    speaker, listener = first, second
    for _ in range(message):
        take(listener, speaker.take_output())
        speaker, listener = listener, speaker
    said = speaker.take_output()
    start = data.draw(st.integers(0, len(said)))
    stop = data.draw(st.integers(start, len(said)))
    changed = said[:start] + data.draw(st.binary(max_size=40)) + said[stop:]
    if changed.startswith(said):
        return
    try:
        take(listener, changed)
    except PeerLinkError:
        assert listener.take_output() == b""
    assert not listener.is_open
