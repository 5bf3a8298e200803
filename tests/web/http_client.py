"""A small HTTP client for the tests of the management process."""

from __future__ import annotations

import base64
import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from amqp_broker.web.endpoints.all import api_endpoints
from amqp_broker.web.openapi import describe
from amqp_broker.web.path import split_path

TIMEOUT_S = 60
ENDPOINTS = api_endpoints()
_DESCRIPTION = describe(ENDPOINTS.all, "/api", "cookie")
DESCRIBED, SCHEMAS = _DESCRIPTION["paths"], _DESCRIPTION["components"]["schemas"]


@dataclass(frozen=True, slots=True)
class Said:
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def reason(self) -> Any:
        return self.json["reason"]


def check_described(method: str, path: str, said: Said) -> None:
    """Whatever is asked in the tests, the answer is one that the API's own description has, and so is the body of a
    refusal."""
    found = ENDPOINTS.find(split_path(path.partition("?")[0]))
    endpoint = found[0].find(method) if found is not None and method != "OPTIONS" else None
    if endpoint is None:
        return  # nothing that it describes
    responses = DESCRIBED[f"/api{endpoint.path}"][endpoint.method.lower()]["responses"]
    assert str(said.status) in responses, f"{method} {path} -> {said.status}, of {', '.join(responses)}: {said.body!r}"
    if said.status >= 400 and said.body:
        (content,) = responses[str(said.status)]["content"].values()
        forms = content["schema"].get("anyOf", [content["schema"]])
        needed = [SCHEMAS[form["$ref"].rpartition("/")[2]]["required"] for form in forms]
        assert any(said.json.keys() >= set(names) for names in needed), (method, path, said)


class Http:
    """One connection to the process at a URL, as one user; with another one the same requests by `as_user`."""

    def __init__(self, url: str, user: str = "guest", password: str = "guest") -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self.host, self.port = parts.hostname, parts.port
        self.url = url
        self._login = base64.b64encode(f"{user}:{password}".encode("utf-8", "surrogateescape")).decode()
        self._connection = http.client.HTTPConnection(self.host, self.port, timeout=TIMEOUT_S)

    def as_user(self, user: str, password: str) -> Http:
        return Http(self.url, user, password)

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        raw: bytes | None = None,
        prefix: str = "/api",
        **headers: str,
    ) -> Said:
        """`body` becomes JSON; `raw` is sent as it is. Headers have underscores for dashes."""
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        said = {"authorization": f"Basic {self._login}"}
        said |= {name.replace("_", "-"): value for name, value in headers.items()}
        self._connection.request(method, prefix + path, data, {name: value for name, value in said.items() if value})
        response = self._connection.getresponse()
        answer = Said(
            response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
        )
        if prefix == "/api":
            check_described(method, path, answer)
        return answer

    def send(self, method: str, path: str, body: Any) -> None:
        """Ask, without waiting for an answer."""
        said = {"authorization": f"Basic {self._login}"}
        self._connection.request(method, f"/api{path}", json.dumps(body).encode(), said)

    def get(self, path: str) -> Any:
        """What a GET answers that succeeds."""
        said = self("GET", path)
        assert said.status == 200, said
        return said.json

    def close(self) -> None:
        self._connection.close()


def segment(name: str) -> str:
    """A name in a path."""
    return quote(name, safe="", errors="surrogateescape")
