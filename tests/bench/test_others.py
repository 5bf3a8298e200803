"""The comparison with other brokers, as far as it goes without them: amounts, figures, pages, and what their loads read
and write."""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest
from click.testing import CliRunner

from amqp_broker.bench.target import Target
from benchmarks import brokers, kafka, nats, others, own_load, redis
from benchmarks.brokers import Broker, BrokerError, foreign_broker, free_port
from benchmarks.contender import COST, RATE, Case, Contender, Figure, Other, Step, scaled, weighed, worked
from benchmarks.others import OTHERS, Found, main, measured, page

pytestmark = pytest.mark.xdist_group("others")


@contextmanager
def started(folder: Path) -> Iterator[Broker]:
    yield Broker("one", "1", Target(port=1), os.getpid(), 0.25)


def contender(name: str, work: Callable[[Broker, str, int], float], *whats: str) -> Contender:
    return Contender(name, f"what {name} promises", started, tuple(Step(what, work) for what in whats), 8000)


def test_the_broker_is_warmed_up_by_a_part_of_all_steps_before_any_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[str, int]] = []
    used = iter(range(1, 100, 3))
    monkeypatch.setattr(brokers, "cpu_seconds_of", lambda _: next(used) / 1000)

    def work(broker: Broker, name: str, messages: int) -> float:
        done.append((name, messages))
        return 5.0

    figures = list(worked(contender("ours", work, "publish", "read"), 0.5))
    assert done == [("warmup", 1000), ("warmup", 1000), ("measured", 4000), ("measured", 4000)]
    assert [(each.what, each.unit) for each in figures] == [
        ("publish", RATE), ("publish", COST), ("read", RATE), ("read", COST),
    ]  # fmt: skip
    assert [each.value for each in figures] == pytest.approx([5.0, 0.75, 5.0, 0.75])


def test_a_broker_is_weighed_without_a_warm_up() -> None:
    done: list[int] = []

    def work(broker: Broker, name: str, messages: int) -> float:
        done.append(messages)
        return 1.0

    start, idle, held = weighed(contender("ours", work, "messages of 128 B"), 1)
    assert done == [8000]
    assert start == Figure("start of an empty broker", "s", 0.25)
    assert idle.value > 1
    assert held.what == "memory with 8,000 messages of 128 B"


def test_no_amount_is_too_small_to_be_measured() -> None:
    assert scaled(400_000, 0.5) == 200_000
    assert scaled(20_000, 0.001) == 1000


def two_rounds() -> tuple[Other, list[str], list[Found]]:
    order: list[str] = []

    def measure(contender: Contender, scale: float) -> Iterator[Figure]:
        order.append(contender.name)
        yield Figure("publish", RATE, len(order) * (1000 if contender.name == "ours" else 10))

    sides = tuple(contender(name, lambda *_: 1.0, "publish") for name in ("ours", "theirs"))
    other = Other("Ours and Theirs", lambda: "7", {"Theirs": "one"}, (Case(sides, measure),))
    return other, order, measured(other, 2, 1)


def test_in_every_other_round_the_order_is_turned_and_ours_stays_first() -> None:
    _, order, (found,) = two_rounds()
    assert order == ["ours", "theirs", "theirs", "ours"]
    assert found.rows() == [
        ["publish", RATE, "ours", "2,500", "1,000 - 4,000", "1.000"],
        ["publish", RATE, "theirs", "25.000", "20.000 - 30.000", "0.010"],
    ]
    assert found.as_json()[1] == {"what": "publish", "unit": RATE, "who": "theirs", "values": [20, 30]}


def test_a_page_says_how_all_was_run_and_what_each_promises() -> None:
    other, _, found = two_rounds()
    lines = page(other, "7", found, 2)
    for said in (
        "- version: Theirs 7",
        "- Theirs: one",
        "- ours: what ours promises",
        "- theirs: what theirs promises",
    ):
        assert said in lines
    assert lines[-2].startswith("| publish | messages/s | ours |")


@pytest.mark.parametrize("name", list(OTHERS))
def test_ours_is_first_in_every_case_and_a_name_has_one_promise(name: str) -> None:
    promises: dict[str, str] = {}
    whats: list[str] = []
    for case in OTHERS[name].cases:
        assert case.contenders[0].name.startswith("ours, ")
        assert not case.contenders[-1].name.startswith("ours")
        assert len({tuple(step.what for step in each.steps) for each in case.contenders}) == 1
        whats += [f"{case.measure.__name__} {step.what}" for step in case.contenders[0].steps]
        for each in case.contenders:
            assert promises.setdefault(each.name, each.promise) == each.promise
    assert len(set(whats)) == len(whats)


def test_the_command_writes_a_page_and_its_figures_and_a_part_takes_no_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other, *_ = two_rounds()
    monkeypatch.setattr(others, "OTHERS", {"nats": other})
    for options, name in (([], "others-nats"), (["--scale", "0.5"], "others-nats-part")):
        done = CliRunner().invoke(main, ["--only", "nats", "--into", str(tmp_path), *options])
        assert done.exit_code == 0, done.output
        assert "# Ours and Theirs" in (tmp_path / f"{name}.md").read_text(encoding="utf-8")
        assert len(json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))) == 2


