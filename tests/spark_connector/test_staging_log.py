"""The folder of mode=staged: whole files or none, ranges over files, trimming, one writer."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_connector.errors import ConnectorError
from spark_connector.staging_log import StagingLog


def opened(folder: Path) -> StagingLog:
    log = StagingLog(str(folder), "g/1", "q")
    log.lock()
    return log


def test_ranges_are_found_over_files(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for name, count in ((b"a", 3), (b"b", 2), (b"c", 4)):
        log.append(name, count)
    assert list(log.read(1, 8)) == [(b"a", 1, 2), (b"b", 0, 2), (b"c", 0, 3)]
    assert list(log.read(3, 5)) == [(b"b", 0, 2)]


def test_what_was_begun_is_not_there_and_what_was_trimmed_is_gone(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append(b"a", 3)
    log.append(b"b", 2)
    (next(tmp_path.rglob("*.blob")).parent / "00000000000000000005-00000000000000000009.new").write_bytes(b"torn")
    log.trim(4)
    log.close()
    again = opened(tmp_path)
    assert (again.first, again.next, again.incarnation) == (3, 5, log.incarnation)
    with pytest.raises(ConnectorError, match="option 'stagingDir'"):
        list(again.read(2, 5))
    again.trim(5)
    again.close()
    empty = opened(tmp_path)
    assert (empty.first, empty.next) == (5, 5)


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    log = opened(tmp_path)
    with pytest.raises(ConnectorError, match="another query stages into"):
        opened(tmp_path)
    log.close()
    opened(tmp_path).close()
