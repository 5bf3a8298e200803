"""Services: what the endpoints share, one object a process."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from amqp_broker.system_client import SystemRequestError
from amqp_broker.web.hosts import Hosts
from amqp_broker.web.jobs import Jobs
from amqp_broker.web.login import Logins
from amqp_broker.web.node_client import NodeClient, NodeGone
from amqp_broker.web.objects import MOST_ROWS, ObjectLists
from amqp_broker.web.page_sessions import PageSessions
from amqp_broker.web.rates import MOST_OBJECTS, SAMPLE_EVERY_S, Readings
from amqp_broker.web.totals import Totals
from amqp_broker.web.user_sessions import UserSessions

if TYPE_CHECKING:
    from ssl import SSLContext


class Services:
    """`url` is where the node is, with a user who has the tag administrator. `places` are the HTTP listeners, for those
    who ask what there is. statistics_objects: of so many what they counted is remembered. list_rows: ObjectLists. tls:
    for a URL with amqps://. allowed_hosts: Hosts."""

    def __init__(
        self,
        url: str,
        places: tuple[tuple[str, str, int], ...] = (),
        statistics_objects: int = MOST_OBJECTS,
        list_rows: int = MOST_ROWS,
        tls: SSLContext | None = None,
        allowed_hosts: tuple[str, ...] = (),
    ) -> None:
        self.node = NodeClient(url, tls)
        self.logins = Logins(self.node)
        self.page_sessions = PageSessions(self.node)
        self.objects = ObjectLists(self.node, list_rows)
        self.readings = Readings(statistics_objects)
        self.totals = Totals(self.node)
        self.sessions = UserSessions(url, tls=tls)
        self.jobs = Jobs(self.sessions.open, self.forget)
        self.places = places
        self.hosts = Hosts(allowed_hosts)
        self.was_ready = False
        self._stop = threading.Event()
        self._sampler = threading.Thread(target=self._sample, name="totals", daemon=True)

    def record_ready(self) -> None:
        """The node is ready, and so it was from now on."""
        self.was_ready = True

    def start(self) -> None:
        """From here on the totals are read every few seconds, whether anybody asks or not."""
        self._sampler.start()

    def forget(self) -> None:
        """Something was changed: nothing that was read before is shown."""
        self.objects.forget()
        self.totals.forget()

    def close(self) -> None:
        self._stop.set()
        self.jobs.close()
        self.sessions.close()
        self.node.close()

    def _sample(self) -> None:
        while True:
            with suppress(NodeGone, SystemRequestError):  # who asks for the totals is told
                self.totals.sample()
            self.sessions.close_idle()
            if self._stop.wait(SAMPLE_EVERY_S):
                return
