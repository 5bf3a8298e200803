"""The cookie of a session. Browsers have one jar for all ports of a host, so its name has the port."""

from __future__ import annotations

from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie

_PREFIX = "amqp-broker-session"


def read_cookie(headers: Mapping[str, str]) -> str:
    """The number of the session; empty if there is none."""
    try:
        cookies = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return ""
    found = cookies.get(cookie_name(headers))
    return "" if found is None else found.value


def set_cookie(headers: Mapping[str, str], number: str) -> str:
    """The header that has the browser keep it until it is closed; an empty number takes it away."""
    secure = "; Secure" if headers.get("x-forwarded-proto") == "https" else ""
    ends = "" if number else "; Max-Age=0"
    return f"{cookie_name(headers)}={number}; Path=/; HttpOnly; SameSite=Strict{secure}{ends}"


def cookie_name(headers: Mapping[str, str]) -> str:
    """Of the host that a request names."""
    port = headers.get("host", "").rpartition(":")[2]
    return f"{_PREFIX}-{port}" if port.isascii() and port.isdigit() else _PREFIX
