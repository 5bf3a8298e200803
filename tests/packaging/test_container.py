"""The image's Containerfile, as far as it can be held without an engine that builds images: its instructions, that what
it copies is there, and that what it runs in the image runs in an environment installed from the files it copies."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import subprocess
import tomllib
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from amqp_broker.cli.main import command
from amqp_broker.settings.config import Config
from tests.packaging.building import PLAIN, ROOT, SOURCES, build, copy_sources
from tests.packaging.environment import Environment

FOLDER = ROOT / "packaging" / "container"
SETTINGS = FOLDER / "amqp-broker.toml"
INSTRUCTIONS = {
    "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "RUN", "STOPSIGNAL", "USER", "VOLUME",
    "WORKDIR",
}  # fmt: skip


class Instruction(NamedTuple):
    name: str
    arguments: str
    stage: int


def instructions() -> list[Instruction]:
    """Of all stages, lines that go on put together; what is before the first stage is of stage 0."""
    text = re.sub(r"^#.*\n", "", (FOLDER / "Containerfile").read_text(), flags=re.MULTILINE)
    found, stage = [], 0
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip():
            name, _, arguments = line.partition(" ")
            stage += name == "FROM"
            found.append(Instruction(name, arguments.strip(), stage))
    return found


ALL = instructions()
LAST = max(each.stage for each in ALL)


def the(name: str) -> str:
    """Of the image itself, where there is one such instruction."""
    (found,) = [each.arguments for each in ALL if each.name == name and each.stage == LAST]
    return found


def environment_of_the_image() -> dict[str, str]:
    return dict(each.arguments.split("=", 1) for each in ALL if each.name == "ENV")


def copied(stage: int) -> list[str]:
    """The files of the repository that a stage copies."""
    found: list[str] = []
    for each in ALL:
        if each.name == "COPY" and each.stage == stage and "--from" not in each.arguments:
            *sources, _ = each.arguments.split()
            found += sources
    return found


def healthcheck() -> list[str]:
    _, _, arguments = the("HEALTHCHECK").partition("CMD ")
    found: list[str] = json.loads(arguments)
    return found


def test_its_instructions_are_known_and_its_stages_there() -> None:
    assert {each.name for each in ALL} == INSTRUCTIONS
    stages = [each.arguments.partition(" AS ") for each in ALL if each.name == "FROM"]
    assert len({base for base, _, _ in stages}) == 1, "compiled modules are for one interpreter"
    from_stages = re.findall(r"--from=(\w+)", " ".join(each.arguments for each in ALL))
    assert from_stages == [name for _, _, name in stages if name]
    for each in ALL:
        if each.name == "RUN":
            subprocess.run(["sh", "-n", "-c", each.arguments], check=True)


def test_what_it_copies_is_there_and_in_the_context() -> None:
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for name in copied(1) + copied(LAST):
        assert (ROOT / name).exists(), name
        assert any(name == each or name.startswith(f"{each}/") for each in kept), name
    assert sorted(copied(1)) == sorted(SOURCES)
    assert all((ROOT / name).exists() for name in kept)


def test_it_runs_as_nobody_and_says_where_it_is_reached() -> None:
    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", the("USER"))
    settings = tomllib.loads(SETTINGS.read_text())
    default = Config()
    listeners = {
        key: getattr(default, key)[0].port for key in ("listen", "management_listen", "prometheus_listen")
    }
    assert {key: settings[key] for key in listeners} == {key: [f"0.0.0.0:{port}"] for key, port in listeners.items()}
    assert [int(port) for port in the("EXPOSE").split()] == list(listeners.values())
    assert Path(settings["data_dir"]).is_relative_to(the("VOLUME"))
    assert the("STOPSIGNAL") == "SIGTERM"
    assert environment_of_the_image()["AMQP_BROKER_CONFIG"] in " ".join(
        each.arguments for each in ALL if each.name == "COPY" and each.stage == LAST
    )


def test_its_health_is_that_of_the_broker_itself() -> None:
    name, *arguments = healthcheck()
    assert (name, json.loads(the("ENTRYPOINT"))) == ("amqp-broker", ["amqp-broker"])
    found, _, rest = command.resolve_command(click.Context(command), arguments)
    assert found == "health"
    assert rest == ["--check", "alive"], "what else is checked a restart does not mend, and it may need a login"


def test_what_it_runs_runs_where_it_is_installed_the_same_way(tmp_path: Path) -> None:
    """Without compiling, which takes long; free ports instead of those of the image, a folder instead of its volume."""
    (install,) = [each.arguments for each in ALL if each.name == "RUN" and "pip" in each.arguments]
    assert shlex.split(install)[-1] == ".[management]"
    assert "AMQP_BROKER_REQUIRE_COMPILED=1" in install
    made = Environment(tmp_path / "environment")
    made.install(build(copy_sources(tmp_path / "src", copied(1)), "wheel", tmp_path / "built", **PLAIN))
    text = re.sub(r"0\.0\.0\.0:\d+", "127.0.0.1:0", SETTINGS.read_text())
    settings = made.work / "amqp-broker.toml"
    settings.write_text(text.replace(the("VOLUME"), str(tmp_path / "volume")))
    (tmp_path / "volume" / "lost+found").mkdir(parents=True)
    variables = {**environment_of_the_image(), "AMQP_BROKER_CONFIG": str(settings)}
    del variables["PATH"]
    entry, what = json.loads(the("ENTRYPOINT")), json.loads(the("CMD"))
    assert str(tmp_path / "volume" / "data") in made.run(*entry, "config", **variables)
    program = shutil.which(entry[0], path=str(made.folder / "bin"))
    with subprocess.Popen(
        [str(program), *entry[1:], *what], cwd=made.work, env=made.variables(**variables), stdout=subprocess.PIPE,
        text=True,
    ) as broker:  # fmt: skip
        try:
            assert broker.stdout is not None
            ready = broker.stdout.readline().split()
            assert ready[:1] == ["ready"]
            assert broker.stdout.readline().startswith("management http://")
            assert made.run(*healthcheck(), "--url", ready[1]) == "alive: ok\n"
        finally:
            broker.send_signal(getattr(signal, the("STOPSIGNAL")))
    assert broker.returncode == 0
    assert made.try_to_run(*healthcheck(), "--url", ready[1]).returncode == 1


@pytest.mark.parametrize("flag", ["--interval", "--timeout", "--start-period", "--retries"])
def test_its_health_is_asked_for_in_time(flag: str) -> None:
    assert re.search(rf"{flag}=\d+[sm]?\b", the("HEALTHCHECK"))
