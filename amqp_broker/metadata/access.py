"""Access: the part of the metadata that says who there is, and who may do what where.

Permissions refer to a user and a virtual host that are there; the virtual hosts are Metadata's, of which this is the
base. `access_generation` rises when anything here changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from amqp_broker.metadata.commands import Command
from amqp_broker.metadata.entities import PermissionGrant, TopicGrant, User

ADMINISTRATOR: Final = "administrator"


class Access:
    """Users, permissions, topic permissions."""

    def __init__(self) -> None:
        self._users: dict[str, User] = {}
        self._permissions: dict[tuple[str, str], PermissionGrant] = {}
        self._topic_permissions: dict[tuple[str, str], dict[str, TopicGrant]] = {}
        self.access_generation = 0

    def access_handlers(self) -> dict[str, Callable[[Command], bool]]:
        """What applies the commands of this part."""
        return {
            "user.put": self._put_user,
            "user.limits": self._limit_user,
            "user.delete": self._delete_user,
            "permission.set": self._set_permission,
            "permission.clear": self._clear_permission,
            "topic_permission.set": self._set_topic_permission,
            "topic_permission.clear": self._clear_topic_permission,
        }

    def copy_access_to(self, other: Access) -> None:
        """Give another one the same state, to be changed on its own."""
        other._users = dict(self._users)
        other._permissions = dict(self._permissions)
        other._topic_permissions = {key: dict(grants) for key, grants in self._topic_permissions.items()}
        other.access_generation = self.access_generation

    def has_vhost(self, name: str) -> bool:
        """Whether there is such a virtual host."""
        raise NotImplementedError

    def user(self, name: str) -> User | None:
        return self._users.get(name)

    def users(self) -> list[User]:
        return list(self._users.values())

    def permission(self, user: str, vhost: str) -> PermissionGrant | None:
        """What the user may do in the vhost; None: nothing, not even open it."""
        return self._permissions.get((user, vhost))

    def permissions(self) -> list[PermissionGrant]:
        return list(self._permissions.values())

    def topic_permission(self, user: str, vhost: str, exchange: str) -> TopicGrant | None:
        """The limits on routing keys; None: there are none."""
        return self._topic_permissions.get((user, vhost), {}).get(exchange)

    def topic_permissions(self) -> list[TopicGrant]:
        return [grant for grants in self._topic_permissions.values() for grant in grants.values()]

    def _put_user(self, command: Command) -> bool:
        name = command["user"]
        known = self._users.get(name)
        limits = known.limits if known else {}
        user = User(name, command["password_hash"], tuple(command["tags"]), limits)
        if ADMINISTRATOR not in user.tags and self._takes_last_administrator(command):
            return False
        return self._replace_user(known, user)

    def _limit_user(self, command: Command) -> bool:
        user = self._users.get(command["user"])
        return user is not None and self._replace_user(user, user._replace(limits=dict(command["limits"])))

    def _replace_user(self, known: User | None, user: User) -> bool:
        if known == user:
            return False
        self._users[user.name] = user
        self.access_generation += 1
        return True

    def _delete_user(self, command: Command) -> bool:
        name = command["user"]
        if self._takes_last_administrator(command) or self._users.pop(name, None) is None:
            return False
        self.drop_permissions(0, name)
        self.access_generation += 1
        return True

    def _takes_last_administrator(self, command: Command) -> bool:
        """Whether its user is the last one with the tag, and is not to lose it. Here, where all commands are in one
        order: two that each leave one of two administrators leave nobody."""
        if not command.get("leaves_administrator"):
            return False
        return [name for name, user in self._users.items() if ADMINISTRATOR in user.tags] == [command["user"]]

    def drop_permissions(self, part: int, name: str) -> None:
        """Drops all grants of a user (part 0 of the key) or in a vhost (part 1)."""
        for grants in (self._permissions, self._topic_permissions):
            for key in [key for key in grants if key[part] == name]:
                del grants[key]

    def _set_permission(self, command: Command) -> bool:
        key = (command["user"], command["vhost"])
        grant = PermissionGrant(*key, command["configure"], command["write"], command["read"])
        if not self._may_refer_to(*key) or self._permissions.get(key) == grant:
            return False
        self._permissions[key] = grant
        self.access_generation += 1
        return True

    def _clear_permission(self, command: Command) -> bool:
        if self._permissions.pop((command["user"], command["vhost"]), None) is None:
            return False
        self.access_generation += 1
        return True

    def _set_topic_permission(self, command: Command) -> bool:
        key, exchange = (command["user"], command["vhost"]), command["exchange"]
        grant = TopicGrant(*key, exchange, command["write"], command["read"])
        if not self._may_refer_to(*key) or self.topic_permission(*key, exchange) == grant:
            return False
        self._topic_permissions.setdefault(key, {})[exchange] = grant
        self.access_generation += 1
        return True

    def _clear_topic_permission(self, command: Command) -> bool:
        key = (command["user"], command["vhost"])
        grants = self._topic_permissions.get(key, {})
        if grants.pop(command["exchange"], None) is None:
            return False
        if not grants:
            del self._topic_permissions[key]
        self.access_generation += 1
        return True

    def _may_refer_to(self, user: str, vhost: str) -> bool:
        return user in self._users and self.has_vhost(vhost)
