"""Logging in to the console, and what its cookies, its Host check and its limits hold."""

from __future__ import annotations

import http.client
import socket
import ssl

import pytest
from certificates import Authority
from console_browser import console_port
from servers import login_errno, wait_until

from console.bounded_http import HEAD_SECONDS
from console.guard import BODY_MAX_BYTES

USERS = [{"name": "root", "password": "secret", "admin": True}, {"name": "ünï'k\"", "password": "pässwörd"}]


@pytest.fixture
def gate(console):
    return console(auth="proxy", users=USERS)


def test_a_login_and_a_logout(gate, browser):
    person = browser(gate)
    assert person.get("/queue", db="a", name="b").location == "/login?next=%2Fqueue%3Fdb%3Da%26name%3Db"
    answer = person.post("/login", account="root", password="secret", next="/queue?db=a&name=b")
    assert (answer.status, answer.location) == (303, "/queue?db=a&name=b")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie and "path=/" in cookie and "domain" not in cookie
    assert len(next(iter(person.cookies.values()))) >= 43  # 256 bits
    assert person.get("/").status == 200
    kept = dict(person.cookies)
    assert person.post("/logout", token="").status == 403
    assert person.post("/logout").location == "/login"
    assert not person.cookies
    person.cookies = kept
    assert person.get("/").location == "/login", "the session itself is over, not the cookie alone"


def test_names_and_passwords_of_any_letters(gate, browser):
    assert browser(gate).log_in("ünï'k\"", "pässwörd").status == 303
    assert browser(gate).api("/queues", "ünï'k\"", "pässwörd").status == 200


def test_a_wrong_password(gate, browser):
    person = browser(gate)
    answer = person.log_in("root", "wrong")
    assert answer.status == 401 and "1045" in answer.text and not person.cookies
    assert "wrong" not in gate.log and 'msg="login refused"' in gate.log
    assert person.api("/queues", "root", "wrong").json["error"]["number"] == 1045
    assert person.log_in("", "").status == 400
    assert person.log_in("x" * 200, "").status == 400
    assert browser(gate).log_in("root", "secret").status == 303
    for header in ("Basic ???", "Basic cm9vdA==", "Bearer x", "Basic /w==", "Basic é"):
        assert person.request("GET", "/api/v1/queues", headers={"Authorization": header}).status == 401


def test_a_login_from_another_site_is_refused(gate, browser):
    for origin in ("http://evil.example", "null", "http://[", "http://a]b"):
        answer = browser(gate).post("/login", origin=origin, account="root", password="secret")
        assert answer.status == 403 and "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "goto", ["//evil.example", "https://evil.example", "/\\evil.example", "/a\r\nX: y", "javascript:x"]
)
def test_the_login_leads_nowhere_else(gate, browser, goto):
    assert browser(gate).post("/login", account="root", password="secret", next=goto).location == "/"


def test_who_guesses_is_stopped_here_and_not_by_the_proxy(new_console, browser):
    gate = new_console(auth="proxy", users=USERS, limits={"login_failures": 12})
    person = browser(gate)
    statuses = [person.log_in("root", f"guess {n}").status for n in range(8)]
    assert statuses[:3] == [401] * 3 and statuses[3:] == [429] * 5
    late = person.log_in("root", "secret")
    assert late.status == 429 and int(late.headers["retry-after"]) > 0
    assert person.api("/queues", "root", "secret").status == 429
    assert login_errno(gate, user="root", password="secret") == 0, "applications on this machine are not locked out"


def test_who_guesses_learns_nothing_from_a_session_that_a_program_has_open(new_console, browser):
    gate = new_console(auth="proxy", users=USERS, limits={"login_failures": 12})
    program = browser(gate)
    assert program.api("/queues", "root", "secret").status == 200
    assert {program.api("/queues", "root", f"guess {n}").status for n in range(8)} == {401, 429}
    assert program.api("/queues", "root", "secret").status == 429, "at this address even the right one"


def test_a_login_that_works_takes_no_attempts(new_console, browser):
    gate = new_console(auth="proxy", users=USERS, limits={"login_failures": 12})
    for _ in range(6):
        assert browser(gate).log_in("root", "secret").status == 303


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "localhost@evil.example", "[::1", "a b"]
)
def test_a_name_that_is_not_the_consoles(gate, browser, host):
    person = browser(gate)
    for path in ("/login", "/", "/api/v1/queues", "/static/console.css"):
        assert person.request("GET", path, headers={"Host": host}).status in (400, 421)
    assert person.request("POST", "/login", "account=root&password=secret", {"Host": host}).status in (400, 421)


def raw_answer(gate, head):
    with socket.create_connection(("127.0.0.1", console_port(gate)), timeout=10) as connection:
        connection.sendall(head + b"\r\nConnection: close\r\n\r\n")
        return connection.makefile("rb").readline()


