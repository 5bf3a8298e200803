"""The HTTP API asked as any program would: what is there before a foreign program acts, and what afterwards."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from base64 import b64encode
from typing import Any

TIMEOUT_S = 60


class HttpApi:
    """As one user, with paths below `/api`. A refusal raises urllib's HTTPError, with what it says in its text."""

    def __init__(self, url: str, user: str = "guest", password: str = "guest") -> None:
        self.url = url.rstrip("/")
        self._login = f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"

    def __call__(self, path: str, method: str = "GET", body: Any = None, **headers: str) -> Any:
        """`body` becomes JSON; what is not there (404 of a GET) is None."""
        data = None if body is None else json.dumps(body).encode()
        said = {"Authorization": self._login} | headers
        request = urllib.request.Request(f"{self.url}/api{path}", data, said, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                if method == "GET" and error.code == 404:
                    return None
                error.msg = f"{error.msg}: {method} {path}: {error.read().decode()}"
            raise
        return json.loads(text) if text else None


def has(found: Any, expected: Any) -> bool:
    """Whether all of `expected` is in it: of an object these fields, of a list elements with these, else the same."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return all(name in found and has(found[name], value) for name, value in expected.items())
    if isinstance(expected, list) and isinstance(found, list) and expected:
        return all(any(has(each, one) for each in found) for one in expected)
    return bool(found == expected)
