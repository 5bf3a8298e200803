"""The command as its users run it: version, help, and one line with status 2 for what is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from amqp_broker.cli.main import COMMANDS, command


def run(*arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("AMQP_BROKER_")}
    root = str(Path(__file__).parents[2])
    return subprocess.run(
        [sys.executable, "-P", "-m", "amqp_broker", *arguments],
        env=variables | {"PYTHONPATH": root} | environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
    )


def assert_one_line(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    for part in parts:
        assert part in done.stderr


def test_the_version() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout.split()[0]) == (0, "amqp-broker")


def test_help_names_every_command() -> None:
    done = run("--help")
    assert done.returncode == 0
    assert all(f"  {name} " in done.stdout for name in COMMANDS)


def test_without_a_command_the_help_is_shown() -> None:
    done = run()
    assert done.returncode == 2
    assert "serve" in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    done = CliRunner().invoke(command, [name, "--help"], prog_name="amqp-broker")
    assert done.exit_code == 0
    assert done.output.startswith(f"Usage: amqp-broker {name}")


def test_the_shell_completes_commands_and_options() -> None:
    def completed(words: str) -> list[str]:
        variables = {"_AMQP_BROKER_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        return run(**variables).stdout.split()

    assert completed("amqp-broker user pass") == ["plain,password"]
    assert completed("amqp-broker list queues --lim") == ["plain,--limit"]


def test_an_unknown_command() -> None:
    assert_one_line(run("sevre"), "sevre")


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--bogus", "1"], ["--bogus"]),
        (["--memory-budget", "12q"], ["memory_budget", "'12q'", "allowed:"]),
        (["--heartbeat"], ["--heartbeat"]),
        (["--config", "nowhere.toml"], ["nowhere.toml", "cannot be read"]),
        (["--listen", "5672"], ["listen", "'5672'", "HOST:PORT"]),
        (["extra"], ["extra"]),
    ],
)
@pytest.mark.parametrize("command", ["serve", "config"])
def test_a_wrong_flag_is_one_line(command: str, arguments: list[str], parts: list[str], tmp_path: Path) -> None:
    assert_one_line(run(command, *arguments, cwd=tmp_path), *parts)
    assert list(tmp_path.iterdir()) == [], "nothing may be touched"


def test_a_wrong_variable_is_one_line(tmp_path: Path) -> None:
    done = run("serve", cwd=tmp_path, AMQP_BROKER_HEARTBAET="5s")
    assert_one_line(done, "heartbaet", "perhaps heartbeat", "AMQP_BROKER_HEARTBAET")


def test_config_shows_values_and_origins(tmp_path: Path) -> None:
    (tmp_path / "b.toml").write_text('page_size = "1MiB"\n')
    arguments = ["--config", "b.toml", "--listen", "127.0.0.1:1", "--listen", "[::1]:2", "--recover"]
    done = run(
        "config",
        *arguments,
        cwd=tmp_path,
        AMQP_BROKER_CHANNEL_MAX="7",
        AMQP_BROKER_DEFAULT_PASSWORD="swordfish",
    )
    rows = {line.split()[0]: line.split(maxsplit=2)[1:] for line in done.stdout.splitlines()}
    assert rows["listen"] == ["127.0.0.1:1,[::1]:2", "flag --listen"]
    assert rows["recover"] == ["true", "flag --recover"]
    assert rows["channel_max"] == ["7", "environment AMQP_BROKER_CHANNEL_MAX"]
    assert rows["page_size"] == ["1MiB", "file b.toml"]
    assert rows["frame_max"] == ["128KiB", "default"]
    assert rows["default_password"] == ["********", "environment AMQP_BROKER_DEFAULT_PASSWORD"]
    assert "swordfish" not in done.stdout


def test_config_as_json() -> None:
    done = run("config", "--json", "--memory-budget", "64MiB")
    report = json.loads(done.stdout)
    assert report["memory_budget"] == {
        "value": "64MiB",
        "origin": "flag --memory-budget",
        "number": 64 << 20,
        "unit": "bytes",
    }


def test_the_command_is_light_to_begin_with() -> None:
    """What only other commands need is not imported to serve, and a wrong flag is answered before the broker is
    loaded."""
    code = (
        "import sys, amqp_broker.cli.main as m; m.command.get_command(None, 'serve');"
        "heavy = ('rich', 'construct', 'asyncio', 'amqp_broker.bench', 'amqp_broker.client', 'queues');"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


#: What a broker without a file of settings never needs, or what others in its environment bring along.
NOT_TO_SERVE = (
    "amqp_broker.bench", "amqp_broker.client", "amqp_broker.moving", "amqp_broker.testing", "amqp_broker.web",
    "construct", "cryptography.fernet", "difflib", "email", "http", "importlib.metadata", "importlib.resources",
    "msgspec", "multiprocessing", "rich", "starlette", "tomllib", "unittest", "urllib.request", "uvicorn", "xml",
)  # fmt: skip


def test_serve_is_light_when_it_is_ready(tmp_path: Path) -> None:
    """A real start; Python tells what it loads."""
    flags = ("--exit-with-parent", "--listen=127.0.0.1:0", "--management-listen=off", "--prometheus-listen=off")
    variables = {name: value for name, value in os.environ.items() if not name.startswith("AMQP_BROKER_")}
    broker = subprocess.Popen(
        [sys.executable, "-P", "-X", "importtime", "-m", "amqp_broker", "serve", *flags, f"--data-dir={tmp_path}"],
        env=variables | {"PYTHONPATH": str(Path(__file__).parents[2])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert broker.stdout is not None
    assert broker.stdout.readline().startswith("ready amqp://")
    _, said = broker.communicate(timeout=60)  # closes its standard input, upon which it ends
    loaded = [line.rpartition("|")[2].strip() for line in said.splitlines() if line.startswith("import time:")]
    assert "amqp_broker.node" in loaded
    assert not [name for name in loaded if name in NOT_TO_SERVE]
