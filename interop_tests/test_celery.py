"""A stock Celery application with real worker processes: results, retries, ETA, lost workers, control and
events.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import chain, group
from kombu import pools

from interop_tests.broker_under_test import Restartable
from interop_tests.celery_app import make_app, make_queue
from interop_tests.celery_worker import CeleryWorker

#: How long anything may take on a machine that is slow and busy; nothing waits so long for what has happened.
PATIENCE_S = 120


@pytest.fixture(scope="module")
def queue() -> str:
    return f"celery-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def app(url: str, queue: str) -> Iterator[Any]:
    """The tests' side of the application, for the module's worker."""
    app = make_app(url, queue)
    yield app
    app.close()


@pytest.fixture(scope="module")
def worker(app: Any, url: str, queue: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CeleryWorker]:
    """One worker for all tests that do not kill it."""
    worker = CeleryWorker(app, url, queue, tmp_path_factory.mktemp("celery")).start()
    yield worker
    worker.kill()


def _task(app: Any, name: str) -> Any:
    return app.tasks[f"interop.{name}"]


def _ask(app: Any, worker: CeleryWorker) -> Any:
    """Questions to this worker alone: one reply ends the waiting, so it may be long."""
    return app.control.inspect([worker.name], timeout=PATIENCE_S)


def _order(worker: CeleryWorker) -> dict[str, Any]:
    """Of a broadcast to this worker alone, which is over when it has answered."""
    return {"destination": [worker.name], "reply": True, "timeout": PATIENCE_S}


def _await(condition: Callable[[], Any], worker: CeleryWorker) -> Any:
    """Ask the worker again until it says so; each question is a round trip of its own."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if answer := condition():
            return answer
    raise AssertionError(f"the worker did not get there in {PATIENCE_S} s; its log:\n{worker.log()}")


@pytest.mark.usefixtures("worker")
def test_results_come_back(app: Any) -> None:
    """Two hundred tasks, each with its own result over rpc://."""
    results = [_task(app, "add").delay(index, 1) for index in range(200)]
    assert [result.get(timeout=PATIENCE_S) for result in results] == [index + 1 for index in range(200)]


@pytest.mark.usefixtures("worker")
def test_payloads_survive(app: Any) -> None:
    """Half a megabyte of nested values."""
    payload = {"list": list(range(1000)), "text": "Grüße " * 80_000, "none": None, "nested": {"deep": [True]}}
    assert _task(app, "echo").delay(payload).get(timeout=PATIENCE_S) == payload


@pytest.mark.usefixtures("worker")
def test_errors_come_back(app: Any) -> None:
    """With type and text."""
    with pytest.raises(ValueError, match="on purpose"):
        _task(app, "fail").delay("on purpose").get(timeout=PATIENCE_S)


@pytest.mark.usefixtures("worker")
def test_retries(app: Any) -> None:
    """Each retry is a new message with an ETA."""
    assert _task(app, "succeed_at_last").delay(3).get(timeout=PATIENCE_S) == 3


@pytest.mark.usefixtures("worker")
def test_an_eta_is_kept(app: Any) -> None:
    """Not before its time, by countdown or by date."""
    for option in ("countdown", "eta"):
        started = time.monotonic()
        options = {option: 1 if option == "countdown" else datetime.now(UTC) + timedelta(seconds=1)}
        assert _task(app, "add").apply_async((1, 2), **options).get(timeout=PATIENCE_S) == 3
        assert time.monotonic() - started >= 0.9


@pytest.mark.parametrize("option", ["countdown", "eta"])
def test_the_broker_holds_what_is_for_later(url: str, tmp_path: Path, option: str) -> None:
    """Celery's native delayed delivery: with a quorum queue it makes 28 queues with a TTL each, up to 2^27 s, and sends
    a task for later through those that make up its delay. No worker has it before its time.
    """
    queue = f"later-{uuid.uuid4().hex[:8]}"
    app = make_app(url, queue, "quorum", "topic")
    worker = CeleryWorker(app, url, queue, tmp_path, queue_type="quorum", exchange_type="topic").start()
    try:
        started = time.monotonic()
        when = 12 if option == "countdown" else datetime.now(UTC) + timedelta(seconds=12.5)
        later = _task(app, "add").apply_async((1, 2), **{option: when})
        assert _task(app, "add").delay(2, 2).get(timeout=PATIENCE_S) == 4
        answer = app.control.inspect([worker.name]).scheduled()
        assert time.monotonic() - started < 11.5
        assert answer == {worker.name: []}
        assert later.get(timeout=PATIENCE_S) == 3
        assert 11.9 <= time.monotonic() - started < 60
        assert "delayed delivery for" not in worker.log()
    finally:
        worker.kill()
        app.close()


