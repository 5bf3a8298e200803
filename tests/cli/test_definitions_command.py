"""`amqp-broker definitions`: out of one broker and into another, running or stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import amqp_broker
from amqp_broker.cli.main import main
from amqp_broker.client import Connection
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.methods import ExchangeDeclare, QueueBind, QueueDeclare
from amqp_broker.system_client import SystemClient


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["definitions", *arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def export(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, list[dict[str, object]]]:
    status, out, err = run(capsys, "export", *arguments)
    assert (status, err) == (0, "")
    found: dict[str, list[dict[str, object]]] = json.loads(out)
    return found


def names(definitions: dict[str, list[dict[str, object]]], category: str) -> list[object]:
    return [each["name"] for each in definitions[category]]


def declare(url: str) -> None:
    with Connection.open(url) as connection, connection.channel() as channel:
        channel.call(ExchangeDeclare(0, "shop", "topic", False, True, False, False, False, Table()))
        channel.call(QueueDeclare(0, "orders", False, True, False, False, False, Table({"x-max-length": 10})))
        channel.call(QueueBind(0, "orders", "shop", "order.#", False, Table()))
    with SystemClient(url) as client:
        client.request("user.put", name="ann", password="secret", tags=["monitoring"])
        client.request("permission.put", user="ann", vhost="/", configure="", write="", read=".*")
        client.request("policy.put", vhost="/", name="ttl", pattern="^o", definition={"message-ttl": 60000})


def test_out_of_a_running_broker_and_into_a_stopped_one_and_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "definitions.json")
    first, second = tmp_path / "first", tmp_path / "second"
    with amqp_broker.running(first) as broker:
        declare(broker.url)
        assert run(capsys, "export", file, "--url", broker.url)[0] == 0
        live = export(capsys, "--url", broker.url)
    assert json.loads(Path(file).read_text()) == live
    assert export(capsys, "--data-dir", str(first)) == live, "stopped, it says the same"

    with amqp_broker.running(second):
        pass
    status, out, _ = run(capsys, "import", file, "--data-dir", str(second))
    assert (status, out.endswith("changes made\n")) == (0, True)
    with amqp_broker.running(second) as broker:
        moved = export(capsys, "--url", broker.url)
        status, out, _ = run(capsys, "import", file, "--url", broker.url)
        assert (status, out) == (0, "nothing to change: all of it was there\n")
        with Connection.open(broker.url.replace("guest:guest", "ann:secret")) as connection:
            assert connection.is_open, "the password came along"
    for category in ("queues", "exchanges", "bindings", "policies", "permissions"):
        assert sorted(map(str, moved[category])) == sorted(map(str, live[category])), category
    assert set(names(moved, "users")) == set(names(live, "users")) == {"ann", "guest"}


def test_one_virtual_host_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with amqp_broker.running(tmp_path / "data") as broker:
        declare(broker.url)
        part = export(capsys, "--url", broker.url, "--vhost", "/")
    assert "users" not in part
    assert names(part, "queues") == ["orders"]


def test_what_cannot_be_imported_is_one_line_and_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "definitions.json"
    with amqp_broker.running(tmp_path / "data") as broker:
        before = export(capsys, "--url", broker.url)
        for text, part in (
            ("{", "not JSON"),
            ('{"queues": [{"name": "q", "vhost": "nowhere"}]}', "queues[0]"),
            ('{"vhosts": [{"name": "v"}], "queues": 5}', "queues"),
        ):
            file.write_text(text)
            status, out, err = run(capsys, "import", str(file), "--url", broker.url)
            assert (status, out, err.count("\n")) == (2, "", 1)
            assert part in err
        assert export(capsys, "--url", broker.url) == before


def test_places_that_are_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, part in (
        (["--data-dir", str(tmp_path)], str(tmp_path)),
        (["--url", "amqp://127.0.0.1:1"], "127.0.0.1:1"),
        (["--url", "http://127.0.0.1"], "http://127.0.0.1"),
        (["--url", "amqp://h", "--data-dir", "d"], "exclude each other"),
    ):
        status, out, err = run(capsys, "export", *arguments)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert part in err
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_running_broker_is_left_to_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with amqp_broker.running(tmp_path) as broker:
        status, out, err = run(capsys, "export", "--data-dir", str(tmp_path))
        assert (status, out) == (2, "")
        assert f"process {broker.process.pid}" in err


def test_a_user_who_is_no_administrator_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with amqp_broker.running() as broker:
        with SystemClient(broker.url) as client:
            client.request("user.put", name="bob", password="secret", tags=[])
            client.request("permission.put", user="bob", vhost="/", configure=".*", write=".*", read=".*")
        status, _, err = run(capsys, "export", "--url", broker.url.replace("guest:guest", "bob:secret"))
        assert status == 2
        assert "administrator" in err


def test_what_an_import_would_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, folder = tmp_path / "definitions.json", tmp_path / "data"
    queue = {"name": "new", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    file.write_text(json.dumps({"queues": [queue, {**queue, "name": "chosen"}]}))
    with amqp_broker.running(folder) as broker:
        status, out, _ = run(capsys, "diff", str(file), "--url", broker.url)
        assert (status, out.splitlines()[0]) == (0, "add queues[0] vhost=/ name=new")
        assert out.splitlines()[-1].startswith("2 add, 0 change, 0 conflict, ")
        assert json.loads(run(capsys, "diff", str(file), "--json", "--url", broker.url)[1])["counts"]["add"] == 2
        dry = run(capsys, "import", str(file), "--dry-run", "--url", broker.url)
        assert dry[:2] == (0, "2 changes would be made\n")
        assert run(capsys, "import", str(file), "--only", "queues[1]", "--url", broker.url)[1] == "1 changes made\n"
        assert "there is no 'queues[9]'" in run(capsys, "import", str(file), "--only", "queues[9]")[2]
    assert run(capsys, "import", str(file), "--dry-run", "--data-dir", str(folder))[1] == "1 changes would be made\n"
    assert names(export(capsys, "--data-dir", str(folder)), "queues") == ["chosen"]
