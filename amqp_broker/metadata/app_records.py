"""AppRecords: where the transactions of each application live: the part of the metadata that is about txn.*.

The first node that asks for an application becomes its home, and who asked owns it; later ones change nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from amqp_broker.metadata.commands import Command
from amqp_broker.metadata.entities import AppRecord
from amqp_broker.metadata.vhost_state import VHostState
from amqp_broker.settings.workers import node_of_worker


class AppRecords:
    """A part of Metadata."""

    _vhosts: dict[str, VHostState]

    def may_be_home(self, node: str) -> bool:
        """Whether an app may live there."""
        raise NotImplementedError

    def app_handlers(self) -> dict[str, Callable[[Command], bool]]:
        """By command."""
        return {"app.put": self._put_app, "app.delete": self._delete_app}

    def app(self, vhost: str, name: str) -> AppRecord | None:
        state = self._vhosts.get(vhost)
        return state.apps.get(name) if state else None

    def apps(self, vhost: str) -> list[AppRecord]:
        state = self._vhosts.get(vhost)
        return list(state.apps.values()) if state else []

    def _put_app(self, command: Command) -> bool:
        state = self._vhosts.get(command["vhost"])
        if state is None or command["app"] in state.apps or not self.may_be_home(command["home"]):
            return False
        state.apps[command["app"]] = AppRecord(command["app"], command["home"], command["user"])
        return True

    def _delete_app(self, command: Command) -> bool:
        state = self._vhosts.get(command["vhost"])
        record = state.apps.get(command["app"]) if state else None
        if state is None or record is None or record.home != command["home"]:
            return False
        del state.apps[record.name]
        return True

    def drop_apps_of(self, node: str) -> None:
        """A node is no member any more: what was staged there is lost, and the apps get another home."""
        for state in self._vhosts.values():
            for record in [record for record in state.apps.values() if node_of_worker(record.home) == node]:
                del state.apps[record.name]
