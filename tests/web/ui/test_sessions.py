"""Sessions of the pages and their files, without a browser: who is let in, what a change needs, and when it ends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import pytest

from amqp_broker.testing.embedded import RunningBroker
from amqp_broker.web.errors import ApiError
from amqp_broker.web.login import User
from amqp_broker.web.node_client import NodeClient
from amqp_broker.web.page_sessions import IDLE_S, MOST_SESSIONS, PageSessions, token_of
from amqp_broker.web.ui.static_files import FOLDER, StaticFiles
from tests.web.http_client import Http, Said

#: One broker for all of them.
pytestmark = pytest.mark.xdist_group("web sessions")
FORM = "application/x-www-form-urlencoded"


@dataclass
class Page:
    """What a browser sends: the cookie, and what the page adds."""

    http: Http
    cookie: str = ""
    token: str = ""

    def log_in(self, user: str = "guest", password: str = "guest", **headers: str) -> Said:
        form = urlencode({"username": user, "password": password}).encode()
        said = self.http(
            "POST", "/login", raw=form, prefix="", authorization="", content_type=FORM, **headers
        )
        if said.status == 200:
            self.cookie = said.headers["set-cookie"].partition(";")[0]
            self.token = said.json["token"]
        return said

    def __call__(self, method: str, path: str, body: Any = None, prefix: str = "/api", **headers: str) -> Said:
        sent = {"cookie": self.cookie, "x_csrf_token": self.token, "authorization": ""} | headers
        return self.http(method, path, body, prefix=prefix, **sent)


@pytest.fixture
def page(http: Http) -> Page:
    made = Page(http)
    assert made.log_in().status == 200
    return made


def test_a_session_stands_for_the_password(http: Http) -> None:
    page = Page(http)
    said = page.log_in()
    assert said.json["user"] == {"name": "guest", "tags": ["administrator"]}
    cookie = said.headers["set-cookie"]
    assert re.fullmatch(
        rf"amqp-broker-session-{http.port}=[\w-]{{43}}; Path=/; HttpOnly; SameSite=Strict", cookie
    )
    assert said.headers["cache-control"] == "no-store"
    assert page("GET", "/whoami").json["name"] == "guest"
    assert page("PUT", "/queues/%2F/by-session", {}).status == 201
    assert page("DELETE", "/queues/%2F/by-session").status == 204
    assert page("GET", "/session", prefix="").json == {
        "user": {"name": "guest", "tags": ["administrator"]}, "token": page.token
    }  # fmt: skip


def test_behind_a_proxy_with_tls_the_cookie_stays_on_tls(http: Http) -> None:
    assert "; Secure" in Page(http).log_in(x_forwarded_proto="https").headers["set-cookie"]


def test_a_change_needs_the_token(page: Page) -> None:
    for token in ("", "0" * 48, page.cookie.partition("=")[2]):
        said = page("PUT", "/queues/%2F/forged", {}, x_csrf_token=token)
        assert (said.status, said.json["error"]) == (403, "forbidden")
        assert page("POST", "/logout", prefix="", x_csrf_token=token).status == 403
    assert page("GET", "/queues/%2F/forged").status == 404
    assert page("GET", "/whoami", x_csrf_token="").status == 200


def test_pages_of_others_are_refused(page: Page, http: Http) -> None:
    ours = f"http://{http.host}:{http.port}"
    assert page("GET", "/whoami", origin=ours).status == 200
    for headers in ({"origin": "http://elsewhere.example"}, {"origin": "null"}, {"sec_fetch_site": "cross-site"}):
        assert page("GET", "/whoami", **headers).status == 403
        assert page("PUT", "/queues/%2F/forged", {}, **headers).status == 403
        assert Page(http).log_in(**headers).status == 403
    # A name that somebody else has let point here.
    port = f":{http.port}"
    said = page("GET", "/whoami", host=f"elsewhere.localhost{port}", cookie=page.cookie)
    assert (said.status, "this session is one of" in said.reason) == (403, True)


def test_a_refusal_opens_no_dialog_of_the_browser(page: Page, http: Http) -> None:
    http("PUT", "/users/low", {"password": "low", "tags": "management"})
    low = Page(http)
    low.log_in("low", "low")
    said = low("GET", "/users")
    assert (said.status, said.reason) == (401, "Not administrator user")
    assert "www-authenticate" not in said.headers
    assert "www-authenticate" not in Page(http).log_in("guest", "wrong").headers
    assert "www-authenticate" in http("GET", "/whoami", authorization="").headers


@pytest.mark.parametrize(
    ("change", "path", "body"),
    [("PUT", "/users/brief", {"password": "other", "tags": "administrator"}),
     ("PUT", "/users/brief", {"password": "brief", "tags": "management"}),
     ("DELETE", "/users/brief", None)],
)  # fmt: skip
def test_a_session_ends_when_its_user_changes(http: Http, change: str, path: str, body: Any) -> None:
    http("PUT", "/users/brief", {"password": "brief", "tags": "administrator"})
    page = Page(http)
    page.log_in("brief", "brief")
    assert page("GET", "/whoami").status == 200
    http(change, path, body)
    said = page("GET", "/whoami")
    assert (said.status, said.json["error"]) == (401, "session_ended")
    assert page("GET", "/session", prefix="").json == {"user": None}


def test_logging_out_ends_it(page: Page) -> None:
    said = page("POST", "/logout", prefix="")
    assert said.status == 204
    assert "Max-Age=0" in said.headers["set-cookie"]
    assert page("GET", "/whoami").json["error"] == "session_ended"
    assert page("POST", "/logout", prefix="").status == 401


def test_who_is_not_let_in(http: Http) -> None:
    http("PUT", "/users/client", {"password": "client", "tags": ""})
    assert Page(http).log_in("guest", "wrong").status == 401
    assert Page(http).log_in("client", "client").reason == "Not management user"
    said = http("POST", "/login", raw=b"username=guest", prefix="", authorization="", content_type=FORM)
    assert said.status == 400
    assert http("POST", "/login", raw=b"{}", prefix="", authorization="").status == 415
    long = b"username=" + b"x" * 9000
    assert http("POST", "/login", raw=long, prefix="", authorization="", content_type=FORM).status == 413
    for cookie in ("amqp-broker-session", f"amqp-broker-session-{http.port}={'A' * 43}", "x=" * 3000, "\xff=;;="):
        assert http("GET", "/whoami", authorization="", cookie=cookie).status == 401


class Clock:
    """Stands until it is set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def node(broker: RunningBroker) -> Iterator[NodeClient]:
    client = NodeClient(broker.url)
    yield client
    client.close()


