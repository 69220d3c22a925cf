"""Each route of the console with four kinds of accounts, and what holds for each: login, headers, tokens, origins.

A route that is added and not tried here fails `test_all_routes_are_tried`.
"""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from console_browser import Browser
from servers import Sql, Stream

from console.guard import POLICY
from console.json_form import BASE
from console.routes import ACTIONS, PAGES, PARTS_OF_FORMS

pytestmark = pytest.mark.long

Q = {"db": "{database}", "name": "orders"}
SECRET = {"db": "{database}", "name": "secret"}
FORM = {"db": "{database}", "name": "made_by_test", "column1": "payload"}
ONE = {**Q, "id": "1"}
NO_SUCH = {**Q, "id": "999999"}  # whoever may change it changes nothing
DEAD = {"db": "{database}", "name": "orders_dead"}
ALL_DEAD = {**DEAD, "of": "all"}
NONE_FIT = {"column": "payload", "value": "none", "until": "999999", "at": "1"}
T = {"db": "{database}", "name": "events"}
SEEK = {**T, "group": "billing", "to": "latest"}
ROW = {**Q, "column1": "payload", "value1": "by the form"}
TICKING = {**ROW, "rule_kind": "every", "rule": "3000d"}
TICK = {**Q, "schedule": "tick"}
OPTIONS = {**Q, "prefetch": "7"}
END = {**Q, "connection": "1"}  # no stream has it: who may end one is tried by test_who_may_end_a_stream
PAGE_ROUTES: dict[str, dict[str, str]] = {
    "/": {},
    "/overview/now": {},
    "/topics": {},
    "/topics/now": {},
    "/failed": {},
    "/receivers": {},
    "/receivers/now": {},
    "/schedules": {},
    "/queue/messages/now": Q,
    "/queue/publish": Q,
    "/queue/end": {**Q, "what": "purge"},
    "/topic/group": T,
    "/schedule/new": Q,
    "/queue": Q,
    "/queue/now": Q,
    "/message": ONE,
    "/create": {},
    "/message/edit": ONE,
    "/dead": Q,
    "/dead/ask": {**Q, "what": "discard", "of": "all"},
    "/messages/ask": {**Q, **NONE_FIT, "verb": "ack"},
    "/queue/receivers": Q,
    "/queue/receivers/now": Q,
    "/queue/options": Q,
    "/queue/schedules": Q,
    "/topic": T,
    "/topic/now": T,
    "/topic/seek": SEEK,
    "/event-groups": {},
    "/log": {},
    "/system": {},
}
API_ROUTES: dict[str, dict[str, str]] = {
    "/queues": {},
    "/topics": {},
    "/failed": {},
    "/receivers": {},
    "/schedules": {},
    "/queue/end": {**Q, "what": "drop"},
    "/queue": Q,
    "/queue/now": Q,
    "/messages": Q,
    "/message": ONE,
    "/dead": Q,
    "/dead/ask": {**Q, "what": "redrive", "of": "error", "error": "x"},
    "/messages/ask": {**Q, **NONE_FIT, "verb": "reject"},
    "/queue/receivers": Q,
    "/queue/options": Q,
    "/queue/schedules": Q,
    "/topic": T,
    "/topic/seek": SEEK,
    "/event-groups": {},
    "/log": {},
    "/system": {},
}
ON_MESSAGES: dict[str, dict[str, str]] = {
    "/message/ack": NO_SUCH,
    "/message/nack": {**NO_SUCH, "delay": "5m", "reason": "HTTP 503"},
    "/message/release": NO_SUCH,
    "/message/reject": {**NO_SUCH, "reason": "bad"},
    "/message/retry": NO_SUCH,
    "/message/redrive": {"db": "{database}", "name": "orders_dead", "id1": "999998", "id2": "999999"},
    "/message/edit": {**ONE, "priority": "7"},
    "/dead/redrive": ALL_DEAD,
    "/dead/discard": ALL_DEAD,
    **{f"/messages/{verb}": {**Q, **NONE_FIT} for verb in ("ack", "nack", "release", "reject", "retry")},
    "/messages/redrive": {**DEAD, **NONE_FIT},
}
FURTHER_ACTIONS: dict[str, dict[str, str]] = {
    "/queue/options": OPTIONS,
    "/queue/receivers/end": END,
    "/schedule/run": TICK,
    "/schedule/pause": TICK,
    "/schedule/resume": TICK,
    "/schedule/drop": TICK,
    "/topic/seek": SEEK,
    "/queue/publish": ROW,
    "/queue/purge": {**Q, "of": "acked"},
}
MADE = {"db": "{database}", "name": "made_by_test"}
ACTION_ROUTES: dict[str, dict[str, str]] = {
    "/queue/pause": Q,
    "/queue/resume": Q,
    "/create": FORM,
    "/topic/group": {**T, "group": "made1"},
    "/schedule/new": {**TICKING, "schedule": "made1"},
    "/queue/drop": MADE,
    **FURTHER_ACTIONS,
    **ON_MESSAGES,
}
API_ACTION_ROUTES: dict[str, dict[str, str]] = {
    "/queue/pause": Q,
    "/queue/resume": Q,
    "/queues": FORM,
    "/topic/group": {**T, "group": "made2"},
    "/schedules": {**TICKING, "schedule": "made2"},
    "/queue/drop": MADE,
    **FURTHER_ACTIONS,
    **ON_MESSAGES,
}
SETTLES = ("/message/ack", "/message/nack", "/message/release", "/message/reject", "/message/retry")
NOT_BY_THE_OWNER = (
    *("/create", "/queues", "/message/redrive", "/dead/redrive", "/dead/discard"),
    *("/schedule/run", "/schedule/pause", "/schedule/resume", "/schedule/drop", "/schedule/new", "/schedules"),
    *("/topic/group", "/queue/drop"),
)
PART_ROUTES: dict[str, dict[str, str]] = {
    "/create/sql": FORM,
    "/queue/options/sql": OPTIONS,
    "/queue/publish/sql": ROW,
    "/schedule/new/sql": {**TICKING, "schedule": "x"},
    "/topic/group/sql": {**T, "group": "x"},
    **{f"/message/ask/{verb}": NO_SUCH for verb in ("ack", "release", "reject", "retry", "redrive")},
}