@pytest.mark.parametrize(
    ("name", "said"),
    [("kafka", "apt-get install maven"), ("nats", "https://go.dev"), ("redis", "apt-get install redis-server")],
)
def test_what_is_missing_is_named_with_the_way_out(
    name: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(nats, "FOLDER", tmp_path / "nats")
    monkeypatch.setattr(kafka, "JARS", tmp_path / "kafka")
    done = CliRunner().invoke(main, ["--only", name, "--into", str(tmp_path)])
    assert done.exit_code == 1
    assert "not installed" in done.output
    assert said in done.output
    assert not list(tmp_path.glob("*.md"))


def test_a_foreign_broker_is_ready_when_it_takes_connections_and_is_ended(tmp_path: Path) -> None:
    port = free_port()
    program = f"import socket, time; s = socket.create_server(('127.0.0.1', {port})); time.sleep(60)"
    with foreign_broker("one", "7", [sys.executable, "-c", program], port, tmp_path / "log") as broker:
        assert (broker.name, broker.version, broker.target.port) == ("one", "7", port)
        assert broker.start_seconds > 0
        assert broker.cpu_seconds() > 0
        assert broker.memory_bytes() > 1 << 20
    with pytest.raises(OSError, match=r".+"):
        broker.cpu_seconds()


def test_a_foreign_broker_that_ends_says_its_last_line(tmp_path: Path) -> None:
    program = "raise SystemExit('no such setting')"
    with (
        pytest.raises(BrokerError, match="one did not become ready: no such setting"),
        foreign_broker("one", "7", [sys.executable, "-c", program], free_port(), tmp_path / "log"),
    ):
        pass


def test_the_clock_of_a_process_is_that_of_its_processor_time() -> None:
    before = brokers.cpu_seconds_of(os.getpid()), time.process_time()
    sum(range(1_000_000))
    after = brokers.cpu_seconds_of(os.getpid()), time.process_time()
    assert after[0] - before[0] == pytest.approx(after[1] - before[1], abs=0.01)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with brokers.own_broker(tmp_path_factory.mktemp("others") / "own") as broker:
        yield broker


@pytest.mark.parametrize("kind", ["classic", "stream"])
def test_ours_keeps_what_it_is_given_and_hands_it_over(kind: str, own: Broker) -> None:
    assert own_load.publish(1024, 16, producers=5, queue_type=kind)(own, kind, 2000) > 0
    assert own_load.read(1024, kind)(own, kind, 2000) > 0


def test_ours_carries_straight_through(own: Broker) -> None:
    assert own_load.through(16)(own, "through", 2000) > 0


@contextmanager
def answering(answers: Callable[[bytes], bytes]) -> Iterator[Broker]:
    """A server of one connection after another that gives the answer to whatever one read brings."""

    def serve(server: socket.socket) -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            with client, suppress(ConnectionError):
                while asked := client.recv(1 << 20):
                    client.sendall(answers(asked))

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = Thread(target=serve, args=[server], daemon=True)
        thread.start()
        yield Broker("one", "7", Target(port=server.getsockname()[1]), os.getpid(), 0.0)
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_commands_to_redis_are_written_as_it_reads_them() -> None:
    assert redis.command("XLEN", "a") == b"*2\r\n$4\r\nXLEN\r\n$1\r\na\r\n"
    assert redis.entry(7, b"xy") == b"*2\r\n$15\r\n1000000000007-0\r\n*2\r\n$1\r\nm\r\n$2\r\nxy\r\n"


def test_a_page_of_redis_is_the_one_that_was_asked_for() -> None:
    asked: list[bytes] = []

    def answer(command: bytes) -> bytes:
        asked.append(command)
        first = 100 * (len(asked) - 1)
        count = int(re.findall(rb"COUNT\r\n\$\d+\r\n(\d+)", command)[0])
        entries = b"".join(redis.entry(number, b"xx") for number in range(first, first + count))
        return b"*1\r\n*2\r\n$8\r\nmeasured\r\n*%d\r\n" % count + entries

    with answering(answer) as broker:
        assert redis.read(2)(broker, "measured", 250) > 0
        assert [re.findall(rb"(\S+)\r\n$", each)[0] for each in asked] == [b"0", b"1000000000099-0", b"1000000000199-0"]
        asked.append(b"a page was left out")
        with redis.Client(broker) as client, pytest.raises(BrokerError, match="did not send entries 300 to 399"):
            client.read("measured", range(300, 400), b"xx")


def test_a_page_of_redis_that_ends_with_another_entry_is_told() -> None:
    def answer(_: bytes) -> bytes:
        entries = b"".join(redis.entry(number, b"xx") for number in (*range(9), 10))
        return b"*1\r\n*2\r\n$8\r\nmeasured\r\n*10\r\n" + entries

    with answering(answer) as broker, pytest.raises(BrokerError, match="did not send entries 0 to 9 of 'measured'"):
        redis.read(2)(broker, "measured", 10)


def test_entries_that_redis_does_not_confirm_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(asked: bytes) -> bytes:
        if b"refuse" in asked:
            return b"-OOM command not allowed\r\n"
        some = [each for each in re.findall(rb"\d{13}-0", asked) if b"other" not in asked or not each.endswith(b"7-0")]
        return b"".join(redis.bulk(each) for each in some)

    monkeypatch.setattr(redis, "TIMEOUT_SECONDS", 0.2)
    with answering(answer) as broker:
        assert redis.fill(2)(broker, "measured", 5) > 0
        with pytest.raises(BrokerError, match=r"did not confirm entries 0 to 9 of 'refuse': b'-OOM command"):
            redis.fill(2)(broker, "refuse", 10)
        with pytest.raises(BrokerError, match=r"did not confirm entries 0 to 9 of 'other' within 0\.2 s"):
            redis.fill(2)(broker, "other", 10)


def test_what_redis_benchmark_says_is_read() -> None:
    assert redis.written_rate('"test","rps","avg_latency_ms"\n"XADD s * m x","4440.53","7.167"\n') == 4440.53
    for said in ("", '"test","rps"\n', "Error: connection refused\n"):
        with pytest.raises(BrokerError, match="does not say how fast"):
            redis.written_rate(said)


def test_the_version_of_redis_is_read() -> None:
    assert redis.version_in("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64") == "7.0.15"


def test_messages_of_nats_are_as_long_as_a_subscriber_counts_them() -> None:
    assert nats.publication("a", "", 3) == b"PUB a 3\r\nxxx\r\n"
    assert nats.publication("a", "acks", 3) == b"PUB a acks 3\r\nxxx\r\n"
    assert nats.delivery("a", 3) == b"MSG a 1 3\r\nxxx\r\n"


class JetStream:
    """Answers as JetStream does, half a line at a time."""

    def __init__(self, refused: int = -1) -> None:
        self.seen = self.confirmed = self.most = 0
        self.refused = refused
        self.rest = b""

    def answer(self, asked: bytes) -> bytes:
        if b"PING" in asked:
            return b"INFO {}\r\nPONG\r\n"
        if b"$JS.API.STREAM.CREATE" in asked:
            return b'MSG made 2 20\r\n{"did_create":true}\r\n'
        new = asked.count(b"PUB ")
        self.most = max(self.most, new)
        said = self.rest + b"PING\r\n"
        for number in range(self.seen, self.seen + new):
            body = b'{"error":{}}' if number == self.refused else b'{"stream":"measured","seq":%d}' % (number + 1)
            said += b"MSG acks 1 %d\r\n%b\r\n" % (len(body), body)
        self.seen += new
        half = len(said) if not new else len(said) - 9
        self.rest = said[half:]
        return said[:half]


def test_a_publisher_to_jetstream_waits_for_every_confirmation() -> None:
    server = JetStream()
    with answering(server.answer) as broker:
        assert nats.publish(8, 50)(broker, "measured", 1000) > 0
    assert server.seen == 1000
    assert server.most <= 50


def test_a_message_that_jetstream_refuses_is_told() -> None:
    with answering(JetStream(refused=70).answer) as broker, pytest.raises(BrokerError, match="refused a message"):
        nats.publish(8, 50)(broker, "measured", 1000)


def test_a_stream_that_jetstream_does_not_make_is_told() -> None:
    def answer(asked: bytes) -> bytes:
        return b"INFO {}\r\nPONG\r\n" if b"PING" in asked else b'MSG made 2 22\r\n{"error":{"code":503}}\r\n'

    with answering(answer) as broker, pytest.raises(BrokerError, match="did not make a stream 'measured'"):
        nats.publish(8, 50)(broker, "measured", 1000)


def test_a_subscriber_that_is_cut_off_says_what_it_misses() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        client = object.__new__(nats.Client)
        client.sock = ours
        theirs.sendall(b"x" * 100)
        nats.count_octets(client, 60)
        theirs.sendall(b"x" * 40)
        theirs.close()
        with pytest.raises(ConnectionError, match="misses 1,000 octets"):
            nats.count_octets(client, 1040)


def test_what_kafkas_tools_say_is_read() -> None:
    sent = "5000 records sent, 900.1 records/sec (0.86 MB/sec)\n8000 records sent, 1234.5 records/sec (1 MB/sec)\n"
    assert kafka.sent_rate(sent, 8000) == 1234.5
    with pytest.raises(BrokerError, match="does not say that it sent 9000"):
        kafka.sent_rate(sent, 9000)
    read = "warning\nstart.time, data.consumed.in.nMsg, fetch.nMsg.sec\n2026-11-22, 8000, 5432.1\n"
    assert kafka.read_rate(read, 8000) == 5432.1
    with pytest.raises(BrokerError, match="does not say that it read 9000"):
        kafka.read_rate(read, 9000)
