"""`amqp-broker inspect`: a folder written by a real broker, whole and damaged; nothing is ever changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import amqp_broker
from amqp_broker.cli.main import main
from amqp_broker.client import Connection
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.methods import ConfirmSelect, ExchangeDeclare, QueueDeclare
from amqp_broker.protocol.properties import Properties
from amqp_broker.system_client import SystemClient
from queues.arguments import QueueArguments
from storage.disk import FileDisk
from tests.queues.queue_world import Client, World, message_named

MESSAGES = 3000
TAKEN = 10
PERSISTENT = {"delivery_mode": 2}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with one queue that has partly moved to pages."""
    folder = tmp_path_factory.mktemp("inspect") / "data"
    with amqp_broker.running(folder, memory_budget="1MiB", page_size="64KiB") as broker:
        with Connection.open(broker.url) as connection, connection.channel() as channel:
            channel.call(QueueDeclare(0, "orders", False, True, False, False, False, Table()))
            channel.call(QueueDeclare(0, "empty", False, True, False, False, False, Table()))
            for _ in range(MESSAGES):
                channel.publish("", "orders", b"x" * 1000, PERSISTENT)
            channel.call(ConfirmSelect(False))
            for _ in range(TAKEN):
                assert channel.get("orders", no_ack=True) is not None
        broker.stop()
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    for name, octets in contents(written).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(octets)
    return tmp_path


def flip(path: Path, offset: int) -> None:
    octets = bytearray(path.read_bytes())
    octets[offset] ^= 0x40
    path.write_bytes(octets)


