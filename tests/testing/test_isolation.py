"""A broker inside somebody's program:

neither sees the other's modules, and `import amqp_broker` costs next to nothing.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OTHER_PACKAGES = ("exchanges", "octets", "queues", "raft", "spark_connector", "storage")
CORE = ("exchanges", "queues", "raft", "storage")

PROGRAM = """
import amqp_broker, json, queues, storage, sys
import socket
with amqp_broker.running() as broker:
    with socket.create_connection((broker.host, broker.port)) as client:
        client.sendall(b"AMQP\\0\\0\\x09\\x01")
        assert client.recv(1) == b"\\x01"
print(json.dumps([queues.__file__, storage.__file__]))
"""


@pytest.fixture
def program_folder(tmp_path: Path) -> Path:
    """A folder with modules that have the names of our packages and of what our broker itself imports."""
    for name in (*OTHER_PACKAGES, "click", "construct"):
        text = "" if name in ("queues", "storage") else "raise RuntimeError('this one is somebody else\\'s')\n"
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def run(folder: Path, *command: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=os.environ | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("command", [["program.py"], ["-m", "program"]], ids=["script", "module"])
@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_modules_of_the_same_name_do_not_meet(command: list[str], first: str, program_folder: Path) -> None:
    paths = [str(ROOT), str(program_folder)] if first == "ours" else [str(program_folder), str(ROOT)]
    output = run(program_folder, *command, PYTHONPATH=os.pathsep.join(paths))
    assert json.loads(output) == [str(program_folder / "queues.py"), str(program_folder / "storage.py")]


def test_the_command_never_takes_the_modules_of_the_folder_it_runs_in(program_folder: Path) -> None:
    (program_folder / "click.py").unlink()
    (program_folder / "construct.py").unlink()
    code = "from amqp_broker.cli.main import main; main(['config']); import queues; print(queues.__file__)"
    output = run(program_folder, "-c", code, PYTHONPATH=os.pathsep.join([str(program_folder), str(ROOT)]))
    assert output.splitlines()[-1] == str(ROOT / "queues" / "__init__.py")


def test_names_that_others_have_taken_at_the_start_are_the_commands(program_folder: Path) -> None:
    """A .pth file, or a sitecustomize, may have imported a `queues` of its own before the command is there."""
    (program_folder / "click.py").unlink()
    (program_folder / "construct.py").unlink()
    code = "import queues; theirs = queues; from amqp_broker.cli.main import main; main(['config']); import queues; "
    code += "print(theirs.__file__, queues.__file__)"
    output = run(program_folder, "-c", code, PYTHONPATH=os.pathsep.join([str(program_folder), str(ROOT)]))
    assert output.splitlines()[-1].split() == [
        str(program_folder / "queues.py"),
        str(ROOT / "queues" / "__init__.py"),
    ]


def test_the_fork_server_loads_a_broker_whoever_else_has_the_names(program_folder: Path) -> None:
    (program_folder / "click.py").unlink()
    (program_folder / "construct.py").unlink()
    code = "import queues, sys; from amqp_broker.cli.fork_server import load_broker; load_broker(); "
    code += "print('amqp_broker.server.main' in sys.modules, sys.modules['queues'].__file__)"
    output = run(program_folder, "-c", code, PYTHONPATH=os.pathsep.join([str(program_folder), str(ROOT)]))
    assert output.split() == ["True", str(ROOT / "queues" / "__init__.py")]


def test_plain_modules_are_asked_of_ours_only(program_folder: Path) -> None:
    """A package `queues` of others may have compiled modules too; what lies beside one is not what they mean."""
    compiled = next((ROOT / "amqp_broker" / "octets").glob("buffer.*.so"), None)
    if compiled is None:
        pytest.skip("nothing is compiled here")
    (program_folder / "queues.py").unlink()
    (program_folder / "queues").mkdir()
    (program_folder / "queues" / "__init__.py").touch()
    (program_folder / "queues" / "buffer.py").touch()
    shutil.copy(compiled, program_folder / "queues")
    code = "import amqp_broker; from importlib.util import find_spec; print(find_spec('queues.buffer').origin)"
    output = run(program_folder, "-c", code, PYTHONPATH=f"{program_folder}:{ROOT}", AMQP_BROKER_PLAIN="1")
    assert output.strip() == str(program_folder / "queues" / compiled.name)


def test_what_runs_in_programs_of_others_loads_nothing_of_the_core(tmp_path: Path) -> None:
    """All of the client, and of what Spark's processes load: an installed core cannot be found there."""
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("Spark is not installed here")
    packages = ("amqp_broker/octets", "amqp_broker/protocol", "amqp_broker/client", "spark_connector")
    paths = [ROOT / "pyspark_amqp.py", *(path for each in packages for path in sorted((ROOT / each).rglob("*.py")))]
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in paths]
    code = f"import sys, json, importlib; [importlib.import_module(name) for name in {names}]; "
    code += "print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(run(tmp_path, "-c", code, PYTHONPATH=str(ROOT)))
    assert not [name for name in loaded if name.partition(".")[0] in CORE]


@pytest.mark.parametrize(
    "module",
    ["amqp_broker", "amqp_broker.testing.embedded", "amqp_broker.pytest_plugin", "amqp_broker.system_client"],
)
def test_what_users_import_loads_none_of_the_other_packages(module: str, tmp_path: Path) -> None:
    code = f"import sys, json, {module}; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(run(tmp_path, "-c", code, PYTHONPATH=str(ROOT)))
    assert not [name for name in loaded if name.partition(".")[0] in OTHER_PACKAGES]


def test_the_import_loads_none_of_its_own_parts(tmp_path: Path) -> None:
    code = "import sys, json, amqp_broker; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(run(tmp_path, "-c", code, PYTHONPATH=str(ROOT), AMQP_BROKER_PLAIN=""))
    ours = [name for name in loaded if name.startswith("amqp_broker")]
    assert ours == ["amqp_broker", "amqp_broker.version"], "what version it is, and nothing else"


def test_the_import_is_quick(tmp_path: Path) -> None:
    """Less than half of asyncio's, which its users import as well; the best of several pairs, because other processes
    disturb; the interpreter's own measure."""

    def time_of(module: str) -> int:
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-c", f"import {module}"],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT), "AMQP_BROKER_PLAIN": ""},
            capture_output=True,
            text=True,
            check=True,
        )
        (line,) = [line for line in done.stderr.splitlines() if line.endswith(f"| {module}")]
        return int(line.split("|")[1])

    assert min(time_of("amqp_broker") / time_of("asyncio") for _ in range(5)) < 0.5
