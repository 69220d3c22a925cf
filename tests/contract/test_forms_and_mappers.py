"""What row forms of database tools and schema updates of object mappers send to the table of a queue."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.no_proxy_accounts, pytest.mark.on_mysql]

OWN = ("time_scheduled", "time_next", "time_created")


def shown_defaults(sql, queue) -> dict[str, str]:
    """Each column's default as a form reads it."""
    return {row[0]: row[5] for row in sql.rows(f"SHOW FULL COLUMNS FROM {queue}")}


def test_a_form_sends_the_defaults_back_as_text(sql, queue):
    q = queue("body VARCHAR(100), n INT NOT NULL DEFAULT 7")
    shown = shown_defaults(sql, q)
    form = {"priority": "50", **{column: shown[column] for column in OWN}, "epoch": "0", "body": "by hand", "n": "7"}
    columns = ", ".join(f"`{column}`" for column in form)
    sql(f"INSERT INTO `{q}` (`id`, {columns}) VALUES (NULL{', %s' * len(form)})", *form.values())
    sql(f"INSERT INTO `{q}` SET `time_scheduled` = %s, `body` = %s", shown["time_scheduled"], "set")
    ago = 10**18
    values = (shown["time_created"], shown["time_next"], shown["time_next"])
    sql(f"INSERT INTO {q} (time_scheduled, time_created, time_next) VALUES ({ago}, %s, %s), ({ago}, 1, %s)", *values)
    made = sql.rows(f"SELECT body, time_scheduled = time_next, time_created > 1e18 FROM {q} ORDER BY id")
    assert made == [("by hand", 1, 1), ("set", 1, 1), (None, 1, 1), (None, 1, 0)]
    assert sorted(row[0] for row in sql.rows(f"SELECT id FROM STREAM {q} LIMIT 4 WAIT 10")) == [1, 2, 3, 4]


def test_a_body_may_hold_the_words_of_a_default(sql, queue):
    q = queue("body VARCHAR(100)")
    for text in (shown_defaults(sql, q)["time_scheduled"], "time_scheduled"):
        sql(f"INSERT INTO {q} (body, time_next) VALUES (%s, 0)", text)
        assert sql.value(f"SELECT body FROM {q} ORDER BY id DESC LIMIT 1") == text
    assert sql.error(f"INSERT INTO {q} (priority) VALUES ('time_scheduled')")[0] == 1366


@pytest.mark.parametrize("definition", ["VARCHAR(255)", "VARCHAR(11) DEFAULT NULL"])
def test_the_generated_state_cannot_become_an_ordinary_column(sql, queue, definition):
    q = queue("body VARCHAR(100)")
    assert sql.error(f"ALTER TABLE {q} MODIFY COLUMN state {definition}")[0] in (1907, 3106)
    assert sql.error(f"ALTER TABLE {q} CHANGE state status {definition}")[0] in (1054, 1907, 3106)
    sql(f"INSERT INTO {q} (body) VALUES ('x')")
    assert sql.value(f"SELECT state FROM {q}") == "to_be_fired"
    sql(f"ACK {q} 1")
    assert sql.value(f"SELECT state FROM {q}") == "acked"