OF_NO_QUEUE = (
    *("/", "/overview/now", "/create", "/event-groups", "/log", "/system"),
    *("/topics", "/topics/now", "/failed", "/receivers", "/receivers/now", "/schedules"),
)
"""Pages that show each account what it may see, and nothing to who may see nothing."""

ACCOUNTS = ("root", "owner", "looker", "nobody")
"""All rights; all rights on one queue; looking at one queue; none at all."""
USERS: list[dict[str, Any]] = [
    {"name": "root", "password": "pw", "admin": True},
    {"name": "owner", "password": "pw", "queues": {"orders": ["enqueue", "receive", "settle"]},
     "topics": {"events": ["publish", "read", "consume:billing", "manage:billing"]}},
    {"name": "looker", "password": "pw", "queues": {"orders": ["receive"]},
     "topics": {"events": ["read", "consume:billing"]}},
    {"name": "nobody", "password": "pw", "queues": {"no_such_queue": ["enqueue"]}},
]  # fmt: skip
GRANTS = {
    "owner": {"orders": "ALL", "events": "ALL", "events_group_billing": "ALL"},
    "looker": {"orders": "SELECT", "events": "SELECT", "events_group_billing": "SELECT"},
    "nobody": {},
}
TICKS = "CREATE SCHEDULE IF NOT EXISTS tick ON orders CRON '0 0 29 2 *' (payload) VALUES ('tick')"


def test_all_routes_are_tried():
    assert set(PAGE_ROUTES) == {page.path for page in PAGES if page.path}
    assert set(API_ROUTES) == {page.api for page in PAGES if page.api}
    assert set(ACTION_ROUTES) == {action.path for action in ACTIONS}
    assert set(API_ACTION_ROUTES) == {action.api for action in ACTIONS}
    assert set(PART_ROUTES) == {page.path for page in PARTS_OF_FORMS}


def filled(gate, parameters):
    return {name: value.format(database=gate.database) for name, value in parameters.items()}


@pytest.fixture(params=["proxy's own", "the database's"])
def gate(request, place, console, mariadb):
    """Four kinds of accounts, two queues. The accounts are the proxy's own, or the database's, with grants."""
    own = request.param == "proxy's own"
    if not own and place == "embedded":
        pytest.skip("the embedded backend has no accounts of its own")
    gate = console(auth="proxy", users=USERS) if own else console()
    gate.own = own
    root = Sql(gate.connect(user="root", password="pw" if own else ""))
    for name in ("orders", "secret"):
        root(f"CREATE QUEUE IF NOT EXISTS {name} (payload VARCHAR(50))")
        if not root.value(f"SELECT COUNT(*) FROM {name}"):
            root(f"INSERT INTO {name} (payload) VALUES ('in {name}')")
    root("ALTER QUEUE orders RESUME")
    if "orders_dead" not in root.column("SHOW QUEUES"):
        root("CREATE QUEUE orders_dead (payload VARCHAR(50))")
    root("ALTER QUEUE orders SET (prefetch = DEFAULT)")
    root("CREATE TOPIC IF NOT EXISTS events (payload VARCHAR(50))")
    root("CREATE GROUP IF NOT EXISTS billing ON events")
    root(TICKS)
    if not own:
        for name, grants in GRANTS.items():
            root(f"CREATE USER IF NOT EXISTS {name}@'127.0.0.1' IDENTIFIED BY 'pw'")
            for table, grant in grants.items():
                root(f"GRANT {grant} ON {gate.database}.{table} TO {name}@'127.0.0.1'")
    root.close()
    yield gate
    root = Sql(gate.connect(user="root", password="pw" if own else ""))
    root("DROP QUEUE IF EXISTS made_by_test")
    root.close()


