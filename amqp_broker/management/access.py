"""Access: who may ask what of `amq.system`: for each verb the least tag, and what a user with that tag sees.

viewer < management < policymaker; management < monitoring < administrator. A viewer looks and changes nothing. A user's
own virtual hosts are those for which there is a permission; whoever monitors or administers sees all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from amqp_broker.management.refused import NOT_AUTHORISED, Refused, not_found
from amqp_broker.metadata.access import ADMINISTRATOR

if TYPE_CHECKING:
    from amqp_broker.metadata.metadata import Metadata
    from amqp_broker.routing.vhost import VHost
    from queues.queue import Queue

VIEWER: Final = "viewer"
MANAGEMENT: Final = "management"
POLICYMAKER: Final = "policymaker"
MONITORING: Final = "monitoring"

#: By tag: those that are as good.
_AS_GOOD: Final[Mapping[str, frozenset[str]]] = {
    VIEWER: frozenset({VIEWER, MANAGEMENT, POLICYMAKER, MONITORING, ADMINISTRATOR}),
    MANAGEMENT: frozenset({MANAGEMENT, POLICYMAKER, MONITORING, ADMINISTRATOR}),
    POLICYMAKER: frozenset({POLICYMAKER, ADMINISTRATOR}),
    MONITORING: frozenset({MONITORING, ADMINISTRATOR}),
    ADMINISTRATOR: frozenset({ADMINISTRATOR}),
}
#: RabbitMQ's words for who lacks a tag.
_WORDS: Final = {
    VIEWER: "Not management user",
    MANAGEMENT: "Not management user",
    POLICYMAKER: "Not policymaker user",
    MONITORING: "Not monitor user",
    ADMINISTRATOR: "Not administrator user",
}
#: By verb: the least tag that it needs, None for none. What is not here needs an administrator.
LEAST_TAGS: Final[Mapping[str, str | None]] = {
    "whoami": None,
    "health": None,
    "password.change": None,
    "objects.page": VIEWER,
    "object": VIEWER,
    "totals": VIEWER,
    "queue.peek": MANAGEMENT,
    "node": MONITORING,
    "route.test": MANAGEMENT,
    "queue.types": VIEWER,
    "quorum.view": VIEWER,
    "stream.stat": VIEWER,
    "stream.find": VIEWER,
    "stream.segments": VIEWER,
    "node.guard": MONITORING,
    "connection.close": MANAGEMENT,
    "policy.put": POLICYMAKER,
    "policy.delete": POLICYMAKER,
    "policy.preview": POLICYMAKER,
    "parameter.put": POLICYMAKER,
    "parameter.delete": POLICYMAKER,
}
#: Verbs that change nothing. All others are written down in the audit log, and so is who looks at messages in a queue
#: or begins to follow them.
LOOKING: Final = frozenset({
    "whoami", "health", "objects.page", "object", "totals", "node", "node.settings", "node.guard", "login",
    "statistics", "queue.list", "definitions.export", "cluster.status", "audit.page",
    "definitions.diff", "policy.preview", "stream.stat", "stream.find", "stream.segments", "queue.homes", "queue.types",
    "quorum.view", "route.test", "tap.list", "tap.read",
})  # fmt: skip
#: Verbs whose steps may wait for what clients do: they look, however much there is. Those that act do not wait.
PATIENT: Final = LOOKING | {"queue.peek"}


def least_tag(verb: str) -> str | None:
    """The tag that a verb needs."""
    return LEAST_TAGS.get(verb, ADMINISTRATOR)


class Asker:
    """As whom a request is carried out."""

    def __init__(self, metadata: Metadata, name: str, tags: tuple[str, ...]) -> None:
        self._metadata = metadata
        self.name = name
        self.tags = tags

    @classmethod
    def named(cls, metadata: Metadata, name: str) -> Asker:
        """A user of the metadata. Raises Refused."""
        user = metadata.user(name)
        if user is None:
            raise not_found("user", name)
        return cls(metadata, name, user.tags)

    def has(self, tag: str) -> bool:
        """Whether one of the user's tags is as good as this one."""
        return not _AS_GOOD[tag].isdisjoint(self.tags)

    def check(self, tag: str | None) -> None:
        """Raises Refused where the user's tags are not as good as this one."""
        if tag is not None and not self.has(tag):
            raise Refused(NOT_AUTHORISED, f"user '{self.name}' lacks the tag {tag}", reason=_WORDS[tag])

    @property
    def sees_all(self) -> bool:
        """Whether virtual hosts, connections and channels of others are shown."""
        return self.has(MONITORING)

    def owns(self, vhost: str) -> bool:
        """Whether a virtual host is one of the user's own."""
        return self._metadata.permission(self.name, vhost) is not None

    def sees(self, vhost: str) -> bool:
        """Whether what is in a virtual host is shown."""
        return self.sees_all or self.owns(vhost)

    def find_queue(self, vhosts: Mapping[str, VHost], vhost: str, name: str) -> Queue:
        """A queue that the user may look at. Raises Refused."""
        found = vhosts.get(vhost)
        if found is None:
            raise not_found("vhost", vhost)
        self.check_vhost(vhost)
        queue = found.queues.get(name)
        if queue is None:
            raise not_found("queue", name, vhost)
        return queue

    def check_vhost(self, vhost: str, *, changes: bool = False) -> None:
        """Raises Refused where the user may not look at a virtual host, or not change what is in it."""
        if not (self.owns(vhost) or self.has(ADMINISTRATOR if changes else MONITORING)):
            raise Refused(
                NOT_AUTHORISED,
                f"user '{self.name}' has no permission for vhost '{vhost}'",
                reason="User not authorised to access virtual host",
            )