def test_idle_sessions_end(node: NodeClient) -> None:
    clock = Clock()
    sessions = PageSessions(node, clock)
    headers = {"host": "here"}
    number = sessions.begin(User("guest", ("administrator",)), headers)
    for _ in range(3):
        clock.now += IDLE_S - 1
        assert sessions.user_of(number, "GET", headers).name == "guest"
    changing = {**headers, "x-csrf-token": token_of(number)}
    assert sessions.user_of(number, "DELETE", changing).tags == ("administrator",)
    clock.now += IDLE_S + 1
    with pytest.raises(ApiError, match="session_ended"):
        sessions.user_of(number, "GET", headers)
    assert len(sessions) == 0


def test_there_are_never_more_than_so_many(node: NodeClient) -> None:
    clock = Clock()
    sessions = PageSessions(node, clock)
    numbers = []
    for second in range(MOST_SESSIONS + 1):
        clock.now = second / 1000
        numbers.append(sessions.begin(User("guest", ()), {"host": "here"}))
    assert len(sessions) == MOST_SESSIONS
    assert sessions.user_of(numbers[-1], "GET", {"host": "here"}).name == "guest"
    with pytest.raises(ApiError, match="session_ended"):
        sessions.user_of(numbers[0], "GET", {"host": "here"})


def test_headers_of_the_pages(http: Http) -> None:
    files = StaticFiles()
    for path in ("/", "/index.html", *(f"/{name}" for name in files.names()), "/session"):
        said = http("GET", path, prefix="", authorization="")
        assert said.status == 200, path
        assert said.headers["content-security-policy"].startswith("default-src 'self'; ")
        assert "unsafe" not in said.headers["content-security-policy"]
        assert said.headers["x-content-type-options"] == "nosniff"
        assert said.headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in said.headers["content-security-policy"]
        is_file = path.startswith("/static/")
        assert ("immutable" in said.headers["cache-control"]) is is_file
        packed = http("GET", path, prefix="", authorization="", accept_encoding="gzip")
        assert packed.headers.get("content-encoding") == (None if path == "/session" else "gzip")
        assert http("HEAD", path, prefix="", authorization="").body == b""


def test_only_what_is_a_file_of_the_pages_is_served(http: Http) -> None:
    prefix = "/" + StaticFiles().prefix
    for path in (
        prefix, "/static/app.js", "/static/0000000000000000/app.js", f"{prefix}../app.js", f"{prefix}..%2fapp.py",
        f"{prefix}../../../app.py", f"{prefix}%2e%2e/%2e%2e/app.py", "/static/../../app.py", f"{prefix}/etc/passwd",
        "/../../../../etc/passwd", f"{prefix}index.html", f"{prefix}app.js%00", f"{prefix}pages",
    ):  # fmt: skip
        said = http("GET", path, prefix="", authorization="")
        assert said.status == 404, path


def test_files_name_nobody_else_and_nothing_inline() -> None:
    for path in sorted(FOLDER.rglob("*.*")):
        text = path.read_text("utf-8")
        foreign = [each for each in re.findall(r"https?://[^\s\"')]+", text) if "www.w3.org/2000/svg" not in each]
        assert foreign == [], path
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "style="):
            assert word not in text, f"{word} in {path}"
    index = (FOLDER / "index.html").read_text("utf-8")
    assert re.findall(r"<script(?![^>]*\bsrc=)", index) == []
    assert "<style" not in index


def test_modules_name_modules_that_are_there() -> None:
    for path in sorted(FOLDER.rglob("*.js")):
        for name in re.findall(r"from \"(\.[^\"]+)\"", path.read_text("utf-8")):
            assert (path.parent / name).resolve().is_file(), f"{name} in {path}"