def password_of(gate, account):
    return "" if account == "root" and not gate.own else "pw"


@pytest.fixture
def people(gate, browser):
    """Each kind of account, logged in."""
    found: dict[str, Browser] = {}
    for account in ACCOUNTS:
        found[account] = browser(gate)
        answer = found[account].log_in(account, password_of(gate, account))
        assert answer.status == 303, answer.text
        assert found[account].token
    return found


def status_of(gate, person, path, parameters):
    answer = person.get(path, **filled(gate, parameters))
    assert answer.headers["content-security-policy"] == POLICY
    assert "Traceback" not in answer.text and ">None<" not in answer.text
    return answer.status


def _may_not_select(gate, account, path):
    """Whether there is nothing else to answer with: of the proxy's own accounts only root may SELECT."""
    return gate.own and account != "root" and path in ("/messages", "/messages/ask", "/dead/ask")


def test_pages_show_what_the_account_may_see(gate, people):
    statuses = {
        account: [status_of(gate, person, path, given) for path, given in PAGE_ROUTES.items()]
        for account, person in people.items()
    }
    for account in ("root", "owner", "looker"):
        # Whoever is limited to queues by the proxy may not SELECT, and is told so on the page; TRACE answers.
        refused = [_may_not_select(gate, account, path) for path in PAGE_ROUTES]
        assert statuses[account] == [403 if each else 200 for each in refused], account
    for path, status in zip(PAGE_ROUTES, statuses["nobody"], strict=True):
        if path in ("/message/edit", "/dead/ask", "/messages/ask"):
            text = people["nobody"].get(path, **filled(gate, PAGE_ROUTES[path])).text
            assert status in (200, 403, 404) and "in orders" not in text and ("ERROR" in text or "Not found" in text)
        else:
            assert status == 200 if path in OF_NO_QUEUE else status in (403, 404), path
    for account, person in people.items():
        overview, secret = person.get("/", filter="secret").text, person.get("/queue", **filled(gate, SECRET))
        assert (">secret<" in overview or "secret</a>" in overview) == (account == "root")
        assert secret.status == (200 if account == "root" else 404)
        assert ("in secret" in secret.text) == (account == "root")
        message = person.get("/message", **filled(gate, SECRET), id=1)
        assert ("in secret" in message.text) == (account == "root")
        assert message.status == 200 if account == "root" else message.status in (403, 404)


def test_the_api_answers_as_the_pages_do(gate, people):
    for account, person in people.items():
        word = password_of(gate, account)
        for path, given in API_ROUTES.items():
            by_password = Browser(person.port).api(path, account, word, **filled(gate, given))
            by_cookie = person.request(
                "GET", f"{BASE}{path}?" + "&".join(f"{n}={v}" for n, v in filled(gate, given).items())
            )
            assert by_password.status == by_cookie.status, (account, path)
            assert by_password.headers["content-type"] == "application/json"
            if account != "nobody":
                refused = _may_not_select(gate, account, path)
                assert by_password.status == (403 if refused else 200), by_password.text
        # By name: root sees the queues of all other tests at the same server, fifty to a page.
        found = [person.api("/queues", account, word, filter=name).json["queues"] for name in ("orders", "secret")]
        known = [line["figures"]["queue"] for line in (*found[0], *found[1])]
        names = [queue["name"] for queue in known if queue["database"] == gate.database]
        assert names == {"root": ["orders", "secret"], "nobody": []}.get(account, ["orders"])
        assert Browser(person.port).api("/messages", account, word, **filled(gate, SECRET)).json.get(
            "rows", []
        ) == [] or (account == "root")


