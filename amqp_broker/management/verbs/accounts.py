"""AccountVerbs: virtual hosts, users, and what users may do: made, changed and removed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from amqp_broker.auth.passwords import NewPassword
from amqp_broker.auth.permissions import check_pattern
from amqp_broker.auth.service_account import check_user_name
from amqp_broker.auth.users import LoginOutcome
from amqp_broker.links.levels import DELETION_PROTECTION, LAST_ADMINISTRATOR
from amqp_broker.management.definitions import USER_LIMITS, VHOST_LIMITS
from amqp_broker.management.definitions.importing import DEFAULT_ALGORITHM, NOT_PROTECTED_YET, read_password_hash
from amqp_broker.management.refused import NOT_AUTHORISED, Refused, not_found, precondition
from amqp_broker.metadata import commands
from amqp_broker.metadata.access import ADMINISTRATOR
from amqp_broker.metadata.entities import DEFAULT_TYPE
from amqp_broker.queue_types.register import QUEUE_TYPES
from amqp_broker.turn.task import Steps

if TYPE_CHECKING:
    from amqp_broker.connection.logins import Logins
    from amqp_broker.management.administration import Administration
    from amqp_broker.management.request import Request
    from amqp_broker.vhosts.broker import Broker

#: Whose failures those are that come over AMQP with an old password that is wrong: of whoever has logged in already.
_OWN_HOST = "127.0.0.1"


class AccountVerbs:
    """See the module's docstring."""

    def __init__(self, broker: Broker, administration: Administration, logins: Logins) -> None:
        self._broker = broker
        self._metadata = broker.metadata
        self._logins = logins
        self._execute = administration.carry_out
        self._settled = administration.settled
        self._vhost = administration.vhost
        self._user = administration.user
        self.verbs: dict[str, Callable[[Request], Steps]] = {
            "vhost.create": self._create_vhost,
            "vhost.delete": self._delete_vhost,
            "vhost.limits": self._limit_vhost,
            "vhost.protect": self._protect_vhost,
            "user.put": self._put_user,
            "user.delete": self._delete_user,
            "user.limits": self._limit_user,
            "password.change": self._change_password,
            "permission.put": self._put_permission,
            "permission.delete": self._delete_permission,
            "topic_permission.put": self._put_topic_permission,
            "topic_permission.delete": self._delete_topic_permission,
        }

    def _create_vhost(self, request: Request) -> Steps:
        """Without `permissions_for`, nobody may enter but those who are given permission later. Of one that is there,
        what is not named stays."""
        name, broker = request.name("name"), self._broker
        user = self._user(request, "permissions_for") if request.has("permissions_for") else None
        tags = request.tags("tags") if request.has("tags") else None
        tracing = request.flag("tracing") if request.has("tracing") else None
        queue_type = request.text("default_queue_type", "")
        if queue_type and queue_type not in QUEUE_TYPES:
            raise ValueError(f"field default_queue_type has to be one of {', '.join(QUEUE_TYPES)}, got '{queue_type}'")
        yield from self._settled()
        if name not in broker.vhosts and len(broker.vhosts) >= broker.config.max_vhosts:
            raise precondition(f"the limit of {broker.config.max_vhosts} vhosts (max_vhosts) is reached")
        known = broker.metadata.vhost(name)
        put = commands.put_vhost(
            name,
            description=request.text("description", known.description if known is not None else ""),
            tags=tags if tags is not None else (known.tags if known is not None else ()),
            default_queue_type=queue_type or (known.default_queue_type if known is not None else DEFAULT_TYPE),
            tracing=tracing if tracing is not None else known is not None and known.tracing,
        )
        allow = [commands.set_permission(user, name, ".*", ".*", ".*")] if user is not None else []
        return (yield from self._execute(put, *allow))

    def _delete_vhost(self, request: Request) -> Steps:
        """One that is protected stays, also where that is so since a moment ago, and elsewhere."""
        name = self._vhost(request, "name").name
        yield from self._settled()
        if not self._is_protected(name):
            yield from self._execute(commands.delete_vhost(name))
        if self._is_protected(name):
            raise precondition(f"Refusing to delete virtual host '{name}' because it is protected from deletion")
        return {}

    def _is_protected(self, name: str) -> bool:
        known = self._metadata.vhost(name)
        return known is not None and known.is_protected

    def _protect_vhost(self, request: Request) -> Steps:
        name, is_protected = self._vhost(request, "name").name, request.flag("protected")
        if is_protected and self._metadata.level < DELETION_PROTECTION:
            raise precondition(NOT_PROTECTED_YET)
        return self._execute(commands.protect_vhost(name, is_protected))

    def _limit_vhost(self, request: Request) -> Steps:
        limits = request.limits("limits", VHOST_LIMITS)
        return self._execute(commands.limit_vhost(self._vhost(request).name, limits))

    def _put_user(self, request: Request) -> Steps:
        """Of one who is there, what is not named stays. A hash is read as in definitions."""
        name, broker = request.name("name"), self._broker
        check_user_name(name)
        tags = request.tags("tags") if request.has("tags") else None
        stored = None
        if request.has("password_hash"):
            algorithm = request.text("hashing_algorithm", DEFAULT_ALGORITHM)
            stored = read_password_hash(algorithm, request.text("password_hash"))
        elif request.has("password"):
            stored = yield broker.hashing.hash(NewPassword(request.text("password"), broker.random_bytes))
        yield from self._settled()
        known = broker.metadata.user(name)
        if stored is None:
            stored = known.password_hash if known is not None else ""
        if tags is None:
            tags = list(known.tags) if known is not None else []
        elif ADMINISTRATOR not in tags:
            self._check_administrators(name)
        answer = yield from self._execute(commands.put_user(name, stored, tags, self._can_leave_one()))
        if ADMINISTRATOR not in tags:
            self._check_administrators(name)
        return answer

    def _delete_user(self, request: Request) -> Steps:
        name = self._user(request, "name")
        yield from self._settled()
        self._check_administrators(name)
        answer = yield from self._execute(commands.delete_user(name, self._can_leave_one()))
        self._check_administrators(name)  # others may have gone at the same time
        return answer

    def _change_password(self, request: Request) -> Steps:
        """One's own: who knows the old one gives a new one. Guessing it is held back as logins are."""
        name, broker = request.asker.name, self._broker
        password, old = request.text("password"), request.text("old_password")
        if not password:
            raise ValueError("field password is empty, with which nobody gets in; give another")
        check = self._logins.ask(name, old, request.text("as_host", _OWN_HOST))
        yield check
        if check.result is not LoginOutcome.ACCEPTED:
            more = {"retry_after_ms": check.wait_ms} if check.wait_ms else {}
            text = f"the old password of user '{name}' is another one"
            raise Refused(NOT_AUTHORISED, text, reason="Not_Authorized", **more)
        stored = yield broker.hashing.hash(NewPassword(password, broker.random_bytes))
        yield from self._settled()
        known = broker.metadata.user(name)
        if known is None:
            raise not_found("user", name)
        return (yield from self._execute(commands.put_user(name, stored, list(known.tags), self._can_leave_one())))

    def _can_leave_one(self) -> bool:
        """Whether all members know commands that leave an administrator."""
        return self._metadata.level >= LAST_ADMINISTRATOR

    def _check_administrators(self, without: str) -> None:
        """Somebody has to be able to administer the broker. Raises ValueError."""
        found = [user.name for user in self._metadata.users() if ADMINISTRATOR in user.tags]
        if found == [without]:
            raise precondition(
                f"user '{without}' is the last one with the tag administrator; give the tag to somebody else first"
            )

    def _limit_user(self, request: Request) -> Steps:
        return self._execute(commands.limit_user(self._user(request), request.limits("limits", USER_LIMITS)))

    def _put_permission(self, request: Request) -> Steps:
        patterns = [_pattern(request, key) for key in ("configure", "write", "read")]
        return self._execute(commands.set_permission(self._user(request), self._vhost(request).name, *patterns))

    def _delete_permission(self, request: Request) -> Steps:
        return self._execute(commands.clear_permission(self._user(request), self._vhost(request).name))

    def _put_topic_permission(self, request: Request) -> Steps:
        patterns = [_pattern(request, key) for key in ("write", "read")]
        exchange = request.name("exchange", may_be_empty=True)
        command = commands.set_topic_permission(self._user(request), self._vhost(request).name, exchange, *patterns)
        return self._execute(command)

    def _delete_topic_permission(self, request: Request) -> Steps:
        return self._execute(
            commands.clear_topic_permission(
                self._user(request), self._vhost(request).name, request.text("exchange")
            )
        )


def _pattern(request: Request, key: str) -> str:
    pattern = request.text(key)
    check_pattern(pattern)
    return pattern
