"""Reloading: SIGHUP has the settings read again, and what can change while clients are served does: the log's level and
form, and the certificates of TLS. What else has changed is said: it needs a restart.

Invariant: settings that cannot be used change nothing, and the broker goes on with those that it has.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from amqp_broker.management.node_facts import AMQPS, CertificateFacts, NodeFacts
from amqp_broker.server.certificates import shown_at
from amqp_broker.server.tls import tls_context
from amqp_broker.settings.config import SETTINGS, Config
from amqp_broker.settings.log_format import formatter
from amqp_broker.settings.setting import ConfigError

if TYPE_CHECKING:
    import ssl

    from amqp_broker.audit.audit_log import AuditLog

log = logging.getLogger("amqp_broker.server")

#: What takes effect at once. The files of TLS are read whether their names have changed or not.
RELOADED: Final = ("log_level", "log_format", "tls_certificate", "tls_key", "tls_client_ca", "tls_verify_client")


def use_log(config: Config, handler: logging.Handler) -> None:
    """The log's level and form are those of these settings; where a node has several workers, lines name theirs."""
    logging.getLogger().setLevel(config.log_level.upper())
    is_worker = config.has_workers
    handler.setFormatter(formatter(config.log_format, config.worker if is_worker else None))


class Reloading:
    """config: in force. read: the settings as they are now; raises ConfigError. use: gets a context for the handshakes
    of TLS from now on. facts: are told when its certificates end."""

    def __init__(
        self,
        config: Config,
        read: Callable[[], Config],
        handler: logging.Handler,
        use: Callable[[ssl.SSLContext], None],
        audit: AuditLog,
        facts: NodeFacts,
    ) -> None:
        self._config = config
        self._read = read
        self._handler = handler
        self._use = use
        self._audit = audit
        self._facts = facts
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """For the loop: a signal has come. One that comes meanwhile is heard by what goes on."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._reload())
            self._task.add_done_callback(_ended)

    async def _reload(self) -> None:
        try:
            wanted, context, certificates = await asyncio.to_thread(self._look)
        except (ConfigError, OSError, RuntimeError) as error:  # the last: there is no thread to be had
            log.error("SIGHUP: nothing is reloaded, the broker goes on with the settings that it has: %s", error)
            return
        self._apply(wanted, context)
        if context is not None:
            self._facts.shows(AMQPS, certificates)

    def _look(self) -> tuple[Config, ssl.SSLContext | None, tuple[CertificateFacts, ...]]:
        """In a thread: it reads files. Raises ConfigError, OSError."""
        wanted = self._read()
        if not self._config.tls_listen or not wanted.tls_listen:
            return wanted, None, ()
        listeners = [each.listener for each in self._facts.certificates if each.listener.protocol == AMQPS]
        context = tls_context(wanted)
        return wanted, context, shown_at(listeners, wanted.tls_certificate, wanted.tls_client_ca)

    def _apply(self, wanted: Config, context: ssl.SSLContext | None) -> None:
        changed = [
            each.key for each in SETTINGS if getattr(wanted, each.attribute) != getattr(self._config, each.attribute)
        ]
        use_log(wanted, self._handler)
        reloaded = [f"log_level {wanted.log_level}", f"log_format {wanted.log_format}"]
        if context is not None:
            self._use(context)
            reloaded.append(f"TLS certificate {wanted.tls_certificate} with its key and authorities")
        log.info("SIGHUP: reloaded %s", ", ".join(reloaded))
        waiting = [key for key in changed if key not in RELOADED]
        if waiting:
            log.warning("SIGHUP: changed and not reloaded, a restart is needed for: %s", ", ".join(waiting))
        self._audit.record_own("node.reload", details={"reloaded": reloaded, "needs_restart": waiting})


def _ended(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("defect in reloading: the broker goes on with the settings that it has; report it", exc_info=error)
