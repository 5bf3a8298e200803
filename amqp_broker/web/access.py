"""Who may ask for what: the tags of users, and what each of them lets one do."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from amqp_broker.web.errors import ApiError, not_authorised

VIEWER, MANAGEMENT, POLICYMAKER = "viewer", "management", "policymaker"
MONITORING, ADMINISTRATOR = "monitoring", "administrator"


class Access(Enum):
    """The tags of which one is needed, and the words of the refusal."""

    NOBODY_ASKED = ((), "")
    VIEWER = ((VIEWER, MANAGEMENT, POLICYMAKER, MONITORING, ADMINISTRATOR), "Not management user")
    MANAGEMENT = ((MANAGEMENT, POLICYMAKER, MONITORING, ADMINISTRATOR), "Not management user")
    POLICYMAKER = ((POLICYMAKER, ADMINISTRATOR), "Not policymaker user")
    MONITORING = ((MONITORING, ADMINISTRATOR), "Not monitor user")
    ADMINISTRATOR = ((ADMINISTRATOR,), "Not administrator user")

    def is_given_to(self, tags: Collection[str]) -> bool:
        return any(tag in tags for tag in self.value[0])

    def refusal(self, tags: Collection[str]) -> ApiError:
        """Who has no tag at all is told that first."""
        if not Access.VIEWER.is_given_to(tags):
            return not_authorised(Access.VIEWER.value[1])
        return not_authorised(self.value[1])
