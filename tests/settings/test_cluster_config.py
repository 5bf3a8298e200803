"""ClusterConfig: the list of members, the rules between the settings, and the file with the secret."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_broker.settings.cluster_config import (
    CLUSTER_SETTINGS,
    MAX_SECRET_BYTES,
    ClusterConfig,
    read_secret,
)
from amqp_broker.settings.config import SETTINGS_BY_KEY
from amqp_broker.settings.kinds import KIB, MEMBERS, MIB, Address, MemberAddress, parse_members
from amqp_broker.settings.setting import ConfigError, Setting
from raft.settings import RaftSettings

THREE = parse_members("n1=127.0.0.1:7101,n2=127.0.0.1:7102,n3=127.0.0.1:7103")
LISTEN = (Address("127.0.0.1", 7101),)
SECRET_FILE = Path("secret")
SECRET = "0123456789abcdef" * 4


def config(**changes: Any) -> ClusterConfig:
    """The first of three nodes."""
    settings = {"node_name": "n1", "cluster_listen": LISTEN, "cluster": THREE, "cluster_secret_file": SECRET_FILE}
    return ClusterConfig(**{**settings, **changes})


# -- the list of members -----------------------------------------------------------------------------------------------


def test_members_are_names_with_addresses() -> None:
    members = parse_members(" n2=[::1]:7102 , n1=db.example:7101,")
    assert members == (
        MemberAddress("n1", Address("db.example", 7101)),
        MemberAddress("n2", Address("::1", 7102)),
    )
    assert MEMBERS.show(members) == "n1=db.example:7101,n2=[::1]:7102"
    assert parse_members("") == ()


@pytest.mark.parametrize(
    "text", ["n1", "n1=", "n1=host", "=host:1", "n1:host:1", "n1=::1:7101", "n1=host:70000", "n 1=host:1", "-=host:1"]
)
def test_what_is_no_list_of_members_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^cluster: .* allowed: NAME=HOST:PORT"):
        SETTINGS_BY_KEY["cluster"].parse(text)


@given(st.text(max_size=40))
def test_any_text_is_a_list_or_a_value_error(text: str) -> None:
    try:
        members = parse_members(text)
    except ValueError:
        return
    assert parse_members(MEMBERS.show(members)) == members


# -- the rules ---------------------------------------------------------------------------------------------------------


def test_a_cluster_of_one_needs_nothing() -> None:
    assert ClusterConfig().others == {}
    assert ClusterConfig(node_name="n1", cluster=THREE[:1]).others == {}


def test_the_others_are_all_but_this_node() -> None:
    assert config(node_name="n2").others == {"n1": THREE[0].address, "n3": THREE[2].address}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"node_name": "n4"}, r"^cluster: 'n1=.*' is not valid; allowed: a list with this node, n4, in it; add it"),
        ({"node_name": "a b"}, r"^node_name: 'a b' .* letters, digits"),
        ({"node_name": "n" * 129}, r"^node_name: "),
        ({"cluster": (*THREE, MemberAddress("n1", Address("h", 1)))}, r"^cluster: .* each name and each address once"),
        ({"cluster": (*THREE, MemberAddress("n4", THREE[0].address))}, r"^cluster: .* each name and each address once"),
        ({"cluster": (*THREE, MemberAddress("n4", Address("h", 0)))}, r"^cluster: .* listen on, not 0"),
        (
            {"cluster": tuple(MemberAddress(f"n{each}", Address("h", each)) for each in range(1, 300))},
            r"^cluster: .* at most 255 members",
        ),
        ({"cluster_listen": ()}, r"^cluster: .* only together with cluster_listen"),
        ({"cluster_secret_file": None}, r"^cluster: .* only together with cluster_secret_file.* `openssl rand"),
        ({"cluster_secret_file": None, "cluster": ()}, r"^cluster_listen: .* only together with cluster_secret_file"),
        ({"cluster_cert": Path("c")}, r"^cluster_cert: 'c' .* with cluster_key and cluster_ca; set all three, or none"),
        ({"cluster_key": Path("k"), "cluster_ca": Path("a")}, r"^cluster_key: 'k' .* with cluster_cert; set all three"),
        ({"peer_timeout_ms": 900}, r"^peer_timeout: '900ms' .* at least twice peer_ping, which is 500ms"),
        ({"peer_buffer_limit_bytes": 64 * KIB}, r"^peer_buffer_limit: '64KiB' .* cluster_frame_max, which is 192MiB"),
        ({"max_pending_peers": 0}, r"^max_pending_peers: '0' "),
        ({"cluster_join": True, "cluster": ()}, r"^cluster_join: 'true' .* with cluster, the members to join"),
        ({"raft_heartbeat_ms": 400}, r"^raft_election_timeout: '600ms' .* twice raft_heartbeat, which is 400ms"),
        ({"raft_log_cap_bytes": 1024 * KIB}, r"^raft_log_cap: '1MiB' .* at least raft_log_size, which is 32MiB"),
        ({"queue_groups": 0}, r"^queue_groups: '0' "),
    ],
)
def test_the_rules_between_settings(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        config(**changes)


@pytest.mark.parametrize("each", CLUSTER_SETTINGS, ids=lambda each: each.key)
def test_every_setting_says_what_it_is(each: Setting) -> None:
    assert each.doc.endswith(".")
    assert each.attribute == each.key + each.kind.suffix
    each.check(getattr(ClusterConfig(), each.attribute))


def test_what_raft_is_told() -> None:
    entry_bytes = ClusterConfig().max_entry_bytes
    assert ClusterConfig().raft_settings() == RaftSettings(heartbeat_ms=200, entry_bytes=entry_bytes)
    settings = config(raft_heartbeat_ms=20, raft_election_timeout_ms=100, raft_log_size_bytes=64 * KIB).raft_settings()
    assert (settings.heartbeat_ms, settings.election_timeout_min_ms, settings.election_timeout_max_ms) == (20, 100, 200)
    assert (settings.log_bytes, settings.log_cap_bytes) == (64 * KIB, 128 * 1024 * KIB)


@pytest.mark.parametrize(
    ("budget", "log", "cap"), [(10_000 * MIB, 32 * MIB, 128 * MIB), (270 * MIB, 3.75 * MIB, 15 * MIB), (MIB, MIB, MIB)]
)
def test_the_logs_of_all_groups_keep_to_the_memory_that_there_is(budget: int, log: int, cap: int) -> None:
    settings = ClusterConfig().raft_settings(budget)
    assert (settings.log_bytes, settings.log_cap_bytes) == (log, cap)


# -- the secret --------------------------------------------------------------------------------------------------------


def written(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "secret"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_secret_is_read_without_the_white_space_around_it(tmp_path: Path) -> None:
    assert read_secret(written(tmp_path, SECRET + "\n")) == SECRET.encode()
    assert read_secret(written(tmp_path, SECRET, 0o400)) == SECRET.encode()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601])
def test_a_file_that_others_can_use_is_refused(tmp_path: Path, mode: int) -> None:
    path = written(tmp_path, SECRET, mode)
    with pytest.raises(ConfigError, match=rf"^cluster_secret_file: .* mode 600, and it has {mode:o}.*`chmod 600 "):
        read_secret(path)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_who_else_owns_a_file_is_trusted_with_its_mode(tmp_path: Path) -> None:
    """As ssh has it: a secret that an orchestrator mounts belongs to another user, and its group may read it."""
    path = written(tmp_path, SECRET, 0o440)
    os.chown(path, 12345, 0)
    assert read_secret(path) == SECRET.encode()


@pytest.mark.parametrize("text", ["", "\n \n", "x" * 31, "x" * (MAX_SECRET_BYTES + 1)])
def test_a_secret_too_short_or_too_long_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"32 to 4096 octets.*`openssl rand -hex 32`") as error:
        read_secret(written(tmp_path, text))
    assert "xxx" not in str(error.value)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_secret(tmp_path / "nothing")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (tmp_path, pipe):
        with pytest.raises(ConfigError, match="not a folder, pipe or device"):
            read_secret(path)