def test_what_goes_wrong_is_an_error_of_the_api(gate, browser):
    person, password = browser(gate), password_of(gate, "root")
    missing = {"db": gate.database, "name": "no_such_queue"}
    for path, more in (
        ("/queue", {}), ("/message", {"id": 1}), ("/dead", {}), ("/messages", {}), ("/messages/ask", {"verb": "ack"}),
        ("/dead/ask", {"what": "redrive", "of": "all"}),
    ):  # fmt: skip
        answer = person.api(path, "root", password, **missing, **more)
        assert (answer.status, set(answer.json)) == (404, {"error"}), path
        assert answer.json["error"]["number"] in (1146, None)
    answer = person.api("/no/such/path", "root", password)
    assert answer.status == 404 and "no/such/path" in answer.json["error"]["message"]
    assert person.request("PUT", f"{BASE}/queues").json["error"]["message"] == "PUT is not allowed here"
    answer = person.api("/queues", "root", "wrong")
    assert answer.status == 401 and answer.json["error"]["number"] == 1045
    assert not answer.json["error"]["message"].startswith("ERROR")


def may(gate, account, path):
    """Whether the account may do what the action does: who may ALTER, or CREATE, a table, UPDATE it, or settle; or
    DELETE from a group's queue; or change the table of schedules. What `/queue/receivers/end` is to end is not there.
    """
    if path == "/queue/receivers/end":
        return False
    if path == "/topic/seek":
        return account in ("root", "owner")
    if path.startswith("/messages/") and not gate.own:  # where nothing fits, nothing has to be changed
        return account == "root" or (account != "nobody" and path != "/messages/redrive")
    if account != "owner":
        return account == "root"
    return path in (*SETTLES, "/queue/publish", "/queue/purge") if gate.own else path not in NOT_BY_THE_OWNER


def test_actions_are_done_by_who_may_do_them_in_sql(gate, people):
    for account, person in reversed(people.items()):  # root last: what it drops is there for the others
        for path, given in ACTION_ROUTES.items():
            answer = person.post(path, **filled(gate, given))
            assert answer.status == 303 if may(gate, account, path) else answer.status in (403, 404), (account, path)
            assert answer.headers["content-security-policy"] == POLICY
        for path, given in PART_ROUTES.items():
            status = person.post(path, **filled(gate, given)).status
            assert status == 200 or (account == "nobody" and status in (403, 404)), (account, path)
    with contextlib.closing(gate.connect(user="root", password=password_of(gate, "root"))) as connection:
        Sql(connection)(TICKS)
    for account, person in reversed(people.items()):
        for path, given in API_ACTION_ROUTES.items():
            answer = Browser(person.port).api(path, account, password_of(gate, account), given=filled(gate, given))
            expected = (200,) if may(gate, account, path) else (403, 404)
            assert answer.status in expected, (account, path, answer.text)
    with contextlib.closing(gate.connect(user="root", password=password_of(gate, "root"))) as connection:
        sql = Sql(connection)
        for name in ("made1", "made2"):
            sql(f"DROP GROUP {name} ON events")
            sql(f"DROP SCHEDULE {name}")


def test_nobody_drops_or_empties_what_is_not_theirs(gate, people):
    for account in ("owner", "looker", "nobody"):
        for given in (SECRET, T):
            assert people[account].post("/queue/drop", **filled(gate, given)).status in (400, 403, 404), account
        assert people[account].post("/queue/purge", **filled(gate, SECRET), of="all").status in (403, 404), account
    for given in (Q, SECRET):
        assert people["looker"].post("/queue/purge", **filled(gate, given), of="all").status in (403, 404)
    with contextlib.closing(gate.connect(user="root", password=password_of(gate, "root"))) as connection:
        assert {"orders", "secret"} <= set(Sql(connection).column("SHOW QUEUES"))
        assert Sql(connection).value("SELECT COUNT(*) FROM secret") == 1


def test_who_may_only_look_changes_nothing_that_fits(gate, people):
    fits = {**filled(gate, Q), "column": "payload", "value": "in orders", "until": "1", "at": str(2**63 - 2)}
    for account in ("looker", "nobody"):
        for verb in ("ack", "reject"):
            answer = people[account].post(f"/messages/{verb}", **fits)
            assert answer.status in (403, 404), (account, verb, answer.text)
    with contextlib.closing(gate.connect(user="root", password=password_of(gate, "root"))) as connection:
        assert Sql(connection).value("SELECT time_acked IS NULL AND time_next < 4e18 FROM orders WHERE id = 1") == 1


def every_route(gate):
    """Method, path with parameters, fields."""
    for path, given in PAGE_ROUTES.items():
        yield "GET", path, filled(gate, given)
    for path, given in {**ACTION_ROUTES, **PART_ROUTES}.items():
        yield "POST", path, filled(gate, given)


