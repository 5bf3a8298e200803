"""`amqp_broker.running`: started, used, restarted, stopped; and what happens when it cannot start."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

import amqp_broker
from amqp_broker.client import Connection
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.methods import QueueDeclare
from amqp_broker.settings.setting import ConfigError

PERSISTENT = {"delivery_mode": 2}


def is_alive(broker: amqp_broker.RunningBroker) -> bool:
    with socket.create_connection((broker.host, broker.port), timeout=10) as client:
        client.sendall(b"AMQP\0\0\x09\x01")
        return client.recv(1) == b"\x01"


def test_it_is_there_inside_and_gone_after() -> None:
    with amqp_broker.running() as broker:
        process, folder = broker.process, broker.data_dir
        assert is_alive(broker)
        assert broker.url == f"amqp://guest:guest@127.0.0.1:{broker.port}/%2F"
        assert (folder / "FORMAT").exists()
    assert process.poll() == 0
    assert not folder.exists()


async def test_it_is_an_async_context_manager_too() -> None:
    async with amqp_broker.running() as broker:
        process = broker.process
        assert is_alive(broker)
    assert process.poll() == 0


async def test_a_cancelled_start_leaves_nothing_behind() -> None:
    broker = amqp_broker.running()
    starting = asyncio.ensure_future(broker.__aenter__())
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    with pytest.raises(RuntimeError, match="not running"):
        _ = broker.process


def test_a_given_folder_is_kept(tmp_path: Path) -> None:
    with amqp_broker.running(tmp_path / "data") as broker:
        assert broker.data_dir == tmp_path / "data"
    assert (tmp_path / "data" / "FORMAT").exists()


def test_settings_are_keywords() -> None:
    with (
        amqp_broker.running(
            default_user="ann", default_password="p@ss/word", default_vhost="a/b", channel_max=5
        ) as broker,
        Connection.open(broker.url) as connection,
    ):
        assert broker.url == f"amqp://ann:p%40ss%2Fword@127.0.0.1:{broker.port}/a%2Fb"
        assert connection.channel_max == 5


def test_a_password_does_not_show_in_the_process_list() -> None:
    with amqp_broker.running(default_password="swordfish") as broker:
        command_line = Path(f"/proc/{broker.process.pid}/cmdline")
        if command_line.exists():
            assert b"swordfish" not in command_line.read_bytes()
        assert not any("swordfish" in str(part) for part in broker.process.args)  # type: ignore[union-attr]


def test_settings_of_the_callers_environment_are_not_for_this_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMQP_BROKER_LISTEN", "not an address")
    monkeypatch.setenv("AMQP_BROKER_URL", "amqp://elsewhere")
    with amqp_broker.running() as broker:
        assert is_alive(broker)


@pytest.mark.parametrize("settings", [{"memory_bugdet": "1GB"}, {"heartbeat": "soon"}, {"listen": "5672"}])
def test_a_wrong_setting_is_refused_at_once(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="allowed:"):
        amqp_broker.running(**settings)


def test_a_broker_that_cannot_start_says_why_in_its_own_words(tmp_path: Path) -> None:
    (tmp_path / "diary.txt").write_text("dear diary")
    broker = amqp_broker.running(tmp_path)
    with pytest.raises(amqp_broker.BrokerStartError) as failure:
        broker.start()
    assert failure.value.status == 2
    assert "diary.txt" in failure.value.log
    assert failure.value.log.rstrip() in str(failure.value)
    assert [path.name for path in tmp_path.iterdir()] == ["diary.txt"]


def test_a_start_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(amqp_broker.BrokerStartError, match="not ready within") as failure:
        amqp_broker.running(start_timeout_s=0.0).start()
    assert failure.value.status is None


def test_two_at_once_do_not_meet() -> None:
    with amqp_broker.running() as first, amqp_broker.running() as second:
        assert first.port != second.port
        assert first.data_dir != second.data_dir


def test_what_was_confirmed_is_there_after_a_crash() -> None:
    with amqp_broker.running() as broker:
        url = broker.url
        with Connection.open(url) as connection, connection.channel() as channel:
            channel.call(QueueDeclare(0, "orders", False, True, False, False, False, Table()))
            channel.publish("", "orders", b"one coffee", PERSISTENT)
            assert channel.call(QueueDeclare(0, "orders", True, True, False, False, False, Table())).message_count == 1
        broker.restart()
        broker.restart(kill=True)
        assert broker.url == url, "clients find it where it was"
        with Connection.open(url) as connection, connection.channel() as channel:
            delivery = channel.get("orders", no_ack=True)
            assert delivery is not None
            assert delivery.body == b"one coffee"


def test_its_log_can_be_read() -> None:
    with amqp_broker.running(log_level="debug") as broker:
        broker.process.send_signal(signal.SIGTERM)
        broker.process.wait()
        assert isinstance(broker.logs, str)
    assert broker.logs == "", "gone with the broker"


def test_stop_is_harmless_twice_and_after_the_broker_has_died() -> None:
    broker = amqp_broker.running().start()
    broker.process.kill()
    broker.process.wait()
    broker.stop()
    broker.stop()


def test_what_is_not_running_says_so() -> None:
    broker = amqp_broker.running()
    for use in (lambda: broker.process, lambda: broker.data_dir, broker.restart):
        with pytest.raises(RuntimeError, match=r"running|started"):
            use()
    with broker, pytest.raises(RuntimeError, match="already runs"):
        broker.start()


def test_it_outlives_the_thread_that_started_it() -> None:
    started: list[amqp_broker.RunningBroker] = []
    thread = threading.Thread(target=lambda: started.append(amqp_broker.running().start()))
    thread.start()
    thread.join()
    (broker,) = started
    try:
        assert is_alive(broker)
    finally:
        broker.stop()


def test_a_forked_copy_of_the_caller_leaves_it_alone() -> None:
    with amqp_broker.running() as broker:
        copy = os.fork()
        if copy == 0:
            broker.stop()
            os._exit(0)
        _, status = os.waitpid(copy, 0)
        assert status == 0
        assert is_alive(broker)
        assert broker.data_dir.exists()
