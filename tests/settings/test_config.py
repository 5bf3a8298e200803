"""Config itself: defaults, bounds, the rules between fields, and that every field says what it is."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from amqp_broker.settings.cluster_config import CLUSTER_SETTINGS, ClusterConfig
from amqp_broker.settings.config import SETTINGS, SETTINGS_BY_KEY, Config, is_loopback
from amqp_broker.settings.kinds import COUNT, KIB, MIB, Address, MemberAddress
from amqp_broker.settings.setting import ConfigError, Setting

PEM = Path("server.pem")


def key_of(each: Setting) -> str:
    return each.key


def config_with(each: Setting, value: object) -> Config:
    changes: dict[str, Any] = {each.attribute: value}
    return Config(**changes)


def test_the_defaults_are_valid_and_for_this_machine_only() -> None:
    config = Config()
    assert config.listen == (Address("127.0.0.1", 5672),)
    assert config.data_dir == Path("data")
    assert config.memory_budget_bytes >= 64 * MIB
    assert config.heartbeat_ms == 60_000


def test_a_config_never_changes() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().frame_max = 4096  # type: ignore[misc]


@pytest.mark.parametrize("each", SETTINGS, ids=key_of)
def test_every_setting_says_what_it_is(each: Setting) -> None:
    assert each.doc.endswith("."), "a sentence"
    assert each.group
    assert each.allowed
    assert each.key.isidentifier()
    assert each.attribute == each.key + each.kind.suffix


@pytest.mark.parametrize("each", SETTINGS, ids=key_of)
def test_the_default_is_among_what_is_allowed(each: Setting) -> None:
    each.check(getattr(Config(), each.attribute))


@pytest.mark.parametrize("each", [each for each in SETTINGS if each.minimum is not None], ids=key_of)
def test_less_than_the_least_is_refused(each: Setting) -> None:
    assert each.minimum is not None
    with pytest.raises(ConfigError, match=rf"^{each.key}: .* allowed: "):
        config_with(each, each.minimum - 1)


@pytest.mark.parametrize("each", [each for each in SETTINGS if each.maximum is not None], ids=key_of)
def test_more_than_the_most_is_refused(each: Setting) -> None:
    assert each.maximum is not None
    with pytest.raises(ConfigError, match=rf"^{each.key}: .* allowed: "):
        config_with(each, each.maximum + 1)


@pytest.mark.parametrize("each", [each for each in SETTINGS if each.off is not None], ids=key_of)
def test_off_is_a_value_that_is_read_and_shown(each: Setting) -> None:
    assert each.parse("off") == each.parse("OFF") == each.off
    assert each.show(each.off) == "off"


@pytest.mark.parametrize("each", [each for each in SETTINGS if each.kind is COUNT], ids=key_of)
def test_counts_are_whole_numbers(each: Setting) -> None:
    for text in ("-5", "1.5", "many", ""):
        with pytest.raises(ConfigError, match="whole number"):
            each.parse(text)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"listen": ()}, "listen"),
        ({"tls_listen": (Address("127.0.0.1", 5671),)}, "tls_listen"),
        ({"tls_listen": (Address("127.0.0.1", 5671),), "tls_certificate": PEM}, "tls_listen"),
        ({"tls_verify_client": True}, "tls_verify_client"),
        ({"heartbeat_ms": 1500}, "heartbeat"),
        ({"initial_frame_max": 262144}, "initial_frame_max"),
        ({"journal_limit_bytes": 100 * MIB}, "journal_limit"),
        ({"output_pause_bytes": 65536}, "output_pause"),
        ({"max_message_size_bytes": 256 * MIB}, "max_message_size"),
        ({"cluster_frame_max_bytes": 64 * KIB}, "max_message_size"),
        ({"cluster_cert": PEM}, "cluster_cert"),
        ({"log_level": "loud"}, "log_level"),
        ({"listen": (Address("0.0.0.0", 5672),), "loopback_users": ()}, "loopback_users"),
    ],
)
def test_fields_that_do_not_go_together_are_refused(changes: dict[str, object], key: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{key}: .* is not valid; allowed: ") as refusal:
        Config(**changes)  # type: ignore[arg-type]
    assert "\n" not in str(refusal.value)


def test_the_largest_message_goes_from_node_to_node_in_one_frame() -> None:
    config = Config(
        max_message_size_bytes=512 * MIB, cluster_frame_max_bytes=515 * MIB, peer_buffer_limit_bytes=515 * MIB
    )
    assert config.raft_settings().entry_bytes == config.max_entry_bytes < config.cluster_frame_max_bytes
    with pytest.raises(ConfigError, match=r"at most 1\d\d+ octets while cluster_frame_max is 192MiB: .* raise"):
        Config(max_message_size_bytes=192 * MIB)


def test_a_config_is_that_of_a_cluster_too() -> None:
    assert isinstance(Config(), ClusterConfig)
    keys = [each.key for each in SETTINGS]
    assert len(set(keys)) == len(keys), "one flat set of keys"
    assert {each.key for each in CLUSTER_SETTINGS} < set(keys)


def test_tls_alone_is_a_way_in() -> None:
    config = Config(listen=(), tls_listen=(Address("127.0.0.1", 5671),), tls_certificate=PEM, tls_key=PEM)
    assert config.listen == ()


def test_the_whole_world_may_connect_with_a_password_of_ones_own() -> None:
    config = Config(listen=(Address("0.0.0.0", 5672),), loopback_users=(), default_password="hard to guess")
    assert config.loopback_users == ()


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("localhost", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("::", False),
    ],
)
def test_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_a_password_is_never_shown() -> None:
    config = Config(default_password="swordfish")
    assert "swordfish" not in repr(config)
    (secret,) = [each for each in SETTINGS if each.is_secret]
    assert "swordfish" not in secret.show("swordfish")
    assert "swordfish" not in str(secret.refuse("swordfish"))


def test_workers_are_a_number_or_as_many_as_there_are_processors() -> None:
    workers = SETTINGS_BY_KEY["workers"]
    assert (workers.parse("3"), workers.parse("Auto")) == (3, 0)
    assert (workers.show(3), workers.show(0), workers.default_text) == ("3", "auto", "1")
    with pytest.raises(ConfigError, match="workers: '0' is not valid; allowed: a whole number from 1 to 256, or auto"):
        workers.parse("0")


def test_a_worker_is_one_of_its_nodes_and_not_of_the_others() -> None:
    members = (MemberAddress("n1", Address("h1", 7000)), MemberAddress("n2", Address("h2", 7000)))
    listen = (Address("127.0.0.1", 0),)
    node = Config(workers=2, node_name="n1", cluster=members, cluster_listen=listen, cluster_secret_file=Path("secret"))
    worker = dataclasses.replace(node, worker=1, worker_processes=2, node_name="n1/1")
    assert worker.others == node.others == {"n2": Address("h2", 7000)}
    with pytest.raises(ConfigError, match="allowed: a list with this node, n3, in it"):
        dataclasses.replace(worker, node_name="n3/1")


def test_a_worker_is_called_after_its_node() -> None:
    assert Config(worker=3, worker_processes=4, node_name="n1/3").has_workers
    with pytest.raises(ConfigError, match="node_name: 'n1/3' is not valid"):
        Config(node_name="n1/3")
    with pytest.raises(ConfigError, match="node_name: 'n1/2' is not valid"):
        Config(worker=3, worker_processes=4, node_name="n1/2")
