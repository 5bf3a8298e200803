"""Flag over environment over file over default; what is unknown or wrong is named in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from amqp_broker.settings.config import SETTINGS, SETTINGS_BY_KEY
from amqp_broker.settings.kinds import Address
from amqp_broker.settings.setting import ConfigError, Setting
from amqp_broker.settings.sources import flags_of, resolve


def toml(folder: Path, text: str) -> Path:
    path = folder / "broker.toml"
    path.write_text(text)
    return path


def test_each_source_overrules_the_next(tmp_path: Path) -> None:
    file = toml(tmp_path, 'page_size = "1MiB"\nheartbeat = "10s"\nchannel_max = 10\n')
    environment = {"AMQP_BROKER_PAGE_SIZE": "2MiB", "AMQP_BROKER_HEARTBEAT": "20s", "HOME": "/"}
    resolved = resolve({"page_size": "3MiB"}, environment, file)
    config, origins = resolved.config, resolved.origins
    assert (config.page_size_bytes, origins["page_size"]) == (3 << 20, "flag --page-size")
    assert (config.heartbeat_ms, origins["heartbeat"]) == (20_000, "environment AMQP_BROKER_HEARTBEAT")
    assert (config.channel_max, origins["channel_max"]) == (10, f"file {file}")
    assert (config.frame_max, origins["frame_max"]) == (131072, "default")


def test_the_environment_can_name_the_file(tmp_path: Path) -> None:
    file = toml(tmp_path, "channel_max = 12\n")
    assert resolve({}, {"AMQP_BROKER_CONFIG": str(file)}).config.channel_max == 12


def test_toml_may_use_its_own_types(tmp_path: Path) -> None:
    file = toml(
        tmp_path,
        'listen = ["127.0.0.1:1", "[::1]:2"]\nrecover = true\n'
        "memory_budget = 268435456\nloopback_users = []\n"
        'disk_free_limit = "1GB"\nconsumer_timeout = "off"\n',
    )
    config = resolve(file=file).config
    assert config.listen == (Address("127.0.0.1", 1), Address("::1", 2))
    assert config.recover is True
    assert config.memory_budget_bytes == 268435456
    assert config.loopback_users == ()
    assert config.disk_free_limit_bytes == 10**9
    assert config.consumer_timeout_ms == 0


@pytest.mark.parametrize("each", SETTINGS, ids=lambda each: each.key)
def test_every_setting_is_reachable_from_every_source(each: Setting, tmp_path: Path) -> None:
    value = getattr(resolve().config, each.attribute)
    text = "guest" if each.is_secret else each.show(value)
    file = toml(tmp_path, f"{each.key} = '{text}'\n")
    for resolved in (resolve({each.key: text}), resolve({}, {each.variable: text}), resolve(file=file)):
        assert getattr(resolved.config, each.attribute) == value
        assert resolved.origins[each.key] != "default"


@pytest.mark.parametrize(
    ("flags", "environment", "line"),
    [
        (
            {"memory_budget": "12q"},
            {},
            "memory_budget: '12q' is not valid; allowed: a size .* (from flag --memory-budget)",
        ),
        (
            {"log_level": "loud"},
            {},
            "log_level: 'loud' is not valid; allowed: debug, info, warning, error (from flag",
        ),
        (
            {},
            {"AMQP_BROKER_HEARTBEAT": "60"},
            "heartbeat: '60' is not valid; allowed: a number with its unit",
        ),
        (
            {},
            {"AMQP_BROKER_HEARTBAET": "60s"},
            "heartbaet: '60s' .* perhaps heartbeat (from environment AMQP_BROKER_HEARTBAET)",
        ),
        ({}, {"AMQP_BROKER_FOO": "1"}, "foo: '1' .* `amqp-broker config`"),
    ],
)
def test_what_is_wrong_is_named_in_one_line(flags: dict[str, str], environment: dict[str, str], line: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        resolve(flags, environment)
    assert "\n" not in str(refusal.value)
    for part in line.split(" .* "):
        assert part in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("memroy_budget = '1GB'\n", "memroy_budget: '1GB' is given for a setting that does not exist"),
        ("heartbeat = 60\n", "heartbeat: '60' is not valid; allowed: a number with its unit"),
        ("channel_max = {a = 1}\n", "channel_max: "),
        ("channel_max = [1]\n", "channel_max: '[1]' is not valid"),
        ("[channel_max]\n", "channel_max: '{}' is not valid"),
        ("channel_max = \n", "is not TOML"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_the_file(text: str, part: str, tmp_path: Path) -> None:
    file = toml(tmp_path, text)
    with pytest.raises(ConfigError) as refusal:
        resolve(file=file)
    assert part in str(refusal.value)
    assert str(file) in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml' cannot be read"):
        resolve(file=tmp_path / "nowhere.toml")


def test_a_wrong_password_is_not_repeated() -> None:
    for variable in ("AMQP_BROKER_DEFAULT_PASSWORD", "AMQP_BROKER_DEFUALT_PASSWORD"):
        with pytest.raises(ConfigError) as refusal:
            resolve({}, {variable: "sword\0fish"})
        assert "fish" not in str(refusal.value)


def test_variables_of_others_are_left_alone() -> None:
    environment = {
        "AMQP_BROKER_PLAIN": "1",
        "AMQP_BROKER_PORT": "tcp://10.0.0.1:5672",
        "AMQP_BROKER_PORT_5672_TCP_ADDR": "10.0.0.1",
        "AMQP_BROKER_SERVICE_HOST": "10.0.0.1",
        "AMQP_BROKER_SERVICE_PORT_AMQP": "5672",
    }
    assert resolve({}, environment).config == resolve().config


def test_flags_for_settings_given_in_python() -> None:
    settings = {
        "memory_budget": "64MiB",
        "heartbeat_ms": 5000,
        "frame_max": 65536,
        "recover": True,
        "data_dir": Path("/var/lib/x"),
        "loopback_users": ["a", "b"],
        "delivery_limit": -1,
    }
    assert flags_of(settings) == [
        "--memory-budget=64MiB",
        "--heartbeat=5s",
        "--frame-max=64KiB",
        "--recover=true",
        "--data-dir=/var/lib/x",
        "--loopback-users=a,b",
        "--delivery-limit=off",
    ]


@pytest.mark.parametrize(
    "settings", [{"memory_bugdet": "64MiB"}, {"heartbeat": 5}, {"heartbeat_ms": "soon"}, {"recover": {}}]
)
def test_wrong_settings_given_in_python(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings)).removesuffix("_ms")):
        flags_of(settings)


def test_keys_are_unique() -> None:
    assert len(SETTINGS_BY_KEY) == len(SETTINGS)
