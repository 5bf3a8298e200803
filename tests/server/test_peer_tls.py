"""Links over TLS: certificates of the cluster's authority that name their node, and nobody else."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
import uvloop

from amqp_broker.links.peer_handshake import PeerLinkError
from amqp_broker.server.peer_tls import TlsChannel, TlsCredentials, load_credentials
from amqp_broker.settings.cluster_config import ClusterConfig
from tests.server.peer_cluster import LogWatch, Place, connect, linked, places, rest_of, running

NAMES = ("n1", "n2", "n3")


def issue(folder: Path, authority: trustme.CA, *names: str, trusts: trustme.CA | None = None) -> TlsCredentials:
    """The credentials of a node, as files on the disk give them."""
    certificate = authority.issue_cert(*names)
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    with (folder / "cert.pem").open("wb") as file:
        for blob in certificate.cert_chain_pems:
            file.write(blob.bytes())
    (trusts or authority).cert_pem.write_to_path(folder / "ca.pem")
    credentials = load_credentials(config_of(folder))
    assert credentials is not None
    return credentials


def config_of(folder: Path) -> ClusterConfig:
    return ClusterConfig(
        cluster_cert=folder / "cert.pem", cluster_key=folder / "key.pem", cluster_ca=folder / "ca.pem"
    )


def secured(folder: Path, authority: trustme.CA, *names: str) -> list[Place]:
    nodes = places(*names)
    for node in nodes:
        node.credentials = issue(folder, authority, node.name)
    return nodes


@pytest.fixture
def log() -> Iterator[LogWatch]:
    with contextlib.closing(LogWatch()) as watch:
        yield watch


async def test_three_nodes_talk_over_tls(tmp_path: Path) -> None:
    nodes = secured(tmp_path, trustme.CA(), *NAMES)
    async with running(*nodes):
        await linked(*nodes)
        payloads = [b"small", b"x" * 3_000_000, *(b"%d" % number for number in range(300))]
        for node in nodes:
            for other in nodes:
                if other is not node:
                    assert node.links.send(other.name, payloads)
        for node in nodes:
            for other in nodes:
                if other is not node:
                    await node.hears(b"299", other.name)
                    assert node.frames(other.name) == payloads
                    link = node.links.members[other.name].link
                    assert link is not None
                    assert link._tls is not None
                    assert link._tls._tls.version() == "TLSv1.3"


def test_uvloop_talks_over_tls_too(tmp_path: Path) -> None:
    uvloop.run(test_three_nodes_talk_over_tls(tmp_path))


async def test_a_node_of_another_authority_is_refused(tmp_path: Path, log: LogWatch) -> None:
    """It trusts ours, knows the secret and has the right name."""
    authority = trustme.CA()
    first, second, third = secured(tmp_path, authority, *NAMES)
    third.credentials = issue(tmp_path, trustme.CA(), "n3", trusts=authority)
    async with running(first, second, third):
        await linked(first, second)
        await log.has("a stranger at 127.0.0.1", "its certificate is not accepted", "n3 at 127.")
        assert third.heard == []
        assert first.turns("n3") == second.turns("n3") == []


async def test_a_node_with_the_certificate_of_another_is_refused(tmp_path: Path, log: LogWatch) -> None:
    """n3's key was stolen; it does not make anybody n2."""
    authority = trustme.CA()
    first, second = secured(tmp_path, authority, "n1", "n2")
    second.credentials = issue(tmp_path, authority, "n3")
    async with running(first, second):
        await log.has("it should be 'n2', but its certificate names 'n3'")
        assert first.heard == second.heard == []


async def test_a_node_without_tls_is_refused(tmp_path: Path, log: LogWatch) -> None:
    first, second = secured(tmp_path, trustme.CA(), "n1", "n2")
    second.credentials = None
    async with running(first, second):
        await log.has("does the peer use TLS between nodes?", "it looks like TLS")
        assert first.heard == second.heard == []


async def test_garbage_where_tls_is_due(tmp_path: Path, log: LogWatch) -> None:
    """TLS may answer with an alert; nothing else is said."""
    (first, _) = secured(tmp_path, trustme.CA(), "n1", "n2")
    async with running(first):
        reader, writer = await connect(first)
        writer.write(b"GET / HTTP/1.1\r\n\r\n" * 20)
        assert len(await rest_of(reader)) < 10
        host, port = writer.get_extra_info("sockname")
        assert f"a stranger at {host}:{port} is closed: TLS has failed" in log.text
        writer.close()


def test_files_that_do_not_belong_together_are_named(tmp_path: Path) -> None:
    issue(tmp_path, trustme.CA(), "n1")
    trustme.CA().issue_cert("n1").private_key_pem.write_to_path(tmp_path / "key.pem")
    with pytest.raises(OSError, match=r"the key is not that of the certificate in .*cert\.pem") as error:
        load_credentials(config_of(tmp_path))
    assert str(tmp_path / "key.pem") in error.value.filename
    (tmp_path / "cert.pem").unlink()
    with pytest.raises(OSError, match="No such file"):
        load_credentials(config_of(tmp_path))
    assert load_credentials(ClusterConfig()) is None


# -- a channel by itself -----------------------------------------------------------------------------------------------


def established(dialling: TlsCredentials, accepting: TlsCredentials) -> tuple[TlsChannel, TlsChannel]:
    first, second = TlsChannel(dialling, "n2"), TlsChannel(accepting, None)
    first.receive(b"")
    while data := first.take_output():
        second.receive(data)
        first.receive(second.take_output())
    return first, second


def test_both_ends_compute_the_same_binding_and_it_is_theirs_alone(tmp_path: Path) -> None:
    authority = trustme.CA()
    one, two, three = (issue(tmp_path, authority, name) for name in NAMES)
    first, second = established(one, two)
    assert first.facts().binding == second.facts().binding
    assert first.facts().certificate_names[0] == "n2"
    assert second.facts().certificate_names[0] == "n1"
    bindings = {established(*pair)[0].facts().binding for pair in ((one, two), (two, one), (one, three))}
    assert len(bindings) == 3


def test_octets_of_any_number_go_through(tmp_path: Path) -> None:
    credentials = issue(tmp_path, trustme.CA(), "n1")
    first, second = established(credentials, credentials)
    for size in (0, 1, 16384, 16385, 1_000_000):
        wire = first.encrypt(b"x" * size)
        received = b"".join(second.receive(wire[at : at + 7919]) for at in range(0, len(wire), 7919))
        assert received == b"x" * size


def test_a_changed_octet_and_an_end_are_noticed(tmp_path: Path) -> None:
    credentials = issue(tmp_path, trustme.CA(), "n1")
    first, second = established(credentials, credentials)
    wire = first.encrypt(b"x" * 100)
    with pytest.raises(PeerLinkError, match="TLS has failed"):
        second.receive(wire[:50] + bytes((wire[50] ^ 1,)) + wire[51:])
    first, second = established(credentials, credentials)
    with pytest.raises(ssl.SSLWantReadError):
        first._tls.unwrap()
    with pytest.raises(PeerLinkError, match="it has closed the link"):
        second.receive(first.take_output())
