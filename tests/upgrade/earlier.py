"""The broker of an earlier version, out of the repository's own history: the one that this version has to get along
with (docs/decisions/0034-levels.md).

Its sources are laid into a folder and run as they are, without compiled modules.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.chaos.nodes import PROJECT_ROOT, Program

#: The last one of level 1: it announces no level. When the level of this version is raised, the commit that is the last
#: one of the level before takes its place.
LEVEL_1 = "7ba2c3220976dc482a227447851d952eff2eaf79"
#: One of level 2 with all kinds of streams, and queues over them.
WITH_STREAMS = "676b7d3781a1291b766fb0c20d49b671e1b75da5"
#: The last one that writes data folders of format 4.
FORMAT_4 = "0538bd84526b4d734a257a3555f15bbed1c0482d"


class NoHistory(Exception):
    """The sources have no history with the earlier version in it; the text says so."""


def earlier_program(commit: str, folder: Path) -> Program:
    """The broker of this commit, laid into the folder. Raises NoHistory."""
    archive = folder.with_suffix(".tar")
    command = ["git", "-C", str(PROJECT_ROOT), "archive", "-o", str(archive), commit]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        raise NoHistory(
            f"the earlier version is commit {commit[:7]} of the repository, and there is no git or no such commit here"
        ) from None
    folder.mkdir()
    subprocess.run(["tar", "-xf", str(archive), "-C", str(folder)], check=True)
    archive.unlink()
    # Sources of the earlier version know no such flags; this one's compiled modules are not theirs.
    return Program(folder, (), {"AMQP_BROKER_PLAIN": "1"})
