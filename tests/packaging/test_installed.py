"""What is installed touches nothing of others: beside a distribution with packages `queues`, `storage`, `raft`,
`exchanges` and `octets` of its own everything of ours runs, and so does everything of theirs.

From a wheel and from an sdist, compiled and plain: each takes minutes, to compile and with Spark, and is for
`make package-test`.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from tests.packaging import stranger
from tests.packaging.building import PLAIN, build, copy_sources
from tests.packaging.environment import OURS, Environment

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
PACKAGES = ("amqp_broker", "exchanges", "queues", "raft", "spark_connector", "storage")
TOPS = {"amqp_broker", "spark_connector", "pyspark_amqp.py"}
#: What a wheel puts into share/, and the file that it is.
SHARED = {
    "man/man1/amqp-broker.1": "docs/man/amqp-broker.1",
    "bash-completion/completions/amqp-broker": "packaging/completion/amqp-broker",
    "zsh/site-functions/_amqp-broker": "packaging/completion/_amqp-broker",
    "fish/vendor_completions.d/amqp-broker.fish": "packaging/completion/amqp-broker.fish",
    "amqp-broker/grafana/overview.json": "packaging/grafana/overview.json",
    "amqp-broker/prometheus/alerts.yaml": "packaging/prometheus/alerts.yaml",
    "amqp-broker/prometheus/prometheus.yaml": "packaging/prometheus/prometheus.yaml",
    "amqp-broker/systemd/amqp-broker.service": "packaging/systemd/amqp-broker.service",
    "amqp-broker/amqp-broker.toml": "packaging/amqp-broker.toml",
}
THEIRS = {*stranger.PACKAGES, "stranger.pth"}
SUFFIX = EXTENSION_SUFFIXES[0]
HOW = {"plain": PLAIN, "compiled": {"BUILD_OPTIMISATION": "-O0"}}
NO_COMPILER = {"CC": "/bin/false"}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources as they are, with nothing that was built."""
    return copy_sources(tmp_path_factory.mktemp("checkout"))


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """With the stranger's distribution in it."""
    made = Environment(tmp_path / "environment")
    made.install(stranger.write_wheel(tmp_path))
    return made


def strangers_files(environment: Environment) -> dict[str, str]:
    return {name: (environment.site / name).read_text() for name in stranger.files()}


def see_what_lies_there(environment: Environment, kind: str) -> None:
    assert environment.tops() - THEIRS == TOPS
    assert strangers_files(environment) == stranger.files()
    core = environment.site / "amqp_broker" / "_core"
    assert {path.name for path in core.iterdir()} == {"exchanges", "queues", "raft", "storage"}
    hot = [path for package in PACKAGES for path in (ROOT / package).rglob("*.pxd")]
    compiled = [path for name in TOPS for path in (environment.site / name).rglob(f"*{SUFFIX}")]
    assert len(compiled) == (len(hot) if kind == "compiled" else 0)
    (info,) = environment.site.glob(f"{OURS}-*.dist-info")
    assert (info / "licenses" / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    assert (environment.site / "amqp_broker" / "py.typed").exists()
    assert (environment.site / "spark_connector" / "py.typed").exists()
    for name, source in SHARED.items():
        assert (environment.folder / "share" / name).read_bytes() == (ROOT / source).read_bytes()
    pages = ROOT / "amqp_broker" / "web" / "static"
    for path in pages.rglob("*.*"):
        assert (environment.site / path.relative_to(ROOT)).read_bytes() == path.read_bytes()


def see_the_application_run(environment: Environment, kind: str) -> None:
    for order in ("first", "last"):
        environment.run("python", PROGRAMS / "application.py", order, kind)
    tests = shutil.copy(PROGRAMS / "with_fixture.py", environment.work / "test_with_fixture.py")
    said = environment.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", tests)
    assert "1 passed" in said


def see_the_command_run(environment: Environment) -> None:
    """In a folder with a `queues` and a `storage` of its own, which `python -m` would look into first."""
    for name in ("queues", "storage"):
        (environment.work / f"{name}.py").write_text("raise RuntimeError('not yours')\n")
    data = environment.work / "data"
    for command in (["amqp-broker"], ["python", "-m", "amqp_broker"]):
        flags = ["--listen=127.0.0.1:0", f"--data-dir={data}"]
        broker = subprocess.Popen(
            [environment.folder / "bin" / command[0], *command[1:], "serve",
            "--management-listen=off", "--prometheus-listen=off", *flags],
            cwd=environment.work,
            env=environment.variables(),
            stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        with broker:
            assert broker.stdout is not None
            ready = broker.stdout.readline().split()
            try:
                assert ready[:1] == ["ready"]
                assert "queue_groups" in environment.run(*command, "config")
                environment.run(*command, "bench", "--time", "1", "--url", ready[1])
            finally:
                broker.send_signal(signal.SIGTERM)
        assert broker.returncode == 0
        environment.run(*command, "inspect", str(data))
    for name in ("queues", "storage"):
        (environment.work / f"{name}.py").unlink()


def see_the_types(environment: Environment) -> None:
    program = shutil.copy(PROGRAMS / "typed.py", environment.work / "typed.py")
    done = environment.try_to_run("python", "-m", "mypy", "--strict", "--cache-dir=mypy", program)
    assert re.findall(r"error: .*", done.stdout) == [
        'error: Incompatible types in assignment (expression has type "str", variable has type "int")  [assignment]'
    ], done.stdout


def see_it_go(environment: Environment) -> None:
    environment.pip("uninstall", "--yes", OURS)
    assert not any((environment.folder / "share" / name).exists() for name in SHARED)
    left = list((environment.site / "amqp_broker").rglob("*"))
    assert environment.tops() == THEIRS, left
    assert not list(environment.site.glob(f"{OURS}*"))
    assert strangers_files(environment) == stranger.files()
    for package, module in stranger.MODULES.items():
        environment.run("python", "-c", f"import {package}.{module} as theirs; assert theirs.OWNER")


@pytest.mark.long
def test_a_plain_wheel_beside_a_stranger(checkout: Path, environment: Environment, tmp_path: Path) -> None:
    wheel = build(checkout, "wheel", tmp_path / "built", **HOW["plain"])
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {name for name in tops if not name.endswith((".dist-info", ".data"))} == TOPS
    environment.install(wheel)
    see_what_lies_there(environment, "plain")
    see_the_application_run(environment, "plain")
    see_the_command_run(environment)
    see_it_go(environment)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["plain", "compiled", "without a compiler"])
@pytest.mark.parametrize("form", ["wheel", "sdist"])
def test_everything_of_ours_and_theirs_runs(
    form: str, kind: str, checkout: Path, environment: Environment, tmp_path: Path
) -> None:
    variables = HOW.get(kind, NO_COMPILER)
    environment.install(build(checkout, form, tmp_path / "built", **variables), **variables)
    kind = "compiled" if kind == "compiled" else "plain"
    see_what_lies_there(environment, kind)
    see_the_application_run(environment, kind)
    see_the_command_run(environment)
    see_the_types(environment)
    environment.run("python", PROGRAMS / "spark_application.py")
    assert strangers_files(environment) == stranger.files()
    see_it_go(environment)


def test_an_editable_install_is_the_checkout(checkout: Path, environment: Environment) -> None:
    """A folder on the path, which Spark looks through for modules named pyspark_*."""
    environment.install("--editable", checkout, AMQP_BROKER_NO_COMPILE="1")
    (path,) = environment.site.glob(f"__editable__*{OURS}*.pth")
    assert path.read_text().strip() == str(checkout)
    environment.run("python", PROGRAMS / "application.py", "first", "plain")