def test_nothing_without_a_login(gate, browser):
    stranger = browser(gate)
    for method, path, given in every_route(gate):
        answer = stranger.get(path, **given) if method == "GET" else stranger.post(path, token="x" * 43, **given)
        assert answer.status == 303 and answer.location.startswith("/login"), path
        assert answer.headers["content-security-policy"] == POLICY
    part = stranger.request("GET", "/overview/now", headers={"HX-Request": "true"})
    assert part.status == 401 and part.headers["hx-redirect"] == "/login"
    for path in API_ROUTES:
        answer = stranger.request("GET", f"{BASE}{path}")
        assert answer.status == 401 and answer.headers["www-authenticate"].startswith("Basic")
        assert answer.headers["content-security-policy"] == POLICY
    for path in API_ACTION_ROUTES:
        answer = stranger.request("POST", f"{BASE}{path}", "{}", {"Content-Type": "application/json"})
        assert answer.status == 401


def test_no_change_without_the_token_or_from_another_page(gate, people):
    person = people["root"]
    for path, given in {**ACTION_ROUTES, **PART_ROUTES}.items():
        fields = filled(gate, given)
        assert person.post(path, token="", **fields).status == 403
        assert person.post(path, token=people["owner"].token, **fields).status == 403
        for origin in ("http://evil.example", "null", f"http://127.0.0.1:{person.port + 1}"):
            assert person.post(path, origin=origin, **fields).status == 403
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "cross-site"}
        assert person.request("POST", path, f"token={person.token}", headers).status == 403
        as_text = {"Content-Type": "text/plain"}
        assert person.request("POST", path, f"token={person.token}", as_text).status == 400
        assert person.get(path, **fields).status in (200, 404, 405), "a GET changes nothing"
    for path, given in API_ACTION_ROUTES.items():
        body = str(filled(gate, given)).replace("'", '"')
        json = {"Content-Type": "application/json"}
        assert person.request("POST", BASE + path, body, json).status == 403, "a cookie alone is no token"
        with_token = {**json, "X-CSRF-Token": person.token, "Origin": "http://evil.example"}
        assert person.request("POST", BASE + path, body, with_token).status == 403
        word = password_of(gate, "root")
        cross = {"Origin": "http://evil.example"}
        assert Browser(person.port).api(path, "root", word, given={}, headers=cross).status == 403
    with contextlib.closing(gate.connect(user="root", password=password_of(gate, "root"))) as connection:
        assert Sql(connection).rows("SHOW QUEUES LIKE 'orders'")[0][-1] is None
        assert Sql(connection).rows("SHOW QUEUES LIKE 'made_by_test'") == []
        assert len(Sql(connection).rows("SHOW SCHEDULES")) == 1
        assert "prefetch = 7" not in Sql(connection).row("SHOW CREATE QUEUE orders")[1]


def test_who_may_end_a_stream(gate, people):
    """Those who may KILL it in SQL: its own account, and who may end all connections."""
    for receiver in ("owner", "looker") if gate.own else ("owner",):  # a database's account streams with UPDATE
        for account in ("nobody", "looker", "owner", "root"):
            allowed = account in (receiver, "root")
            stream = Stream(gate, "SELECT id FROM STREAM orders WITH (prefetch = 1)", user=receiver, password="pw")
            try:
                fields = {**filled(gate, Q), "connection": stream.id}
                answer = people[account].post("/queue/receivers/end", **fields)
                assert answer.status == 303 if allowed else answer.status in (403, 404), (account, answer.text)
                if allowed:
                    assert stream.wait_end() is not None
                else:
                    assert not stream.ended.is_set()
            finally:
                stream.close()


def test_the_description_of_the_api_has_every_route(gate, browser):
    found = browser(gate).get(f"{BASE}/openapi.json").json
    assert {path.removeprefix(BASE) for path, of in found["paths"].items() if "get" in of} == set(API_ROUTES)
    assert {path.removeprefix(BASE) for path, of in found["paths"].items() if "post" in of} == set(API_ACTION_ROUTES)
    assert all(operation["summary"] for of in found["paths"].values() for operation in of.values())


def test_a_seek_says_the_same_to_who_is_limited_to_his_topics(gate, people):
    given = {**filled(gate, SEEK), "to": "timestamp", "value": "2026-01-01"}
    for account in ("root", "owner", "looker"):
        found = people[account].api("/topic/seek", account, password_of(gate, account), **given).json
        assert found["mistake"] == "" and "not known" not in " ".join(found["will"]), (account, found)
