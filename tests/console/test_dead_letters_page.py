"""Dead letters by error: what the page counts, and one, a group or all of them redriven or discarded, in pieces."""

from __future__ import annotations

import html
import re

import pytest
from servers import wait_until

from console.pages.messages.dead_pieces import PIECE


@pytest.fixture
def gate(console):
    return console()


@pytest.fixture
def dead(gate, queue, sql):
    """A queue whose dead letters have these errors, so many of each."""
    made = []

    def make(errors):
        q = queue("payload VARCHAR(100)")
        made.append(q)
        for error, count in errors.items():
            values = ", ".join(["('body <b>')"] * count)
            sql(f"INSERT INTO {q} (payload) VALUES {values}")
            if error is None:
                sql(f"REJECT {q} WHERE time_next < 9223372036854775806")
            else:
                sql(f"REJECT {q} WHERE time_next < 9223372036854775806 REASON %s", error)
        wait_until(lambda: not sql.value(f"SELECT COUNT(*) FROM {q}"), 30, "the dead letters to be moved")
        return q

    yield make
    for q in made:
        sql(f"DROP QUEUE IF EXISTS {q}_dead")


HOSTILE = "it's 100%s <script>alert(1)</script> \\"


def test_dead_letters_are_grouped_by_error(gate, dead, person, sql):
    q = dead({"HTTP 503": 3, HOSTILE: 1, None: 2})
    found = person.api("/dead", db=gate.database, name=f"{q}_dead").json
    assert [(group["error"], group["count"]) for group in found["groups"]] == [("HTTP 503", 3), (None, 2), (HOSTILE, 1)]
    assert (found["total"], found["whole"], found["source"], found["refused"]) == (6, True, q, "")
    for group in found["groups"]:
        assert 0 < group["first_ns"] <= group["last_ns"]
        assert person.get("/message", db=gate.database, name=f"{q}_dead", id=group["example"]).status == 200
        assert group["values"][0]["text"] == "body <b>"
    assert [row[0] for row in sql.rows(found["sql"])] == ["HTTP 503", None, HOSTILE], "the SELECT is the one that ran"
    page = person.get("/dead", db=gate.database, name=f"{q}_dead").text
    assert "<script>alert" not in page and "<b>" not in page and "no error was given" in page
    assert f"name={q}_dead" in person.get("/queue", db=gate.database, name=q).text


def test_long_errors_that_differ_at_the_end(gate, dead, person):
    q = dead({"x" * 300: 1, "x" * 299 + "y": 1})
    found = person.api("/dead", db=gate.database, name=f"{q}_dead").json
    assert [group["count"] for group in found["groups"]] == [2]


@pytest.mark.parametrize("of", ["error", "no_error", "id", "all"])
@pytest.mark.parametrize("what", ["redrive", "discard"])
def test_one_a_group_or_all(gate, dead, person, sql, what, of):
    q = dead({HOSTILE: 2, None: 3})
    where = {"db": gate.database, "name": f"{q}_dead", "of": of, "error": HOSTILE, "id": "1"}
    expected = {"error": 2, "no_error": 3, "id": 1, "all": 5}[of]
    asked = person.api("/dead/ask", **where, what=what).json
    assert (asked["count"], asked["exact"]) == (expected, True)
    page = person.get("/dead/ask", **where, what=what)
    assert page.status == 200 and "<script>alert" not in page.text
    assert sql.value(f"SELECT COUNT(*) FROM {q}_dead WHERE state = 'dead'") == 5, "asking changes nothing"
    answer = person.post(f"/dead/{what}", **where)
    assert answer.status == 303 and answer.location.startswith("/dead?")
    assert f"{expected} dead letter" in person.get(answer.location).text
    assert sql.value(f"SELECT COUNT(*) FROM {q}_dead WHERE state = 'dead'") == 5 - expected
    assert sql.value(f"SELECT COUNT(*) FROM {q}") == (expected if what == "redrive" else 0)
    assert HOSTILE not in gate.log
    answer = person.post(f"/dead/{what}", **where)
    assert "Nothing was changed" in person.get(answer.location).text


@pytest.mark.parametrize("what", ["redrive", "discard"])
def test_many_go_in_pieces(gate, dead, person, sql, what):
    q = dead({"HTTP 503": PIECE + 100, "other": 1})
    where = {"db": gate.database, "name": f"{q}_dead", "of": "error", "error": "HTTP 503"}
    page = person.get("/dead/ask", **where, what=what).text
    assert "<strong>600</strong>" in page and "data-go-on" not in page
    answer = person.post(f"/dead/{what}", **where)
    assert answer.location.startswith("/dead/ask?")
    page = person.get(answer.location).text
    assert "500 are done." in page and "<strong>100</strong>" in page and "data-go-on" in page
    assert '<progress max="600" value="500"' in page and 'id="stop"' in page
    assert "data-go-on" not in person.get("/dead/ask", **where, what=what, done=500).text, "stopped"
    answer = person.post(f"/dead/{what}", **as_a_browser(page))
    assert answer.location.startswith("/dead?") and "600 dead letters are" in person.get(answer.location).text
    assert sql.column(f"SELECT last_error FROM {q}_dead WHERE state = 'dead'") == ["other"]


