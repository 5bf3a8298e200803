"""`python -m tests.web.ui.pictures [SECONDS]`: the pictures in docs/images, taken anew of a broker that has been used
for so long."""

from __future__ import annotations

import random
import sys
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path

import amqp_broker
from amqp_broker.client import Connection
from amqp_broker.testing.embedded import RunningBroker
from tests.web.http_client import Http
from tests.web.ui.browser import SIZE, Browser, browser, why_none

IMAGES = Path(__file__).parents[3] / "docs" / "images"
NARROW = (390, 844)
#: Charts have drawn what they were given.
_DRAWN_S = 2.0
QUEUES = {
    "orders": "quorum", "payments": "quorum", "invoices": "classic", "mail.outgoing": "classic", "audit": "stream",
    "thumbnails": "classic", "search.index": "classic", "returns": "quorum",
}  # fmt: skip


def use(broker: RunningBroker, ends: threading.Event) -> None:
    """Somebody publishes more in some seconds than in others, and somebody else is a little slower."""
    chance = random.Random(7)
    with ExitStack() as stack:
        shop = stack.enter_context(Connection.open(broker.url, name="shop")).channel()
        worker = stack.enter_context(Connection.open(broker.url, name="worker-1")).channel()
        shop.confirm_select()
        while not ends.wait(0.2):
            for name in QUEUES:
                for _ in range(chance.randrange(4, 30) if name != "returns" else 1):
                    shop.publish("", name, b"x" * chance.randrange(50, 3000), {"delivery_mode": 2})
            shop.wait_for_confirms()
            for name, queue_type in QUEUES.items():
                if queue_type == "stream":
                    continue
                for each in worker.get_many(name, chance.randrange(2, 30)):
                    worker.ack(each)


def take(window: Browser, name: str, place: str, selector: str, size: tuple[int, int] = SIZE) -> None:
    """One picture, once there is what it is to show."""
    window.driver.set_window_size(*size)
    window.go(place)
    window.find(selector)
    threading.Event().wait(_DRAWN_S)
    window.driver.save_screenshot(str(IMAGES / f"{name}.png"))


def main(seconds: float) -> None:
    """All of them."""
    if why_none():
        raise SystemExit(why_none())
    ends = threading.Event()
    with amqp_broker.running(management=True, log_level="error") as broker, tempfile.TemporaryDirectory() as folder:
        http = Http(broker.management_url)
        for name, queue_type in QUEUES.items():
            arguments = {"x-queue-type": queue_type}
            http("PUT", f"/queues/%2F/{name}", {"durable": True, "arguments": arguments})
        user = threading.Thread(target=use, args=(broker, ends))
        user.start()
        try:
            with browser(Path(folder) / "profile") as window:
                window.visit(broker.management_url)
                window.log_in()
                window.go("queues/%2F/orders")
                ends.wait(seconds)
                take(window, "overview", "overview", "canvas")
                take(window, "queues", "queues", "table")
                take(window, "cluster", "cluster", "table")
                take(window, "queues-narrow", "queues", "table", NARROW)
                window.driver.execute_cdp_cmd(
                    "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
                )
                take(window, "queue-dark", "queues/%2F/orders", "canvas")
        finally:
            ends.set()
            user.join()
            http.close()


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 120.0)
