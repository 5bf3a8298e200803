"""Users, virtual hosts, permissions, policies and limits: made, changed, listed and removed; refusals in one line."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from typing import Any

import pytest

from amqp_broker.client import Connection
from amqp_broker.client.errors import ConnectFailed
from tests.cli.admin.conftest import Command

#: No UTF-8, what a terminal would obey, what splits paths and fields. Line ends are taken out of names by the broker.
ANY_OCTETS = "g\udcffn\x1b[31m/%\t,\"'ü"


def give_input(monkeypatch: pytest.MonkeyPatch, octets: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(octets), encoding="utf-8"))


def may_log_in(command: Command, user: str, password: str, vhost: str = "/") -> bool:
    try:
        with Connection.open(command.url.replace("guest:guest", f"{user}:{password}"), virtual_host=vhost):
            return True
    except ConnectFailed:
        return False


def named(rows: list[dict[str, Any]], name: str, key: str = "name") -> dict[str, Any]:
    (found,) = (row for row in rows if row[key] == name)
    return found


def test_a_users_life(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give_input(monkeypatch, b"first\n")
    assert "user 'ann' is made" in command.out("user", "add", "ann", "--password-stdin", "--tag", "monitoring")
    assert named(command.rows("users"), "ann") == {"name": "ann", "tags": ["monitoring"], "limits": {}}
    assert not may_log_in(command, "ann", "first"), "no permission yet"
    command.out("permission", "set", "ann", "^a", "", ".*")
    assert may_log_in(command, "ann", "first")

    file = tmp_path / "password"
    file.write_bytes("zweites Wört\r\n".encode())
    command.out("user", "password", "ann", "--password-file", str(file))
    assert not may_log_in(command, "ann", "first")
    assert may_log_in(command, "ann", "zweites%20W%C3%B6rt")
    command.out("user", "check", "ann", "--password-file", str(file))
    assert named(command.rows("users"), "ann")["tags"] == ["monitoring"], "tags stay"

    command.out("user", "tags", "ann", "management", "policymaker")
    assert named(command.rows("users"), "ann")["tags"] == ["management", "policymaker"]
    assert "has no tags" in command.out("user", "tags", "ann")
    assert "'ann' is deleted" in command.out("user", "delete", "ann")
    assert "no user 'ann'; `amqp-broker list users` shows" in command.refusal("user", "delete", "ann")


def test_what_users_cannot_be(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give_input(monkeypatch, b"")
    assert "use --password-stdin or --password-file FILE" in command.refusal("user", "add", "bob", status=2)
    assert "password for user 'bob' is empty" in command.refusal("user", "add", "bob", "--password-stdin")
    give_input(monkeypatch, b"\xff\n")
    assert "no UTF-8" in command.refusal("user", "add", "bob", "--password-stdin")
    missing = str(tmp_path / "none")
    assert f"{missing} cannot be read" in command.refusal("user", "add", "bob", "--password-file", missing)
    both = ("--password-stdin", "--password-file", missing)
    assert "exclude each other" in command.refusal("user", "add", "bob", *both, status=2)
    assert "--no-password excludes" in command.refusal("user", "add", "bob", "--no-password", *both[:1], status=2)
    assert "'guest' is there already" in command.refusal("user", "add", "guest", "--no-password")
    for words in (("password", "bob", "--no"), ("tags",)):
        command.refusal("user", *words, status=2)
    assert "no user 'bob'" in command.refusal("user", "tags", "bob", "management")
    assert "no user 'bob'" in command.refusal("user", "password", "bob", "--password-stdin")
    assert "the last one with the tag administrator" in command.refusal("user", "tags", "guest", "management")
    give_input(monkeypatch, b"wrong")
    text = command.refusal("user", "check", "guest", "--password-stdin")
    assert text == "amqp-broker: login of user 'guest' from 127.0.0.1 refused\n"
    assert all(row["name"] != "bob" for row in command.rows("users"))


def test_a_password_is_no_argument(command: Command) -> None:
    assert "unexpected extra argument" in command.refusal("user", "add", "eve", "secret", status=2)


def test_who_comes_with_a_certificate(command: Command) -> None:
    command.out("user", "add", "device", "--no-password")
    assert not may_log_in(command, "device", "")
    command.out("user", "delete", "device")


def test_names_of_any_octets(command: Command) -> None:
    assert "g\\xffn" in command.out("vhost", "add", ANY_OCTETS, "--for-user", "guest")
    assert "\x1b" not in command.out("list", "vhosts")
    assert named(command.rows("vhosts"), ANY_OCTETS)["exchanges"] == 7
    command.out("user", "add", ANY_OCTETS, "--no-password")
    command.out("permission", "set", ANY_OCTETS, "^a", "^b", "^c", "--vhost", ANY_OCTETS)
    patterns = {"configure": "^a", "write": "^b", "read": "^c"}
    row = named(command.rows("permissions", "--vhost", ANY_OCTETS), ANY_OCTETS, "user")
    assert row == {"vhost": ANY_OCTETS, "user": ANY_OCTETS, **patterns}
    command.out("queue", "declare", ANY_OCTETS, "--vhost", ANY_OCTETS)
    command.out("exchange", "declare", ANY_OCTETS, "topic", "--vhost", ANY_OCTETS)
    binding = (ANY_OCTETS, ANY_OCTETS, "--key", ANY_OCTETS, "--vhost", ANY_OCTETS)
    command.out("binding", "add", *binding)
    found = [row for row in command.rows("bindings", "--vhost", ANY_OCTETS) if row["source"] == ANY_OCTETS]
    assert [(row["destination"], row["routing_key"]) for row in found] == [(ANY_OCTETS, ANY_OCTETS)]
    printed = command.out("list", "queues", "--csv", "--columns", "name", "--vhost", ANY_OCTETS)
    assert next(csv.reader([printed.splitlines()[1]])) == [ANY_OCTETS.replace("\udcff", "\\udcff")]
    command.out("binding", "delete", *binding)
    command.out("policy", "set", ANY_OCTETS, "^x", '{"max-length": 1}', "--vhost", ANY_OCTETS)
    command.out("policy", "clear", ANY_OCTETS, "--vhost", ANY_OCTETS)
    command.out("queue", "purge", ANY_OCTETS, "--vhost", ANY_OCTETS)
    command.out("queue", "delete", ANY_OCTETS, "--vhost", ANY_OCTETS)
    assert "\x1b" not in command.refusal("queue", "delete", ANY_OCTETS, "--vhost", ANY_OCTETS)
    command.out("exchange", "delete", ANY_OCTETS, "--vhost", ANY_OCTETS)
    command.out("user", "delete", ANY_OCTETS)
    command.out("vhost", "delete", ANY_OCTETS)


def test_virtual_hosts(command: Command) -> None:
    command.out("vhost", "add", "v1", "--description", "one")
    assert named(command.rows("vhosts"), "v1")["description"] == "one"
    assert "'v1' is there already" in command.refusal("vhost", "add", "v1")
    assert "no user 'nix'" in command.refusal("vhost", "add", "v2", "--for-user", "nix")
    changes = ("--description", "two", "--tag", "a", "--tag", "b", "--default-queue-type", "quorum", "--tracing")
    assert "'v1' is changed" in command.out("vhost", "change", "v1", *changes)
    columns = ("--columns", "name,description,tags,default_queue_type,tracing")
    described = {"name": "v1", "description": "two", "tags": ["a", "b"], "default_queue_type": "quorum"}
    assert named(command.rows("vhosts", *columns), "v1") == {**described, "tracing": True}
    command.out("vhost", "change", "v1", "--no-tracing")
    assert named(command.rows("vhosts", *columns), "v1") == {**described, "tracing": False}
    assert "nothing to change" in command.refusal("vhost", "change", "v1", status=2)
    assert "classic" in command.refusal("vhost", "change", "v1", "--default-queue-type", "nix")
    assert "no vhost 'v2'" in command.refusal("vhost", "change", "v2", "--description", "x")
    command.out("vhost", "protect", "v1")
    assert named(command.rows("vhosts", "--columns", "name,protected_from_deletion"), "v1")["protected_from_deletion"]
    assert "protected from deletion" in command.refusal("vhost", "delete", "v1")
    command.out("vhost", "unprotect", "v1")
    command.out("vhost", "delete", "v1")
    assert "no vhost 'v1'; `amqp-broker list vhosts`" in command.refusal("vhost", "delete", "v1")


def test_permissions(command: Command) -> None:
    command.out("vhost", "add", "v")
    command.out("permission", "set", "guest", "^a", "", ".*", "--vhost", "v")
    assert command.rows("permissions", "--vhost", "v") == [
        {"vhost": "v", "user": "guest", "configure": "^a", "write": "", "read": ".*"}
    ]
    assert "no user 'nix'" in command.refusal("permission", "set", "nix", "", "", "", "--vhost", "v")
    assert "no vhost 'nix'" in command.refusal("permission", "set", "guest", "", "", "", "--vhost", "nix")
    assert "(" in command.refusal("permission", "set", "guest", "(", "", "", "--vhost", "v")
    command.out("permission", "clear", "guest", "--vhost", "v")
    assert "no permission 'guest' in vhost 'v'" in command.refusal("permission", "clear", "guest", "--vhost", "v")

    command.out("topic-permission", "set", "guest", "amq.topic", "^a", "^b", "--vhost", "v")
    (row,) = command.rows("topic-permissions", "--vhost", "v")
    assert (row["exchange"], row["write"], row["read"]) == ("amq.topic", "^a", "^b")
    command.out("topic-permission", "clear", "guest", "amq.topic", "--vhost", "v")
    assert "no topic permission 'guest'" in command.refusal(
        "topic-permission", "clear", "guest", "amq.topic", "--vhost", "v"
    )
    command.out("vhost", "delete", "v")


def test_policies(command: Command) -> None:
    definition = '{"max-length": 1000, "overflow": "reject-publish"}'
    command.out("policy", "set", "p", "^q", definition, "--priority", "7", "--apply-to", "queues")
    row = named(command.rows("policies"), "p")
    assert (row["priority"], row["apply-to"], row["pattern"]) == (7, "queues", "^q")
    assert row["definition"] == {"max-length": 1000, "overflow": "reject-publish"}
    mirrored = command.out("policy", "set", "mirrored", "^m", '{"ha-mode": "all", "expires": 1000000}')
    assert "  definition.ha-mode has no effect here: there are no mirrored queues" in mirrored
    assert "expires" not in mirrored
    command.out("policy", "clear", "mirrored")
    command.out("policy", "set", "p", "^q", '{"max-length": 9}', "--operator")
    assert named(command.rows("operator-policies", "--vhost", "/"), "p")["definition"] == {"max-length": 9}
    assert "has to be a JSON object" in command.refusal("policy", "set", "p", "^q", "[1]", status=2)
    assert "is no JSON" in command.refusal("policy", "set", "p", "^q", "{", status=2)
    assert "did you mean max-length?" in command.refusal("policy", "set", "p", "^q", '{"max-lenth": 1}')
    command.out("policy", "clear", "p")
    assert "no policy 'p' in vhost '/'; `amqp-broker list policies`" in command.refusal("policy", "clear", "p")
    command.out("policy", "clear", "p", "--operator")
    assert "list operator-policies" in command.refusal("policy", "clear", "p", "--operator")


def test_limits(command: Command) -> None:
    command.out("vhost", "add", "v")
    command.out("limit", "set", "max-queues", "3", "--vhost", "v")
    command.out("limit", "set", "max-connections", "4", "--vhost", "v")
    assert named(command.rows("vhost-limits"), "v", "vhost")["value"] == {"max-queues": 3, "max-connections": 4}
    command.out("limit", "clear", "max-queues", "--vhost", "v")
    assert named(command.rows("vhosts"), "v")["limits"] == {"max-connections": 4}
    assert "it has: max-connections" in command.refusal("limit", "clear", "max-queues", "--vhost", "v")
    assert "these are: max-connections, max-queues" in command.refusal("limit", "set", "max-x", "1", "--vhost", "v")
    command.out("limit", "clear", "all", "--vhost", "v")
    assert all(row["vhost"] != "v" for row in command.rows("vhost-limits"))
    command.out("user", "add", "carl", "--no-password")
    command.out("limit", "set", "max-channels", "5", "--user", "carl")
    assert named(command.rows("user-limits"), "carl", "user")["value"] == {"max-channels": 5}
    command.out("user", "delete", "carl")
    command.out("vhost", "delete", "v")
    assert "no user 'carl'" in command.refusal("limit", "set", "max-channels", "5", "--user", "carl")
    assert "name one" in command.refusal("limit", "set", "max-channels", "5", status=2)
    assert "name one" in command.refusal("limit", "set", "max-queues", "5", "--user", "a", "--vhost", "b", status=2)


def test_parameters(command: Command) -> None:
    command.out("parameter", "set", "shovel", "s1", '{"n": 1}')
    command.out("parameter", "set", "shovel", "s2", "plain text")
    rows = command.rows("parameters", "--vhost", "/")
    assert [(row["name"], row["value"]) for row in rows] == [("s1", {"n": 1}), ("s2", "plain text")]
    command.out("parameter", "clear", "shovel", "s1")
    command.out("parameter", "clear", "shovel", "s2")
    assert "no parameter 'shovel s1'" in command.refusal("parameter", "clear", "shovel", "s1")
    command.out("global-parameter", "set", "contact", '"ops"')
    assert named(command.rows("global-parameters"), "contact")["value"] == "ops"
    command.out("global-parameter", "clear", "contact")
    assert "list global-parameters" in command.refusal("global-parameter", "clear", "contact")


def test_what_ends_its_own_connection_says_what_it_has_done(
    command: Command, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    give_input(monkeypatch, b"secret\n")
    command.out("user", "add", "eve", "--password-stdin", "--tag", "administrator")
    command.out("vhost", "add", "eve's", "--for-user", "eve")
    command.out("permission", "set", "eve", ".*", ".*", ".*")
    own = Command(capsys, command.url.replace("guest:guest", "eve:secret"))
    assert "connections of user 'eve' are closed" in own.out("connection", "close", "--user", "eve")
    assert "connections of user 'eve' are closed" in own.out("connection", "close", "--user", "eve", "--reason", "wö")
    within = Command(capsys, f"{own.url.rpartition('/')[0]}/eve's")
    assert within.out("vhost", "delete", "eve's") == "virtual host 'eve's' is deleted\n"
    assert own.out("user", "delete", "eve") == "user 'eve' is deleted\n"
    assert "eve" not in [row["name"] for row in command.rows("users")]