def test_pieces_by_the_api(gate, dead, person):
    q = dead({"HTTP 503": PIECE + 1})
    given = {"db": gate.database, "name": f"{q}_dead", "of": "all"}
    first = person.api("/dead/redrive", given=given).json
    assert (first["changed"], first["more"]) == (PIECE, True) and first["statement"].endswith(f"LIMIT {PIECE}")
    further = {**given, "done": first["done_so_far"]}
    assert person.api("/dead/redrive", given=further).status == 400, "it might not end"
    second = person.api("/dead/redrive", given={**further, "at": first["at"]}).json
    assert (second["changed"], second["more"], second["done_so_far"]) == (1, False, PIECE + 1)


def test_what_cannot_be_asked(gate, dead, person, queue):
    q = dead({"x": 1})
    where = {"db": gate.database, "name": f"{q}_dead"}
    for wrong in ({}, {"of": "some"}, {"of": "id"}, {"of": "id", "id": "1 OR 1"}, {"of": "error", "error": "x" * 201}):
        assert person.get("/dead/ask", **where, what="redrive", **wrong).status == 400, wrong
        assert person.post("/dead/redrive", **where, **wrong).status == 400, wrong
    assert person.get("/dead/ask", **where, what="drop", of="all").status == 400
    assert person.get("/dead", db=gate.database, name="nobody").status == 404
    ordinary = queue()
    assert person.post("/dead/redrive", db=gate.database, name=ordinary, of="all").status == 400


def as_a_browser(page):
    """The hidden fields of a page as a browser sends them: every line break as CRLF."""
    fields = re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', page)
    return {name: re.sub(r"\r\n?|\n", "\r\n", html.unescape(value)) for name, value in fields if name != "token"}


@pytest.mark.parametrize("what", ["redrive", "discard"])
@pytest.mark.parametrize("error", ["2 errors\namount\n  required", "a\r\nb", "a\rb\n", "\n" * 200, "exact:%0A"])
def test_errors_with_line_breaks(gate, dead, person, what, error):
    q = dead({error: 1})
    where = {"db": gate.database, "name": f"{q}_dead"}
    page = person.get("/dead/ask", **where, what=what, of="error", error=error).text
    answer = person.post(f"/dead/{what}", **as_a_browser(page))
    assert "1 dead letter is" in person.get(answer.location).text


def test_patterns_with_line_breaks(gate, dead, person):
    q = dead({"order 1\nfailed": 1, "order 2\nfailed": 2})
    where = {"db": gate.database, "name": f"{q}_dead"}
    (group,) = person.api("/dead", **where).json["groups"]
    page = person.get("/dead/ask", **where, what="redrive", of="like", error=group["pattern"]).text
    answer = person.post("/dead/redrive", **as_a_browser(page))
    assert "3 dead letters are" in person.get(answer.location).text


@pytest.mark.parametrize("what", ["redrive", "discard"])
def test_letters_that_die_after_the_question_are_left_alone(gate, dead, person, sql, what):
    """Else a redrive of all would not end where a worker rejects what comes back."""
    q = dead({"HTTP 503": PIECE + 1})
    where = {"db": gate.database, "name": f"{q}_dead", "of": "all"}
    page = person.get("/dead/ask", **where, what=what).text
    answer = person.post(f"/dead/{what}", **as_a_browser(page))
    assert "at=" in answer.location
    sql(f"INSERT INTO {q} (payload) VALUES ('new')")
    sql(f"REJECT {q} WHERE time_next < 9223372036854775806 REASON 'poison'")
    wait_until(lambda: not sql.value(f"SELECT COUNT(*) FROM {q}"), 30, "the dead letters to be moved")
    page = person.get(answer.location).text
    assert "<strong>1</strong>" in page
    answer = person.post(f"/dead/{what}", **as_a_browser(page))
    assert f"{PIECE + 1} dead letters are" in person.get(answer.location).text
    assert "poison" in sql.column(f"SELECT last_error FROM {q}_dead WHERE state = 'dead'")
    rest = person.api(f"/dead/{what}", given={**where, "name": f"{q}_dead"}).json
    assert rest["changed"] >= 1 and rest["at"] > 0, "a new question"
