"""A browser for the tests of the console: cookies, forms with their token, redirects as they come. One per person.

And where the console of a proxy is. What a real browser makes of the pages is in tests/browser.
"""

from __future__ import annotations

import base64
import http.client
import json
import re
from dataclasses import dataclass, field
from html import unescape
from typing import Any
from urllib.parse import urlencode

from servers import Gate, wait_until


@dataclass
class Answer:
    """What a request came to."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def location(self) -> str:
        return self.headers.get("location", "")


@dataclass
class Browser:
    """See the module."""

    port: int
    cookies: dict[str, str] = field(default_factory=dict)
    token: str = ""
    host: str = "127.0.0.1"

    def request(
        self, method: str, path: str, body: str | bytes | None = None, headers: dict[str, str] | None = None
    ) -> Answer:
        """One request, on a connection of its own; what the answer sets is kept."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        given = {"Host": f"{self.host}:{self.port}", **(headers or {})}
        if self.cookies:
            given.setdefault("Cookie", "; ".join(f"{name}={value}" for name, value in self.cookies.items()))
        try:
            connection.request(method, path, body, given)
            response = connection.getresponse()
            text = response.read().decode("utf-8", "replace")
        finally:
            connection.close()
        for name, value in response.getheaders():
            if name.lower() == "set-cookie":
                self._keep(value)
        found = re.search(r'name="token" value="([^"]+)"', text)
        if found:
            self.token = unescape(found[1])
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, text)

    def _keep(self, cookie: str) -> None:
        name, _, rest = cookie.partition("=")
        value = rest.partition(";")[0]
        if value.strip('"') and "max-age=0" not in cookie.lower():
            self.cookies[name] = value
        else:
            self.cookies.pop(name, None)

    def get(self, path: str, **parameters: object) -> Answer:
        return self.request("GET", f"{path}?{urlencode(parameters)}" if parameters else path)

    def post(self, path: str, *, origin: str | None = "own", token: str | None = None, **fields: object) -> Answer:
        """A form, as the browser sends it from a page of the console."""
        sent = {"token": self.token if token is None else token, **fields}
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        if origin is not None:
            headers["Origin"] = f"http://{self.host}:{self.port}" if origin == "own" else origin
        return self.request("POST", path, urlencode(sent), headers)

    def log_in(self, account: str = "root", password: str = "", **fields: object) -> Answer:
        """The login form; the first page gives the token."""
        answer = self.post("/login", account=account, password=password, **fields)
        if answer.status == 303:
            self.get("/")
        return answer

    def api(
        self,
        path: str,
        account: str = "root",
        password: str = "",
        *,
        given: object = None,
        headers: dict[str, str] | None = None,
        **parameters: object,
    ) -> Answer:
        """A program, which gives name and password each time. `given`: posted as JSON."""
        word = base64.b64encode(f"{account}:{password}".encode()).decode()
        sent = {"Authorization": f"Basic {word}", **(headers or {})}
        where = f"/api/v1{path}" + (f"?{urlencode(parameters)}" if parameters else "")
        if given is None:
            return self.request("GET", where, headers=sent)
        return self.request("POST", where, json.dumps(given), {"Content-Type": "application/json", **sent})


def console_port(gate: Gate) -> int:
    """Where the console of that proxy listens."""

    def said() -> list[str]:
        return re.findall(r'"console on [^"]+" listen=127\.0\.0\.1:(\d+)', gate.log)

    return int(wait_until(said, 20, "the proxy to say where its console is")[-1])


def reachable(port: int) -> bool:
    """Whether a console answers there."""
    try:
        return Browser(port).get("/login").status == 200
    except OSError:
        return False


def opened(gate: Gate) -> Gate:
    """Once its console answers."""
    wait_until(lambda: reachable(console_port(gate)), 30, "the console to answer")
    return gate
