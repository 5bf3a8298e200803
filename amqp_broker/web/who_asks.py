"""Who asks the API: whoever HTTP Basic says, or whose session the cookie says."""

from __future__ import annotations

from amqp_broker.web.asked import Asked
from amqp_broker.web.cookie import read_cookie
from amqp_broker.web.login import User


def who_asks(asked: Asked) -> User:
    """Raises ApiError, NodeGone."""
    authorization = asked.headers.get("authorization")
    number = "" if authorization else read_cookie(asked.headers)
    if number:
        return asked.services.page_sessions.user_of(number, asked.method, asked.headers)
    return asked.services.logins.user_of(authorization, asked.host)