@pytest.mark.parametrize(
    "line", [b"GET [ HTTP/1.1", b"GET http://[ HTTP/1.1", b"GET //[ HTTP/1.1", b"GET /%5B%E2%84%80?%FF&=&%=[ HTTP/1.1",
             b"GET *[ HTTP/1.1", b"POST /login?[ HTTP/1.1\r\nContent-Length: \xb2", b"OPTIONS * HTTP/1.1",
             b"GET / HTTP/1.1\r\nCookie: \xff=\xff; =; ;\"\\", b"GET / HTTP/1.1\r\nAuthorization: Basic \xff"],
)  # fmt: skip
def test_no_request_of_a_stranger_is_a_defect(gate, line):
    """Each would be a traceback in the log, of whom a stranger can cause any number."""
    status = raw_answer(gate, line + b"\r\nHost: 127.0.0.1").split(b" ")[1:2]
    assert status and status[0] < b"500", status
    assert "Traceback" not in gate.log


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "LOCALHOST"])
def test_names_of_loopback(gate, browser, host):
    person = browser(gate)
    assert person.request("GET", "/login", headers={"Host": f"{host}:{person.port}"}).status == 200


def test_a_public_url(console, browser):
    settings = {"listen": "127.0.0.1:0", "public_url": "https://queues.example.com", "behind_proxy": True}
    gate = console(console=settings)
    person = browser(gate)
    headers = {"Host": "queues.example.com", "X-Forwarded-For": "1.2.3.4, 192.0.2.7"}
    answer = person.request("GET", "/login", headers=headers)
    assert answer.status == 200 and "max-age" in answer.headers["strict-transport-security"]
    form = {**headers, "Content-Type": "application/x-www-form-urlencoded", "Origin": "https://queues.example.com"}
    answer = person.request("POST", "/login", "account=root&password=", form)
    assert answer.status == 303, answer.text
    assert (
        answer.headers["set-cookie"].startswith("__Host-queuegate=")
        and "secure" in answer.headers["set-cookie"].lower()
    )
    wait_until(lambda: "address=192.0.2.7" in gate.log, what="the address that the proxy before it tells")
    form["Origin"] = "https://evil.example"
    assert person.request("POST", "/login", "account=root&password=", form).status == 403


def test_tls(new_gate, tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("authority"))
    certificate, key = map(str, authority.issue("server", "127.0.0.1"))
    gate = new_gate(console={"listen": "127.0.0.1:0", "certificate": certificate, "key": key})
    gate.start()
    wait_until(lambda: "console on https://127.0.0.1:" in gate.log, what="the address of the console")
    port = int(gate.log.rpartition("console on https://127.0.0.1:")[2].split()[0].strip('"'))
    context = ssl.create_default_context(cafile=str(authority.ca))
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT

    def log_in():
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=context)
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        try:
            connection.request("POST", "/login", "account=root&password=", form)
            return connection.getresponse()
        except ConnectionRefusedError:
            return None
        finally:
            connection.close()

    answer = wait_until(log_in, 30, "the console to answer")
    with socket.create_connection(("127.0.0.1", port), HEAD_SECONDS + 20) as silent:
        assert silent.recv(1) == b"", "who never begins the handshake is cut off"
    assert answer.status == 303
    cookie = answer.getheader("set-cookie")
    assert cookie.startswith("__Host-queuegate=") and "Secure" in cookie
    assert answer.getheader("strict-transport-security")


def test_the_account_is_refused_later(new_console, browser, place, mariadb):
    if place == "embedded":
        pytest.skip("its accounts are those of the configuration")
    gate = new_console()
    admin = mariadb.connect()
    with admin, admin.cursor() as cursor:
        cursor.execute("CREATE OR REPLACE USER leaver@'127.0.0.1' IDENTIFIED BY 'pw'")
        person = browser(gate)
        assert person.log_in("leaver", "pw").status == 303
        cursor.execute("DROP USER leaver@'127.0.0.1'")
        cursor.execute("SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'leaver'")
        for (number,) in cursor.fetchall():
            cursor.execute(f"KILL {number}")
        wait_until(lambda: person.get("/").status == 303, 20, "the session to end")
        assert 'msg="session ended: the account is refused"' in gate.log


def test_a_large_form(gate, browser):
    person = browser(gate)
    assert person.log_in("root", "secret").status == 303
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    declared = {**form, "Content-Length": str(BODY_MAX_BYTES + 1)}
    assert person.request("POST", "/queue/pause", b"a", declared).status == 413, "before all of it is there"
    many = "&".join(f"f{n}=1" for n in range(300))
    assert person.request("POST", "/queue/pause", many, form).status == 400
    assert person.request("POST", "/queue/pause", b"\xff=1", form).status == 400
    chunked = {**form, "Transfer-Encoding": "chunked"}
    pieces = b"".join(b"10000\r\n" + b"a" * 0x10000 + b"\r\n" for _ in range(17)) + b"0\r\n\r\n"
    try:
        assert person.request("POST", "/queue/pause", pieces, chunked).status == 413
    except ConnectionError:
        pass  # it was answered and cut off before all was sent
    deep = "[" * 100_000
    json = {"Content-Type": "application/json", "X-CSRF-Token": person.token}
    assert person.request("POST", "/api/v1/queue/pause", deep, json).status == 400


def test_static_files_and_nothing_else(gate, browser):
    person = browser(gate)
    answer = person.get("/static/console.css")
    assert answer.status == 200 and answer.headers["content-type"].startswith("text/css")
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/base.html", "/static/", "/static/x"):
        assert person.get(path).status == 404
