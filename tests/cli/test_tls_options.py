"""Commands that connect, against a broker that speaks TLS and wants certificates of its clients."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import click
import pytest

from amqp_broker.cli.main import command as whole_command
from amqp_broker.cli.main import main
from tests.docs.blocks import block_named
from tests.spark_connector.tls_place import TlsPlace, tls_place

COMMANDS = (("definitions", "export"), ("cluster", "status", "--json"), ("list", "nodes", "--json"))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsPlace]:
    with tls_place(tmp_path_factory.mktemp("tls")) as place:
        yield place


def known(place: TlsPlace) -> list[str]:
    return ["--url", place.url, "--ca-file", place.ca, "--cert-file", place.cert, "--key-file", place.key]


@pytest.mark.parametrize("command", COMMANDS, ids="-".join)
def test_whom_both_sides_trust_is_served(
    command: tuple[str, ...], place: TlsPlace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, *known(place)]) == 0
    assert json.loads(capsys.readouterr().out)


def commands_below(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands_below(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command


def test_whatever_names_a_broker_takes_certificates() -> None:
    options = {name: {each.name for each in command.params} for name, command in commands_below(whole_command)}
    connecting = {name: taken for name, taken in options.items() if "url" in taken}
    assert len(connecting) > 50
    assert [name for name, taken in connecting.items() if not {"ca_file", "cert_file", "key_file"} <= taken] == []


def test_pages_are_served_beside_it(place: TlsPlace) -> None:
    """The node is asked, and what a user may do is done as this user, over TLS."""
    command = [sys.executable, "-P", "-m", "amqp_broker", "management", *known(place), "--listen", "127.0.0.1:0",
               "--prometheus-listen", "off"]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            assert process.stdout is not None
            said = process.stderr.readline()
            assert said.startswith("http on http://"), said
            assert process.stdout.readline() == "ready\n"
            url = said.split()[-1]
            headers = {"authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="}
            with urlopen(Request(f"{url}api/overview", headers=headers)) as answer:
                assert json.load(answer)["node"]
            body = b'{"durable": true}'
            put = Request(f"{url}api/queues/%2F/by-http", data=body, headers=headers, method="PUT")
            with urlopen(put) as answer:
                assert answer.status == 201
        finally:
            process.terminate()


def test_the_page_says_how(place: TlsPlace, capsys: pytest.CaptureFixture[str]) -> None:
    """As it stands there, but for the broker and the names of the files."""
    real = {"amqps://admin:secret@HOST/": place.url, "ca.pem": place.ca, "me.pem": place.cert, "me-key.pem": place.key}
    words = [real.get(word, word) for word in shlex.split(block_named("a status over TLS"))]
    assert words[0] == "amqp-broker"
    assert main(words[1:]) == 0
    assert "this node" in capsys.readouterr().out


def test_definitions_are_imported(place: TlsPlace, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "f.json").write_text('{"queues": [{"name": "q", "vhost": "/", "durable": true, "arguments": {}}]}')
    assert main(["definitions", "import", str(tmp_path / "f.json"), *known(place)]) == 0
    assert "1 changes made" in capsys.readouterr().out


def test_a_queue_is_declared(place: TlsPlace, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["queue", "declare", "over-tls", *known(place)]) == 0
    assert capsys.readouterr().out.startswith("queue 'over-tls' is declared")


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "name its authority with --ca-file"),
        ({"ca": "other_ca"}, "name its authority with --ca-file"),
        ({"ca": "ca"}, "this one's is missing: name one with --cert-file"),
        ({"ca": "ca", "cert": "other_cert"}, "may not be one that it trusts"),
        ({"ca": "ca", "key": "key"}, "name that with --cert-file"),
        ({"ca": "ca", "cert": "cert", "key": "other_cert"}, "not that of the certificate"),
        ({"ca": "key"}, "no certificates in PEM"),
    ],
)
@pytest.mark.parametrize("command", COMMANDS, ids="-".join)
def test_who_is_not_trusted_is_told_what_to_name(
    command: tuple[str, ...],
    files: dict[str, str],
    said: str,
    place: TlsPlace,
    capsys: pytest.CaptureFixture[str],
) -> None:
    flags = [part for flag, name in files.items() for part in (f"--{flag}-file", getattr(place, name))]
    assert main([*command, "--url", place.url, *flags]) in ((1, 2) if command[0] == "list" else (2,))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert said in captured.err


def test_a_port_without_tls(place: TlsPlace, capsys: pytest.CaptureFixture[str]) -> None:
    url = place.plain.replace("amqp:", "amqps:")
    assert main(["cluster", "status", "--url", url, "--ca-file", place.ca]) == 2
    assert "there is no TLS at this port" in capsys.readouterr().err


@pytest.mark.parametrize("command", [*COMMANDS, ("drain", "q", "--to", "nowhere")], ids=lambda each: each[0])
def test_certificates_make_no_sense_without_tls(
    command: tuple[str, ...], place: TlsPlace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--url", place.plain, "--ca-file", place.ca]) == 2
    assert "write amqps://" in capsys.readouterr().err


def test_the_load_generator_measures_over_tls(place: TlsPlace, capsys: pytest.CaptureFixture[str]) -> None:
    """Small messages, and some that fill the pipe both ways; every one of them."""
    for messages, size in ((20_000, 100), (300, 300_000)):
        flags = ["--messages", str(messages), "--size", str(size), "--confirm", "50", "--ack-every", "10", "--json"]
        assert main(["bench", *flags, *known(place)]) == 0
        result = json.loads(capsys.readouterr().out)
        assert (result["published"], result["received"]) == (messages, messages)


@pytest.mark.parametrize(
    ("files", "said"),
    [({}, "name its authority with --ca-file"), ({"ca": "ca"}, "this one's is missing: name one with --cert-file")],
)
def test_the_load_generator_says_what_is_missing(
    files: dict[str, str], said: str, place: TlsPlace, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [each for name, file in files.items() for each in (f"--{name}-file", getattr(place, file))]
    assert main(["bench", "--url", place.url, *flags]) == 2
    assert said in capsys.readouterr().err.splitlines()[-1]