@pytest.mark.usefixtures("worker")
def test_groups_and_chains(app: Any) -> None:
    """What the rpc:// backend allows; chords it does not."""
    assert group(_task(app, "add").s(index, index) for index in range(20))().get(timeout=PATIENCE_S) == list(
        range(0, 40, 2)
    )
    assert (
        chain(_task(app, "add").s(1, 2), _task(app, "add").s(3), _task(app, "add").s(4))().get(timeout=PATIENCE_S) == 10
    )


def test_eta_tasks_raise_the_prefetch_live(app: Any, url: str, tmp_path: Path) -> None:
    """Every task that waits for its ETA stays unacknowledged, so Celery raises the channel's prefetch: others
    still get through.
    """
    name = f"celery-{uuid.uuid4().hex[:8]}"
    queue = make_queue(name)
    worker = CeleryWorker(app, url, name, tmp_path, "patient").start()
    try:
        for index in range(30):
            _task(app, "add").apply_async((index, 0), countdown=3600, queue=queue)
        _await(lambda: len((_ask(app, worker).scheduled() or {}).get(worker.name, [])) == 30, worker)
        assert _task(app, "add").apply_async((1, 1), queue=queue).get(timeout=PATIENCE_S) == 2
        assert _ask(app, worker).stats()[worker.name]["prefetch_count"] >= 30
    finally:
        worker.kill()


def test_remote_control(app: Any, worker: CeleryWorker) -> None:
    """ping, inspect, rate_limit, add and cancel consumers, pool_grow: each a broadcast with a reply."""
    control, inspect, order = app.control, _ask(app, worker), _order(worker)
    assert control.ping([worker.name], timeout=PATIENCE_S) == [{worker.name: {"ok": "pong"}}]
    assert "interop.add" in inspect.registered()[worker.name]
    extra = f"extra-{uuid.uuid4().hex[:8]}"
    assert "ok" in control.add_consumer(extra, **order)[0][worker.name]
    _await(lambda: extra in {queue["name"] for queue in inspect.active_queues()[worker.name]}, worker)
    assert _task(app, "add").apply_async((2, 3), queue=extra).get(timeout=PATIENCE_S) == 5
    assert "ok" in control.cancel_consumer(extra, **order)[0][worker.name]
    before = inspect.stats()[worker.name]["prefetch_count"]
    assert "ok" in control.pool_grow(2, **order)[0][worker.name]
    assert inspect.stats()[worker.name]["prefetch_count"] > before
    assert "ok" in control.pool_shrink(2, **order)[0][worker.name]
    assert _task(app, "add").delay(1, 1).get(timeout=PATIENCE_S) == 2


def test_a_revoked_task_does_not_run(app: Any, worker: CeleryWorker, tmp_path: Path) -> None:
    """It waits for its ETA at the worker when the revocation arrives; where that came too late, once more with a later
    one."""
    for countdown in (2, 10, 50):
        path = tmp_path / f"written-{countdown}"
        due = time.monotonic() + countdown
        revoked = _task(app, "append").apply_async((str(path), "revoked"), countdown=countdown)
        app.control.revoke(revoked.id, **_order(worker))
        assert revoked.id in _ask(app, worker).revoked()[worker.name]
        scheduled = (_ask(app, worker).scheduled() or {}).get(worker.name, [])
        was_waiting = revoked.id in [each["request"]["id"] for each in scheduled]
        if was_waiting and time.monotonic() < due:
            break
    else:
        raise AssertionError(f"the revocation came too late every time; the worker's log:\n{worker.log()}")
    rest = max(0.0, due - time.monotonic()) + 1
    _task(app, "append").apply_async((str(path), "kept"), countdown=rest).get(timeout=PATIENCE_S)
    assert path.read_text() == "kept\n"


def test_events_tell_a_tasks_life(app: Any, worker: CeleryWorker) -> None:
    """Sent, received, started, succeeded: over the topic exchange celeryev."""
    seen: dict[str, list[str]] = {}
    listening, done = threading.Event(), threading.Event()
    expected = ["task-sent", "task-received", "task-started", "task-succeeded"]

    def on_event(event: dict[str, Any]) -> None:
        listening.set()
        seen.setdefault(event.get("uuid", ""), []).append(event["type"])
        if "task-succeeded" in seen.get("the-task", []) and len(seen["the-task"]) == 4:
            done.set()

    with app.connection_for_read() as connection:
        receiver = app.events.Receiver(connection, handlers={"*": on_event})
        receiver.should_stop = False

        def capture() -> None:
            for _ in receiver.consume(limit=None, timeout=PATIENCE_S, wakeup=True):
                if done.is_set():
                    return

        thread = threading.Thread(target=capture, daemon=True)
        thread.start()
        assert listening.wait(PATIENCE_S), worker.log()
        _task(app, "add").apply_async((1, 2), task_id="the-task").get(timeout=PATIENCE_S)
        assert done.wait(PATIENCE_S), seen
        thread.join(PATIENCE_S)
    assert sorted(seen["the-task"]) == sorted(expected)


