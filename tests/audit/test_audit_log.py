"""What is written down of whom, what is not, and what the disk does to it."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from amqp_broker.audit.audit_log import MOST_READS
from amqp_broker.audit.files import AuditFiles, Place
from amqp_broker.audit.refused import MOST_KINDS, PERIOD_MS
from amqp_broker.management.access import LOOKING
from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from tests.example_counts import seeds
from tests.management.users import USER, TaggedDesk, add_user, log_in
from tests.node.node_driver import Client, NodeDriver, small_config
from tests.node.system_service import SystemService
from tests.simulation.simulated_disk import SimulatedCrash, SimulatedDisk


def lines_of(driver: NodeDriver) -> list[dict[str, Any]]:
    disk = driver.disk
    found = [disk.read(f"audit/{name}", 0, 1 << 30) for name in disk.list("audit")]
    return [json.loads(line) for line in b"".join(found).splitlines()]


def said_of(driver: NodeDriver) -> list[tuple[str, str, str]]:
    return [(line["what"], line.get("name", ""), line["outcome"]) for line in lines_of(driver)]


@pytest.fixture
def driver() -> NodeDriver:
    return NodeDriver(small_config(audit_log=True))


def channel_of(driver: NodeDriver, user: str = USER) -> Client:
    client = driver.client() if user == USER else log_in(driver, user)
    client.send(1, methods.ChannelOpen())
    return client


def queue(
    name: str, *, durable: bool = True, exclusive: bool = False, auto_delete: bool = False, **arguments: object
) -> Any:
    return methods.QueueDeclare(0, name, False, durable, exclusive, auto_delete, False, Table(arguments))


def test_what_a_client_makes_and_removes(driver: NodeDriver) -> None:
    client = channel_of(driver)
    exchange = methods.ExchangeDeclare(0, "x", "fanout", False, True, False, False, False, Table({}))
    for method in (
        exchange, exchange, queue("q"), queue("q"),
        methods.QueueBind(0, "q", "x", "key", False, Table({})),
        methods.QueueBind(0, "q", "x", "key", False, Table({})),
        methods.ExchangeBind(0, "x", "amq.direct", "k", False, Table({"a": 1})),
        methods.QueuePurge(0, "q", False),
        methods.QueueUnbind(0, "q", "x", "key", Table({})),
        methods.ExchangeUnbind(0, "x", "amq.direct", "k", False, Table({"a": 1})),
        methods.QueueDelete(0, "q", False, False, False),
        methods.ExchangeDelete(0, "x", False, False),
        methods.QueueDelete(0, "q", False, False, False),
    ):  # fmt: skip
        client.send(1, method)
        driver.settle()
    assert said_of(driver) == [
        (what, name, "done")
        for what, name in (
            ("exchange.declare", "x"), ("queue.declare", "q"), ("queue.bind", "q"), ("exchange.bind", "x"),
            ("queue.purge", "q"), ("queue.unbind", "q"), ("exchange.unbind", "x"), ("queue.delete", "q"),
            ("exchange.delete", "x"),
        )
    ]  # fmt: skip
    line = lines_of(driver)[3]
    assert {key: line[key] for key in ("v", "at", "node", "user", "via", "vhost")} == {
        "v": 1, "at": driver.now, "node": driver.config.node_name, "user": USER, "via": "amqp", "vhost": "/",
    }  # fmt: skip
    assert line["from"] == f"{client.connection.peer.host}:{client.connection.peer.port}"
    assert line["details"] == {
        "source": "amq.direct", "destination_type": "exchange", "routing_key": "k", "arguments": {"a": 1},
    }  # fmt: skip
    assert line["time"].endswith("Z")


def test_reply_queues_leave_nothing(driver: NodeDriver) -> None:
    client = channel_of(driver)
    client.send(
        1,
        queue("", durable=False, exclusive=True), queue("own", exclusive=True), queue("last", auto_delete=True),
        queue("soon", **{"x-expires": 1000}), queue("ram", durable=False),
    )  # fmt: skip
    driver.settle()
    client.send(1, methods.QueueBind(0, "soon", "amq.direct", "k", False, Table({})))
    for name in ("own", "last", "soon", "ram"):
        client.send(1, methods.QueuePurge(0, name, False), methods.QueueDelete(0, name, False, False, False))
        driver.settle()
    assert lines_of(driver) == []


def test_a_client_that_goes_leaves_its_line(driver: NodeDriver) -> None:
    client = channel_of(driver)
    client.send(1, queue("q"))
    driver.turn()
    driver.lose(client)
    driver.settle()
    assert said_of(driver) == [("queue.declare", "q", "done")]


def test_who_may_not_is_written_down_once_and_counted(driver: NodeDriver) -> None:
    add_user(driver, "poor", vhosts=())
    service = TaggedDesk(driver)
    assert service.ask_as(USER, "permission.put", user="poor", vhost="/", configure="", write="", read="")["ok"]
    client = channel_of(driver, "poor")
    for _ in range(3):
        client.send(1, queue("q"))
        driver.settle()
        client.send(1, methods.ChannelCloseOk())
        client.send(1, methods.ChannelOpen())
    refused = [line for line in lines_of(driver) if line["outcome"] == "refused"]
    assert [(line["what"], line["user"]) for line in refused] == [("queue.declare", "poor")]
    assert "configure access" in refused[0]["reason"]
    driver.wait(PERIOD_MS)
    driver.settle()
    assert lines_of(driver)[-1]["count"] == 2


def test_verbs_and_as_whom(driver: NodeDriver) -> None:
    add_user(driver, "boss", "administrator")
    service = TaggedDesk(driver)
    put = {"name": "eve", "password": "secret", "tags": ["management"]}
    assert service.ask_as("boss", "user.put", as_host="10.0.0.9", **put)["ok"]
    assert not service.ask_as("eve", "user.delete", name="boss")["ok"]
    assert not service.ask_as("boss", "user.delete", name="nobody")["ok"]
    service.ask_as("boss", "whoami")
    done, missing_tag, missing_user = lines_of(driver)
    assert (done["what"], done["name"], done["user"], done["by"]) == ("user.put", "eve", "boss", USER)
    assert (done["from"], done["via"], done["outcome"]) == ("10.0.0.9", "http", "done")
    assert done["through"].startswith("127.0.0.1:")
    assert done["details"] == {"tags": ["management"], "password": "changed"}
    assert "secret" not in json.dumps(lines_of(driver))
    assert (missing_tag["user"], missing_tag["outcome"]) == ("eve", "refused")
    assert "no user 'nobody'" in missing_user["reason"]


def test_every_verb_either_looks_or_is_written_down(driver: NodeDriver) -> None:
    verbs = set(driver.node.system._verbs)
    assert verbs >= LOOKING
    service = SystemService(driver)
    left_out = {"cluster.rebalance", "node.drain"}  # the latter parts from who asks
    for verb in sorted(verbs - left_out):
        service.ask(verb)
    written = {line["what"] for line in lines_of(driver)}
    assert written >= verbs - LOOKING - left_out
    assert not written & LOOKING


def test_only_an_administrator_says_for_which_host(driver: NodeDriver) -> None:
    add_user(driver, "some", "policymaker")
    service = SystemService(driver, log_in(driver, "some"))
    policy = {"vhost": "/", "name": "p", "pattern": "", "definition": {"max-length": 1}}
    assert service.ask("policy.put", as_host="6.6.6.6", **policy)["ok"]
    (line,) = lines_of(driver)
    assert (line["via"], "through" in line) == ("amqp", False)


def test_refused_logins_are_joined(driver: NodeDriver) -> None:
    for number in range(3 * MOST_KINDS):
        log_in(driver, f"user{number}", "wrong")
        log_in(driver, f"user{number}", "wrong")
    assert len(lines_of(driver)) == MOST_KINDS
    first = lines_of(driver)[0]
    assert (first["what"], first["user"], first["outcome"]) == ("login", "user0", "refused")
    driver.wait(PERIOD_MS)
    driver.settle()
    rest = lines_of(driver)[MOST_KINDS:]
    assert len(rest) == MOST_KINDS + 1
    assert [line["count"] for line in rest if "count" in line][-1] == 4 * MOST_KINDS


def ask_pages(service: SystemService, **fields: object) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    before = None
    while True:
        more = {} if before is None else {"before": before}
        page = service.ask("audit.page", **fields, **more)
        assert page["ok"], page
        found += page["rows"]
        before = page["next"]
        if before is None:
            return found


def test_pages_are_the_whole_log_newest_first() -> None:
    driver = NodeDriver(small_config(audit_log=True, audit_file_size_bytes=2000, audit_files=100))
    service = SystemService(driver)
    for number in range(40):
        service.ask("global_parameter.put", name=f"p{number}", value=number)
    service.ask("global_parameter.delete", name="p0")
    assert len(driver.disk.list("audit")) > 4
    for limit in (1, 7, 200):
        assert ask_pages(service, limit=limit) == lines_of(driver)[::-1]
    assert len(ask_pages(service, what="global_parameter.", name="p0")) == 2
    assert len(ask_pages(service, what="global_parameter.delete")) == 1
    assert ask_pages(service, user="nobody") == []
    assert ask_pages(service, since=driver.now + 1) == []


@pytest.mark.parametrize(
    "fields",
    [{"limit": 0}, {"limit": 201}, {"before": 1}, {"before": {"n": 1}}, {"node": "elsewhere"}, {"since": "x"}],
)
def test_pages_that_cannot_be(driver: NodeDriver, fields: dict[str, Any]) -> None:
    assert not SystemService(driver).ask("audit.page", **fields)["ok"]


def test_the_oldest_file_makes_room() -> None:
    driver = NodeDriver(small_config(audit_log=True, audit_file_size_bytes=1000, audit_files=3))
    service = SystemService(driver)
    for number in range(40):
        service.ask("global_parameter.put", name=f"p{number}", value=number)
    assert len(driver.disk.list("audit")) == 3
    assert lines_of(driver)[-1]["name"] == "p39"
    assert ask_pages(service, limit=3) == lines_of(driver)[::-1]


def test_a_full_disk_stops_nobody_and_loses_nothing(driver: NodeDriver) -> None:
    service = SystemService(driver)
    service.ask("global_parameter.put", name="a", value=1)
    append = driver.disk.append

    def full(path: str, buffers: Any) -> None:
        if path.startswith("audit/"):
            append(path, [bytes(buffers[0])[:9]])
            raise OSError(28, "No space left on device")
        append(path, buffers)

    driver.disk.append = full  # type: ignore[method-assign]
    assert service.ask("global_parameter.put", name="b", value=1)["ok"]
    driver.disk.append = append  # type: ignore[method-assign]
    assert service.ask("global_parameter.put", name="c", value=1)["ok"]
    assert [line["name"] for line in lines_of(driver)] == ["a"]
    driver.wait(1000)
    driver.settle()
    assert [line["name"] for line in lines_of(driver)] == ["a", "b", "c"]


def test_what_does_not_fit_is_counted() -> None:
    driver = NodeDriver(small_config(audit_log=True, audit_backlog_bytes=600))
    service = SystemService(driver)
    append = driver.disk.append

    def full(path: str, buffers: Any) -> None:
        if path.startswith("audit/"):
            raise OSError(28, "No space left on device")
        append(path, buffers)

    driver.disk.append = full  # type: ignore[method-assign]
    for number in range(10):
        service.ask("global_parameter.put", name=f"p{number}", value=1)
    driver.disk.append = append  # type: ignore[method-assign]
    driver.wait(1000)
    driver.settle()
    lines = lines_of(driver)
    assert lines[-1]["what"] == "audit.lost"
    assert lines[-1]["details"]["count"] + len(lines) - 1 == 10


def test_a_line_that_a_crash_has_cut_is_removed() -> None:
    disk = SimulatedDisk(random.Random(3))
    driver = NodeDriver(small_config(audit_log=True), disk)
    SystemService(driver).ask("global_parameter.put", name="a", value=1)
    disk.append("audit/00000001.log", [b'{"v": 1, "at": 17'])
    driver.start()
    SystemService(driver).ask("global_parameter.put", name="b", value=1)
    assert [line["name"] for line in lines_of(driver)] == ["a", "b"]


@pytest.mark.parametrize("seed", seeds(range(40)))
def test_a_crash_at_any_moment_leaves_whole_lines(seed: int) -> None:
    """What an append has returned from is there, whole; of the one that was going on any part."""
    chance = random.Random(seed)
    disk = SimulatedDisk(chance)
    files = AuditFiles(disk, 300, 5)
    files.open()
    told = 0
    disk.crash_at = chance.randint(1, 60)
    try:
        for number in range(30):
            files.append(b'{"at": %d}\n' % number)
            told = number + 1
    except SimulatedCrash:
        pass
    disk.crash()
    files = AuditFiles(disk, 300, 5)
    files.open()
    files.append(b'{"at": 99}\n')
    found = files.read(None, 1000, 1 << 20, lambda line: True)
    numbers = [json.loads(line)["at"] for _, line in found.lines[::-1] if line.startswith(b"{") and line.endswith(b"}")]
    assert numbers[-1] == 99
    assert set(range(numbers[0], told)) <= set(numbers)


def test_the_end_writes_what_is_left(driver: NodeDriver) -> None:
    for _ in range(2):
        log_in(driver, "nobody", "wrong")
    audit = driver.node.audit
    audit.record_own("one")
    driver.node.end_turn(driver.now)  # handed out, and the thread is stopped before it has run
    audit.record_own("node.stop")
    audit.close()
    assert [line["what"] for line in lines_of(driver)] == ["login", "one", "node.stop", "login"]


def test_whoever_reads_finds_what_was_done_before(driver: NodeDriver) -> None:
    """Also where a write was going on when it was recorded."""
    audit = driver.node.audit
    audit.record_own("first")
    (write,) = driver.node.end_turn(driver.now).checks
    audit.record_own("second")
    read = audit.read(None, 10, lambda line: True)
    assert driver.node.end_turn(driver.now).checks == []
    write.run()
    driver.node.checked(write, driver.now)
    driver.turn()
    assert read.result is not None
    assert [json.loads(line)["what"] for _, line in read.result.lines] == ["second", "first"]


def test_no_more_than_so_many_read_it_at_once(driver: NodeDriver) -> None:
    audit = driver.node.audit
    for _ in range(MOST_READS):
        audit.read(Place(1, 0), 1, lambda line: True)
    with pytest.raises(ValueError, match="ask again"):
        audit.read(None, 1, lambda line: True)
    driver.turn()
    audit.read(None, 1, lambda line: True)


def test_it_can_be_off() -> None:
    driver = NodeDriver(small_config(audit_log=False))
    service = SystemService(driver)
    service.ask("global_parameter.put", name="a", value=1)
    assert driver.disk.list("audit") == []
    assert service.ask("audit.page")["rows"] == []
