"""Chunks that lie in the files of their streams and not in the journal: docs/placement.md, crash by crash."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from amqp_broker.cli.main import main
from amqp_broker.protocol import methods
from storage.errors import CorruptRecord, SyncFailed
from storage.records import HEADER_BYTES
from tests.example_counts import ONE_OF, each_octet, seeds
from tests.node.node_driver import Client, NodeDriver, small_config
from tests.queue_types.stream.test_streams_of_a_node import a_stream, consume, delivered, fill, qos
from tests.simulation.simulated_disk import SimulatedCrash, SimulatedDisk

BEFORE, LAST = b"before " * 30, b"the last one " * 20


def start(disk: SimulatedDisk | None = None, **settings: object) -> NodeDriver:
    return NodeDriver(small_config(stream_direct_bytes=100, queue_groups=1, **settings), disk)


def with_one(seed: int = 1, **settings: object) -> tuple[NodeDriver, Client]:
    """A node with a stream in which one message is, confirmed."""
    driver = start(SimulatedDisk(random.Random(seed)), **settings)
    client = a_stream(driver)
    fill(driver, client, BEFORE)
    return driver, client


def all_of(driver: NodeDriver) -> list[tuple[int, bytes]]:
    reader = driver.client(1)
    reader.send(1, qos(1000), consume())
    driver.settle()
    found = delivered(reader)
    driver.lose(reader)
    return found


def publish_only(driver: NodeDriver, client: Client, body: bytes = LAST) -> None:
    """So that it waits for a sync."""
    driver.settle()
    client.publish(1, "s", body)
    driver.turn()


def page_files(disk: SimulatedDisk) -> list[str]:
    return [path for path in disk.files() if path.startswith("queues/")]


def files_with(disk: SimulatedDisk, octets: bytes) -> list[str]:
    return [path for path in disk.files() if octets in disk.contents(path)]


def journal(disk: SimulatedDisk) -> str:
    return max(path for path in disk.files() if path.startswith("journal/"))


def test_a_large_chunk_is_written_once_and_a_small_one_to_the_journal() -> None:
    driver, client = with_one()
    fill(driver, client, b"small")
    assert files_with(driver.disk, BEFORE) == page_files(driver.disk)
    assert files_with(driver.disk, b"small") == [journal(driver.disk)]
    for _ in range(3):
        assert all_of(driver) == [(0, BEFORE), (1, b"small")]
        driver.crash()
    assert files_with(driver.disk, BEFORE) == page_files(driver.disk)


@pytest.mark.parametrize("seed", seeds(range(12)))
@pytest.mark.parametrize("change", range(1, 7))
def test_a_crash_between_any_two_steps_of_a_sync_leaves_what_was_confirmed(change: int, seed: int) -> None:
    """Writing the place, syncing its file, the folders of a new one, writing the journal, syncing it."""
    driver, client = with_one(seed, page_segment_size_bytes=200 if seed % 2 else 1 << 20)
    publish_only(driver, client)
    job = driver.take_sync()
    driver.disk.crash_at = change
    try:
        job.run()
    except SimulatedCrash:
        driver.crash()
    else:
        driver.disk.crash_at = None
        driver.crash()
        assert all_of(driver) == [(0, BEFORE), (1, LAST)]
    found = all_of(driver)
    assert found in ([(0, BEFORE)], [(0, BEFORE), (1, LAST)])
    again = driver.client(1)
    fill(driver, again, b"behind it " * 30)
    wanted = [*found, (len(found), b"behind it " * 30)]
    for _ in range(2):
        assert all_of(driver) == wanted
        driver.crash()


@each_octet()
def test_a_place_that_ends_at_any_octet_is_dead_while_the_journal_does_not_name_it(first: int) -> None:
    driver, client = with_one()
    (path,) = page_files(driver.disk)
    before = driver.disk.size(path)
    publish_only(driver, client)
    job: Any = driver.take_sync()
    job.pages.run()  # and the journal's batch is not written
    whole = driver.disk.contents(path)
    for end in range(before + first, len(whole) + 1, ONE_OF):
        driver.disk.crash()
        driver.disk.overwrite(path, whole[:end])
        driver.start()
        assert all_of(driver) == [(0, BEFORE)]


@each_octet()
def test_a_journal_that_ends_at_any_octet_of_the_batch_names_no_place(first: int) -> None:
    driver, client = with_one()
    path = journal(driver.disk)
    before = driver.disk.contents(path)
    publish_only(driver, client)
    driver.take_sync().run()
    driver.disk.crash()
    files = {each: driver.disk.contents(each) for each in driver.disk.files()}
    whole = files[path]
    begin = next(at for at in range(len(before)) if before[at] != whole[at])
    end = len(whole.rstrip(b"\0"))
    for cut in range(begin + first, end, ONE_OF):
        for each, octets in files.items():
            if driver.disk.exists(each):
                driver.disk.overwrite(each, octets)
        driver.disk.overwrite(path, whole[:cut])
        driver.start()
        assert all_of(driver) == [(0, BEFORE)], cut
        driver.disk.crash()


def test_a_full_disk_has_the_place_written_again_and_nothing_confirmed() -> None:
    driver, client = with_one()
    client.send(1, methods.ConfirmSelect(False))
    publish_only(driver, client)
    client.take()
    job = driver.take_sync()
    size = driver.disk.size(journal(driver.disk))
    for room in (0, 10, HEADER_BYTES + 5):
        driver.disk.capacity = 0
        driver.disk.capacity = -driver.disk.free_bytes() + room
        with pytest.raises(OSError, match="No space left"):
            job.run()
        assert driver.disk.size(journal(driver.disk)) == size
    driver.disk.capacity = 1 << 62
    driver.synced(job)
    assert "basic.ack" in client.names()
    driver.crash()
    assert all_of(driver) == [(0, BEFORE), (1, LAST)]


def test_a_failed_sync_of_the_place_leaves_the_journal_alone() -> None:
    driver, client = with_one()
    publish_only(driver, client)
    job = driver.take_sync()
    before = driver.disk.contents(journal(driver.disk))
    driver.disk.fail_sync_at = 1
    with pytest.raises(SyncFailed, match="queues/"):
        job.run()
    assert driver.disk.contents(journal(driver.disk)) == before
    with pytest.raises(SyncFailed):
        job.run()
    driver.crash()
    assert all_of(driver) == [(0, BEFORE)]


@pytest.mark.parametrize("at", [0, 4, 20, HEADER_BYTES, HEADER_BYTES + 14, HEADER_BYTES + 40, -1])
def test_a_damaged_place_is_refused_and_a_node_alone_can_go_on_without_it(at: int) -> None:
    driver, client = with_one()
    (path,) = page_files(driver.disk)
    begin = driver.disk.size(path)
    fill(driver, client, LAST)
    fill(driver, client, b"small")
    driver.disk.crash()
    octets = bytearray(driver.disk.contents(path))
    octets[begin + at if at >= 0 else at] ^= 0x20
    driver.disk.overwrite(path, bytes(octets))
    with pytest.raises(CorruptRecord, match=f"{path} at offset {begin}") as raised:
        driver.start()
    assert "--recover" in str(raised.value)
    recovered = start(driver.disk, recover=True)
    assert all_of(recovered) == [(0, BEFORE), (1, b"small")]
    assert any(b"last one" in driver.disk.contents(each) for each in driver.disk.files() if each[:8] == "damaged/")
    again = start(driver.disk)
    fill(again, again.client(1), LAST)
    again.crash()
    assert all_of(again) == [(0, BEFORE), (1, b"small"), (2, LAST)]


def test_a_file_that_is_gone_is_damage() -> None:
    driver, client = with_one(page_segment_size_bytes=200)
    fill(driver, client, LAST)
    path = page_files(driver.disk)[1]
    driver.disk.crash()
    driver.disk.remove(path)
    with pytest.raises(CorruptRecord, match="the file is missing"):
        driver.start()
    assert all_of(start(driver.disk, recover=True)) == [(0, BEFORE)]


def test_checkpoints_name_places_and_the_journal_lets_go_of_the_entries() -> None:
    driver, client = with_one(
        journal_segment_size_bytes=1500, journal_limit_bytes=4500, raft_log_size_bytes=1000, raft_log_cap_bytes=2000
    )
    wanted = [(0, BEFORE)]
    for number in range(1, 60):
        body = b"%d " % number + b"x" * random.Random(number).choice([10, 200, 500])
        fill(driver, client, body)
        wanted.append((number, body))
        if number % 7 == 0:
            driver.crash()
            client = driver.client(1)
    assert min(path for path in driver.disk.files() if path.startswith("journal/")) > "journal/00000005.log"
    assert all_of(driver) == wanted
    driver.crash()
    assert all_of(driver) == wanted


def test_the_files_of_a_stream_that_is_deleted_stay_while_entries_name_them() -> None:
    driver, client = with_one(raft_log_size_bytes=2000)
    client.send(1, methods.QueueDelete(0, "s", False, False, False))
    driver.settle()
    assert page_files(driver.disk)
    driver.crash()  # all of it is applied again
    assert not all("s" in vhost.queues for vhost in driver.node.broker.vhosts.values())
    client = a_stream(driver)
    for _ in range(20):
        fill(driver, client, LAST)
    driver.settle()
    assert not files_with(driver.disk, BEFORE)
    assert len(all_of(driver)) == 20


def test_what_is_not_written_counts_for_the_backlog() -> None:
    driver, client = with_one()
    publish_only(driver, client)
    store = driver.node.store.page_store
    assert store.unwritten_bytes > len(LAST)
    assert driver.node.backlog_bytes() > len(LAST)
    driver.settle()
    assert store.unwritten_bytes == 0


def write_out(disk: SimulatedDisk, folder: Path) -> None:
    for path in disk.files():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(disk.contents(path))
    (folder / "FORMAT").write_text('{"format": "amqp-broker data folder", "version": 6}\n')


@pytest.mark.parametrize("is_live", [False, True], ids=["left over", "live"])
def test_inspect_tells_what_a_crash_has_left_from_damage(
    is_live: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    driver, client = with_one()
    publish_only(driver, client)
    job: Any = driver.take_sync()
    job.run() if is_live else job.pages.run()
    driver.disk.crash()
    (path,) = page_files(driver.disk)
    driver.disk.overwrite(path, driver.disk.contents(path)[:-5])
    write_out(driver.disk, tmp_path)
    assert main(["inspect", str(tmp_path)]) == (1 if is_live else 0)
    said = capsys.readouterr().out
    assert ("bad record: " in said) == is_live
    assert ("left of a crash, nobody's page: " in said) == (not is_live)
    if not is_live:
        assert "/  s  1 messages" in said


def test_inspect_counts_what_lies_in_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    driver, client = with_one()
    fill(driver, client, LAST, b"one more")
    write_out(driver.disk, tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert main(["inspect", str(tmp_path)]) == 0
    assert "/  s  3 messages" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
