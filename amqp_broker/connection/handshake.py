"""Handshake: the connection class: start, tune, open, close, and what may come later on channel 0 (AMQP 0-9-1 §1.4)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from amqp_broker.audit.actor import VIA_AMQP, Actor
from amqp_broker.auth import sasl
from amqp_broker.auth.sasl import SaslError
from amqp_broker.auth.service_account import ServiceAccount, ServiceSession
from amqp_broker.auth.session import SERVICE_USER, Session
from amqp_broker.auth.users import LoginOutcome, login_with_certificate
from amqp_broker.connection.connection import OPENED, Connection
from amqp_broker.connection.entries import NOBODY, Counts, Entries
from amqp_broker.connection.expected import Expected
from amqp_broker.connection.heartbeat import watch_heartbeat
from amqp_broker.connection.logins import AMQP, ClientLogin, Logins
from amqp_broker.errors import ConnectionException
from amqp_broker.flow.declarer import Declarer
from amqp_broker.flow.state import CLOSING, OPEN, STARTING
from amqp_broker.metadata.cluster_identity import cluster_name
from amqp_broker.protocol import constants as c
from amqp_broker.protocol import methods
from amqp_broker.protocol.constants import ReplyCode
from amqp_broker.protocol.fields import Table
from amqp_broker.settings.log_format import about

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amqp_broker.audit.audit_log import AuditLog
    from amqp_broker.auth.passwords import VerifiedPasswords
    from amqp_broker.flow.clients import Clients
    from amqp_broker.flow.pauses import Pauses
    from amqp_broker.metadata.metadata import Metadata
    from amqp_broker.routing.vhost import VHost
    from amqp_broker.settings.config import Config
    from amqp_broker.turn.clock import TurnClock
    from queues.timers import Timers

log = logging.getLogger("amqp_broker.connection")

#: kombu and Celery choose their flow control by product and version (docs/decisions/0012-product-name.md): these are
#: the product and version whose behaviour is followed. Who this really is stands in "broker".
PRODUCT = "RabbitMQ"
BROKER = "amqp-broker"
COMPATIBLE_VERSION = "3.13.7"

CAPABILITIES = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "consumer_priorities": True,
    "authentication_failure_close": True,
    "per_consumer_qos": True,
    "direct_reply_to": True,
}

_SERVER_PROPERTIES = {
    "broker": BROKER,
    "capabilities": CAPABILITIES,
    "copyright": "the amqp-broker authors",
    "information": "AMQP 0-9-1 with RabbitMQ's extensions",
    "platform": "Python",
    "product": PRODUCT,
    "version": COMPATIBLE_VERSION,
}
_LOCALE = "en_US"
_MIN_FRAME_MAX = 4096
#: `Connection.handshake_step` between connection.start-ok and its answer (before it is 0).
_AUTHENTICATING = -1
#: The same between connection.open and its answer.
_ENTERING = -2


class Handshake:
    """Shared by all connections of a node. expected: those that come from other workers; they count, too."""

    def __init__(
        self,
        config: Config,
        metadata: Metadata,
        passwords: VerifiedPasswords,
        vhosts: Mapping[str, VHost],
        clients: Clients,
        pauses: Pauses,
        timers: Timers,
        clock: TurnClock,
        service: ServiceAccount,
        audit: AuditLog,
        is_drained: Callable[[], bool],
    ) -> None:
        self._is_drained = is_drained
        self._audit = audit
        self._service = service
        self._config = config
        self._metadata = metadata
        self._vhosts = vhosts
        self._clients = clients
        self._timers = timers
        self._clock = clock
        self.expected = Expected()
        self.logins = Logins(config, metadata, passwords, pauses, clock, self._decide, audit)
        self.entries = Entries(config, metadata, vhosts, clients, self.expected, pauses, timers, clock)
        self._handlers: dict[int, Callable[[Connection, Any], None]] = {  # own class: each takes that of its method
            c.CONNECTION_START_OK: self.on_connection_start_ok,
            c.CONNECTION_TUNE_OK: self.on_connection_tune_ok,
            c.CONNECTION_OPEN: self.on_connection_open,
            c.CONNECTION_CLOSE: self.on_connection_close,
            c.CONNECTION_CLOSE_OK: self.on_connection_close_ok,
            c.CONNECTION_UPDATE_SECRET: self.on_connection_update_secret,
        }

    def mechanisms(self, connection: Connection) -> bytes:
        """The offer, separated by spaces; EXTERNAL only where a certificate can name the user."""
        offer = b"PLAIN AMQPLAIN"
        return offer + b" EXTERNAL" if connection.peer.certificate_name else offer

    def on_protocol_header(self, connection: Connection, header: bytes) -> None:
        """AMQP 0-9-1 §4.2.2: an unsupported header is answered with the supported one, and the end."""
        if header not in (c.PROTOCOL_HEADER, c.PROTOCOL_HEADER_0_9):
            connection.output.put_raw(c.PROTOCOL_HEADER)
            connection.touch()
            connection.control.drop(connection)
            return
        connection.state = STARTING
        properties = Table({**_SERVER_PROPERTIES, "cluster_name": cluster_name(self._metadata, self._config)})
        start = methods.ConnectionStart(0, 9, properties, self.mechanisms(connection), _LOCALE.encode())
        connection.send(0, start)

    def on_method(self, connection: Connection, method: methods.Method) -> None:
        """A method of the connection class on channel 0. Raises ConnectionException."""
        handler = self._handlers.get(method.index)
        if handler is None:
            raise ConnectionException(ReplyCode.COMMAND_INVALID, f"{method.name}: a client does not send it")
        handler(connection, method)

    def _expect(self, connection: Connection, method: methods.Method, state: int) -> None:
        if connection.handshake_step != state:
            raise ConnectionException(ReplyCode.COMMAND_INVALID, f"{method.name} at the wrong time")

    def on_connection_start_ok(self, connection: Connection, method: methods.ConnectionStartOk) -> None:
        """Authentication: the answer may have to wait for a check of the password (logins.py)."""
        self._expect(connection, method, 0)
        mechanism, response = method.mechanism, method.response
        if mechanism not in self.mechanisms(connection).decode().split():
            raise ConnectionException(ReplyCode.COMMAND_INVALID, f"unknown authentication mechanism '{mechanism}'")
        connection.handshake_step = _AUTHENTICATING
        who = ""
        try:
            if mechanism == "EXTERNAL":
                who = connection.peer.certificate_name or ""
                name = self._named_by_certificate(connection, response)
                self.logins.record_success(connection.peer.host)
                self._accept(connection, method, Session(self._metadata, name, method.client_properties, "", mechanism))
            else:
                said = sasl.plain(response) if mechanism == "PLAIN" else sasl.amqplain(response)
                who = said.user
                check = ClientLogin(connection, method, said.user, said.password, said.identity)
                if self._service.is_meant(said.user):
                    self._decide_on_service(check)
                else:
                    self.logins.wait(check)
        except SaslError as error:
            self._refuse(connection, method, who, error)

    def _named_by_certificate(self, connection: Connection, response: bytes) -> str:
        """The name of the user. Raises SaslError."""
        peer = connection.peer
        name = sasl.external(response, peer.certificate_name)
        outcome = login_with_certificate(
            self._metadata.user(name),
            peer_is_loopback=peer.is_loopback,
            loopback_users=self._config.loopback_users,
        )
        if outcome is not LoginOutcome.ACCEPTED:
            raise SaslError(f"user '{name}' {outcome.value}")
        return name

    def _decide(self, check: ClientLogin) -> None:
        """Nothing is left to compute: let the client in or refuse it."""
        connection = check.connection
        if check.refusal:
            self._refuse(connection, check.method, check.user, SaslError(check.refusal))
            return
        outcome = self.logins.outcome_of(check, connection.peer.is_loopback)
        if outcome is not LoginOutcome.ACCEPTED:
            self._refuse(connection, check.method, check.user, SaslError(f"user '{check.user}' {outcome.value}"))
            return
        method = check.method
        session = Session(self._metadata, check.user, method.client_properties, "", method.mechanism)
        self._accept_as(check, session)

    def _decide_on_service(self, check: ClientLogin) -> None:
        """The node's own account: nothing has to be computed."""
        if self._service.accepts(check.password, check.connection.peer.is_loopback):
            self._accept_as(check, ServiceSession(self._metadata, check.method.client_properties))
        else:
            self.logins.record_failure(check.host)
            why = "gave a wrong token, or came from another machine"
            self._refuse(check.connection, check.method, check.user, SaslError(f"user '{check.user}' {why}"))

    def _accept_as(self, check: ClientLogin, session: Session) -> None:
        """Let a user in who is who he says: as somebody else, if he asks for that and administers (RFC 4616)."""
        connection, method = check.connection, check.method
        if check.acts_as:
            outcome = login_with_certificate(
                self._metadata.user(check.acts_as),
                peer_is_loopback=connection.peer.is_loopback,
                loopback_users=self._config.loopback_users,
            )
            why = f"user '{check.user}' wants to act as '{check.acts_as}', "
            if not session.has_tag("administrator"):
                self.logins.record_failure(check.host)
                self._refuse(connection, method, check.user, SaslError(f"{why}and lacks the tag administrator"))
                return
            if outcome is not LoginOutcome.ACCEPTED:
                self._refuse(connection, method, check.user, SaslError(f"{why}who {outcome.value}"))
                return
            properties = method.client_properties
            session = Session(self._metadata, check.acts_as, properties, check.user, method.mechanism)
        if not self._service.is_meant(check.user):  # that it comes from there says nothing of who else does
            self.logins.record_success(check.host)
        self._accept(connection, method, session)

    def _accept(self, connection: Connection, method: methods.ConnectionStartOk, session: Session) -> None:
        self.logins.count(AMQP, True)
        connection.session = session
        connection.handshake_step = 1
        config = self._config
        tune = methods.ConnectionTune(config.channel_max, config.frame_max, config.heartbeat_ms // 1000)
        connection.send(0, tune)

    def _refuse(
        self, connection: Connection, method: methods.ConnectionStartOk, user: str, reason: SaslError
    ) -> None:
        """connection.close 403 where the client can take it."""
        peer = connection.peer
        self._audit.refuse(Actor(user, "", f"{peer.host}:{peer.port}", VIA_AMQP), "login", str(reason))
        fields = about("login_refused", user=user, peer=str(peer), via=VIA_AMQP, reason=str(reason))
        log.warning("login from %s refused: %s", peer, reason, extra=fields)
        self.logins.count(AMQP, False)
        capabilities = method.client_properties.get("capabilities")
        if isinstance(capabilities, dict) and capabilities.get("authentication_failure_close") is True:
            connection.control.close(
                connection,
                ReplyCode.ACCESS_REFUSED,
                f"Login was refused using authentication mechanism {method.mechanism}. "
                "For details see the broker logfile.",
            )
            return
        connection.control.refuse_silently(connection, self._config.login_refusal_delay_ms)

    def on_connection_tune_ok(self, connection: Connection, method: methods.ConnectionTuneOk) -> None:
        """The client may ask for less than was offered, not for more (0 means no limit, which is more)."""
        self._expect(connection, method, 1)
        config = self._config
        channel_max = self._negotiate("channel_max", method.channel_max, config.channel_max, 1)
        frame_max = self._negotiate("frame_max", method.frame_max, config.frame_max, _MIN_FRAME_MAX)
        connection.frame_max = frame_max
        # RabbitMQ takes eight octets more than the specification lets a client send; some clients rely on that.
        connection.payload_max = frame_max
        session = connection.session
        assert session is not None  # since connection.start-ok
        session.tune(channel_max, method.heartbeat * 1000)
        connection.handshake_step = 2

    @staticmethod
    def _negotiate(name: str, asked: int, offered: int, least: int) -> int:
        if asked == 0 and offered:
            raise ConnectionException(
                ReplyCode.NOT_ALLOWED,
                f"negotiated {name} = 0 (no limit) is higher than the maximum allowed value ({offered})",
            )
        if offered and asked > offered:
            raise ConnectionException(
                ReplyCode.NOT_ALLOWED,
                f"negotiated {name} = {asked} is higher than the maximum allowed value ({offered})",
            )
        if asked < least:
            raise ConnectionException(
                ReplyCode.NOT_ALLOWED, f"negotiated {name} = {asked} is lower than the minimum allowed value ({least})"
            )
        return asked

    def on_connection_open(self, connection: Connection, method: methods.ConnectionOpen) -> None:
        """Enter a virtual host."""
        self._expect(connection, method, 2)
        session = connection.session
        assert session is not None  # since connection.start-ok
        name = method.virtual_host
        vhost = self._vhosts.get(name)
        if vhost is None and session.user == SERVICE_USER:
            # The virtual host that it was told of at the start is deleted; which one it is in does not matter.
            name = next(iter(self._vhosts), name)
            vhost = self._vhosts.get(name)
        if vhost is None:
            raise ConnectionException(ReplyCode.NOT_ALLOWED, f"vhost {name} not found")
        session.enter(name)
        self.check_entry(session, vhost)
        if self.entries.are_shared(session, vhost):
            connection.handshake_step = _ENTERING
            self.entries.wait(connection, session, vhost, partial(self._decide_on_entry, connection, vhost))
        else:
            self._enter(connection, session, vhost)

    def _decide_on_entry(self, connection: Connection, vhost: VHost, others: Counts) -> None:
        """The other workers have said what they have: let the client in or refuse it."""
        session = connection.session
        assert session is not None  # since connection.start-ok
        try:
            if self._vhosts.get(vhost.name) is not vhost:
                raise ConnectionException(ReplyCode.NOT_ALLOWED, f"vhost {vhost.name} not found")
            self.check_entry(session, vhost, others)
        except ConnectionException as error:
            error.blame(c.CONNECTION_OPEN >> 16, c.CONNECTION_OPEN & 0xFFFF)
            connection.control.on_connection_exception(connection, error)
        else:
            self._enter(connection, session, vhost)

    def _enter(self, connection: Connection, session: Session, vhost: VHost) -> None:
        vhost.enter(session.user)
        connection.declarer = Declarer(vhost, session, connection.peer)
        connection.state = OPEN
        connection.handshake_step = OPENED
        assert connection.timer is not None  # of the handshake
        connection.timer.cancel()
        self._clients.enter(connection, session.user)
        watch_heartbeat(connection, session.heartbeat_ms, self._timers, self._clock.now)
        connection.control.opened(connection)
        connection.send(0, methods.ConnectionOpenOk())

    def check_entry(self, session: Session, vhost: VHost, others: Counts = NOBODY) -> None:
        """Whether this user may have one more connection to the virtual host, at this node; those that are on their way
        here from other workers count. others: what the other workers have. Raises ConnectionException."""
        if not session.has_vhost():
            raise ConnectionException(
                ReplyCode.NOT_ALLOWED, f"access to vhost '{vhost.name}' refused for user '{session.user}'"
            )
        if self._is_drained() and not session.is_tool:
            text = f"node {self._config.node_name} is being drained: connect to another one"
            raise ConnectionException(ReplyCode.CONNECTION_FORCED, text)
        most, own = self._clients.max_connections, self._clients.of_user(SERVICE_USER)
        here = self._clients.open_count - len(own) + len(self.expected)
        if session.user != SERVICE_USER and here >= most:
            raise ConnectionException(
                ReplyCode.NOT_ALLOWED,
                f"connection refused: the node's limit of {most} connections (max_connections) is reached",
            )
        self.entries.check(session, vhost, others)

    def on_connection_close(self, connection: Connection, method: methods.ConnectionClose) -> None:
        """The client leaves."""
        connection.control.on_client_close(connection)

    def on_connection_close_ok(self, connection: Connection, method: methods.ConnectionCloseOk) -> None:
        """An answer to a close that was never sent is passed over."""
        if connection.state == CLOSING:
            connection.control.drop(connection)

    def on_connection_update_secret(self, connection: Connection, method: methods.ConnectionUpdateSecret) -> None:
        """Answered as RabbitMQ does with users of its own: the password was checked at the start."""
        if connection.state != OPEN:
            raise ConnectionException(ReplyCode.COMMAND_INVALID, f"{method.name} before connection.open-ok")
        connection.send(0, methods.ConnectionUpdateSecretOk())