def test_a_whole_folder(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(written)
    assert main(["inspect", str(written)]) == 0
    report = capsys.readouterr().out
    assert f"orders  {MESSAGES - TAKEN} messages" in report
    assert "empty  0 messages" in report
    assert "whole: the broker can start on it" in report
    assert "  0  metadata of " in report
    assert " log entries" in report
    assert "of kind" not in report
    assert contents(written) == before


def test_every_kind_of_journal_entry_has_a_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    disk = FileDisk(tmp_path)
    disk.lock()
    world = World(disk, [QueueArguments(delivery_limit=5)])
    queue = world.queues[0]
    for name in range(1, 101):
        world.vhost.publish(message_named(name, 60), [queue], world.now)
    for _ in range(8):
        world.sync()
    while (entry := queue.get(world.now)) is not None:
        if entry.sequence == 100 and not entry.returns:
            queue.take_held(entry, Client([], 1))
            queue.put_back([entry], world.now)
        else:
            queue.forget(entry)
    world.sync()
    disk.close()
    assert main(["inspect", str(tmp_path)]) == 0
    report = capsys.readouterr().out
    for kind in ("enqueues", "settlements", "page lists", "returns", "page releases"):
        assert f" {kind}" in report
    assert "of kind" not in report


def test_a_whole_folder_as_json(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "--json", str(written)]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {queue["name"]: queue["messages"] for queue in report["queues"]} == {
        "orders": MESSAGES - TAKEN,
        "empty": 0,
    }
    assert report["is_damaged"] is False
    (metadata,) = [group for group in report["groups"] if not group["group"]]
    assert metadata["entries"] == metadata["last_index"] - metadata["checkpoint_index"] > 0
    assert len(metadata["voters"]) == 1
    assert report["is_in_use"] is False
    assert report["folder"]["queues"][0]["pages"] > 0, "some have moved to pages"


def test_a_folder_of_a_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (
        amqp_broker.running_cluster(2, tmp_path) as cluster,
        Connection.open(cluster.urls[0]) as connection,
        connection.channel() as channel,
    ):
        quorum = Table({"x-queue-type": "quorum"})
        channel.call(QueueDeclare(0, "safe", False, True, False, False, False, quorum))
        channel.call(QueueDeclare(0, "here", False, True, False, False, False, Table()))
        channel.call(QueueDeclare(0, "passing", False, False, False, False, False, Table()))
        channel.confirm_select()
        for _ in range(5):
            channel.publish("", "safe", b"x" * 100, PERSISTENT)
        channel.publish("", "here", b"y", PERSISTENT)
        delaying = Table({"x-delayed-type": "fanout"})
        channel.call(ExchangeDeclare(0, "later", "x-delayed-message", False, True, False, False, False, delaying))
        for _ in range(3):
            channel.publish("later", "", b"z", Properties(delivery_mode=2, headers=Table({"x-delay": 600_000})))
        assert channel.wait_for_confirms() == []
        assert channel.get("safe", no_ack=True) is not None
        with SystemClient(cluster.urls[1]) as client:
            assert client.request("queue.list", vhost="/")["delayed"] == [{"exchange": "later", "messages": 3}]
            assert client.request("statistics")["statistics"]["messages_delayed"] == 3
    for name in ("n1", "n2"):
        assert main(["inspect", str(tmp_path / name)]) == 0
        report = capsys.readouterr().out
        assert "safe  4 messages, 400 B (quorum)" in report
        assert f"here  {1 if name == 'n1' else 0} messages" in report
        assert "(lives on n1)" in report
        assert "later  3 messages" in report
        assert "groups    9" in report
        assert "metadata of n1, n2" in report
        assert "passing" not in report
        assert "of kind" not in report
        assert "memory    folder " in report
        assert f"  has seen {'n2' if name == 'n1' else 'n1'}: folder " in report


def damage_journal(folder: Path) -> str:
    flip(folder / "journal" / "00000001.log", 5000)
    return "journal/00000001.log"


def damage_page(folder: Path) -> str:
    path = sorted((folder / "queues").rglob("*.seg"))[0]
    flip(path, 5000)
    return str(path.relative_to(folder))


@pytest.mark.parametrize("damage", [damage_journal, damage_page], ids=lambda each: each.__name__)
def test_a_damaged_folder_is_reported_and_left_as_it_is(
    damage: Callable[[Path], str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = damage(folder)
    before = contents(folder)
    assert main(["inspect", str(folder)]) == 1
    report = capsys.readouterr().out
    assert f"bad record: {where}" in report
    assert "--recover" in report, "the way out"
    assert contents(folder) == before


def test_a_torn_tail_is_no_damage(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open(folder / "journal" / "00000001.log", "ab") as journal:
        journal.write(b"half a rec")
    before = contents(folder)
    assert main(["inspect", str(folder)]) == 0
    assert "torn tail" in capsys.readouterr().out
    assert contents(folder) == before


def test_a_folder_in_use_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with amqp_broker.running(tmp_path) as broker:
        assert main(["inspect", "--json", str(broker.data_dir)]) == 0
        assert json.loads(capsys.readouterr().out)["is_in_use"] is True


@pytest.mark.parametrize(
    ("format_file", "said"),
    [
        ('{"format": "amqp-broker data folder", "version": 999}', "version 999"),
        ('{"format": "amqp-broker data folder", "version": 1}', "version 1 "),
        ('{"format": "diary", "version": 4}', "'diary'"),
        ("dear diary", "cannot be read"),
    ],
)
def test_a_folder_of_another_format_is_not_called_whole(
    format_file: str, said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "FORMAT").write_text(format_file)
    before = contents(folder)
    for flags in ([], ["--json"]):
        assert main(["inspect", *flags, str(folder)]) == 2
        captured = capsys.readouterr()
        assert captured.out == "", "nothing that looks like a report"
        assert str(folder) in captured.err
        assert said in captured.err
    assert contents(folder) == before


def test_an_empty_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(tmp_path)]) == 2
    assert "empty" in capsys.readouterr().err


def test_a_folder_of_somebody_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "diary.txt").write_text("dear diary")
    assert main(["inspect", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert str(tmp_path) in captured.err


def test_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(tmp_path / "nowhere")]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_folders_of_workers_are_looked_at_with_that_of_their_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = tmp_path / "node"
    with amqp_broker.running(node, workers=2, spread_groups=True) as broker:
        with Connection.open(broker.url) as connection, connection.channel() as channel:
            channel.confirm_select()
            for number in range(8):
                channel.call(QueueDeclare(0, f"q{number}", False, True, False, False, False, Table()))
                channel.publish("", f"q{number}", b"x", PERSISTENT)
            with SystemClient(broker.url) as client:
                for number in range(40):  # groups whose leaders are not known yet get none
                    lasting = Table({"x-queue-type": "quorum"})
                    channel.call(QueueDeclare(0, f"lasting{number}", False, True, False, False, False, lasting))
                    channel.publish("", f"lasting{number}", b"x", PERSISTENT)
                    assert channel.wait_for_confirms(30) == []
                    listed = client.request("objects.page", kind="queues", columns=["name", "node"])["rows"]
                    if len({home for name, home in listed if name.startswith("lasting")}) == 2:
                        break
        broker.stop()
    homes = dict(listed)
    assert len({home for name, home in homes.items() if name.startswith("lasting")}) == 2, "groups are at both"
    assert len(set(homes.values())) == 2
    assert main(["inspect", str(node), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (other,) = found["workers"]
    here = {each["name"]: each["messages"] for each in found["queues"]}
    there = {each["name"]: each["messages"] for each in other["queues"]}
    listed_here = [name for name, home in homes.items() if name.startswith("q") or "/" not in home]
    assert here == {name: int("/" not in homes[name]) for name in listed_here}
    assert there == {name: 1 for name, home in homes.items() if "/" in home}

    assert main(["inspect", str(node / "workers" / "1"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["queues"] == other["queues"]
    (journal,) = (node / "workers" / "1" / "journal").glob("*.log")
    flip(journal, 40)
    assert main(["inspect", str(node)]) == 1
    said = capsys.readouterr().out
    assert said.index("whole: the broker can start on it") < said.index("damaged: restore a copy")