def test_priorities(app: Any, worker: CeleryWorker, queue: str, tmp_path: Path) -> None:
    """Tasks that wait in a queue with priorities run in their order once the worker consumes."""
    path = tmp_path / "order"
    name = f"{queue}-priority"
    assert "ok" in app.control.cancel_consumer(name, **_order(worker))[0][worker.name]
    app.control.pool_shrink(1, **_order(worker))
    with app.connection_for_read() as connection:
        waiting = make_queue(name, max_priority=10)(connection.default_channel)
        # The worker says so before it has cancelled.
        _await(lambda: waiting.queue_declare(passive=True).consumer_count == 0, worker)
        results = [
            _task(app, "append").apply_async((str(path), str(priority)), queue=name, priority=priority)
            for priority in (1, 9, 5, 9, 3)
        ]
        # Publishing returns before the broker has the task: what has not arrived cannot be put in order.
        _await(lambda: waiting.queue_declare(passive=True).message_count == len(results), worker)
    app.control.add_consumer(name, **_order(worker))
    for result in results:
        result.get(timeout=PATIENCE_S)
    app.control.pool_grow(1, **_order(worker))
    assert path.read_text().split() == ["9", "9", "5", "3", "1"]


def test_a_killed_worker_loses_no_task(app: Any, url: str, tmp_path: Path) -> None:
    """acks_late: the worker dies by SIGKILL with the task in hand, the next one gets it, marked as
    redelivered.
    """
    queue = f"celery-{uuid.uuid4().hex[:8]}"
    marker = tmp_path / "marker"
    victim = CeleryWorker(app, url, queue, tmp_path, "victim", concurrency=1).start()
    result = _task(app, "hold").apply_async((str(marker),), queue=make_queue(queue))
    _await(marker.exists, victim)
    victim.kill()
    heir = CeleryWorker(app, url, queue, tmp_path, "heir", concurrency=1).start()
    try:
        assert result.get(timeout=PATIENCE_S) == "redelivered"
    finally:
        assert heir.stop() == 0


def test_a_stopped_worker_leaves_the_rest(app: Any, url: str, tmp_path: Path) -> None:
    """SIGTERM to an idle worker: what it has done is acknowledged, what comes later waits in the queue."""
    name = f"celery-{uuid.uuid4().hex[:8]}"
    path = tmp_path / "written"
    passing = CeleryWorker(app, url, name, tmp_path, "passing", concurrency=1).start()
    queue = make_queue(name)
    results = [_task(app, "append").apply_async((str(path), str(index)), queue=queue) for index in range(10)]
    results[-1].get(timeout=PATIENCE_S)
    inspect = _ask(app, passing)
    _await(lambda: inspect.active() == inspect.reserved() == {passing.name: []}, passing)
    assert passing.stop() == 0
    _task(app, "append").apply_async((str(path), "later"), queue=queue)
    with app.connection_for_read() as connection:
        waiting = queue(connection.default_channel)
        _await(lambda: waiting.queue_declare(passive=True).message_count == 1, passing)
    assert path.read_text().split() == [str(index) for index in range(10)]


def test_a_worker_survives_a_restart_of_the_broker(restartable: Restartable, tmp_path: Path) -> None:
    """Tasks that were waiting are done afterwards, and new ones are accepted."""
    queue = f"celery-{uuid.uuid4().hex[:8]}"
    app = make_app(restartable.url, queue)
    survivor = CeleryWorker(app, restartable.url, queue, tmp_path, "survivor", concurrency=1).start()
    path = tmp_path / "written"
    again = app
    try:
        _task(app, "append").delay(str(path), "before").get(timeout=PATIENCE_S)
        _task(app, "append").apply_async((str(path), "during"), countdown=2)
        restartable.stop()
        restartable.start()
        # kombu's pools are the process's own and still hold connections of before
        pools.reset()
        again = make_app(restartable.url, queue)
        survivor.await_answer(again)
        _task(again, "append").delay(str(path), "after")
        _await(lambda: set(path.read_text().split()) == {"before", "during", "after"}, survivor)
    finally:
        survivor.kill()
        for side in (app, again):
            side.close()
