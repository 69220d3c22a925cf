"""Names of queues and of columns are never read as SQL, whichever account runs the statement; and they work."""

from __future__ import annotations

import pytest
from servers import Sql, wait_until

STEALING = "a' SELECT 7 id,body,'50' priority FROM sec LIMIT 1#"
ODD = (
    "with space",
    "per%cent%s",
    "a.b",
    "it's",
    'say "x"',
    "back`tick",
    "back\\slash'",
    "semi;colon--x",
    "/*comment*/",
    "a,b=c",
    "漢字",
    "x" * 64,
    "{curly}",
    "a?b",
)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@pytest.fixture
def odd_queue(gate, request):
    made = []

    def make(name, columns="body VARCHAR(100)", **options):
        client = Sql(gate.connect())
        settings = ", ".join(f"{key} = {value}" for key, value in {"poll_interval": "'1s'", **options}.items())
        client(f"CREATE QUEUE {quoted(name)} ({columns}) WITH ({settings})")
        made.append(name)
        client.close()
        return quoted(name)

    yield make
    client = Sql(gate.connect())
    for name in made:
        for table in client.column("SHOW TABLES"):
            if table == name or (table.endswith("_dead") and table.startswith(name[:40])):
                client(f"DROP QUEUE IF EXISTS {quoted(table)}")
    client.close()


def test_a_queues_name_is_not_run_by_the_proxys_own_account(sql, odd_queue):
    sql("CREATE TABLE IF NOT EXISTS sec (id INT PRIMARY KEY, body VARCHAR(100))")
    sql("REPLACE INTO sec VALUES (1, 'the secret')")
    q = odd_queue(STEALING, dead_letter="'stolen'")
    sql(f"INSERT INTO {q} (body) VALUES ('mine')")
    assert sql(f"REJECT {q} 1") == 1
    try:
        wait_until(lambda: "stolen" in sql.column("SHOW QUEUES") and sql.value("SELECT COUNT(*) FROM stolen"))
        assert sql.rows("SELECT body, source FROM stolen") == [("mine", STEALING)]
    finally:
        sql("DROP QUEUE IF EXISTS stolen")
        sql("DROP TABLE sec")


@pytest.mark.parametrize("name", ODD)
def test_dead_letters_of_queues_with_odd_names(sql, odd_queue, name):
    q = odd_queue(name)
    sql(f"INSERT INTO {q} (body) VALUES ('one'), ('two')")
    assert sql.rows(f"SELECT body FROM STREAM {q} LIMIT 1") == [("one",)]
    assert sql(f"REJECT {q} 1 REASON 'schlecht'") == 1
    kept = name if len(name) <= 59 else name[:50] + "_"
    is_dead = lambda queue: queue.startswith(kept) and queue.endswith("_dead") and len(queue) <= 64  # noqa: E731
    letters = wait_until(lambda: [quoted(x) for x in sql.column("SHOW QUEUES") if is_dead(x)], what="dead letters")[0]
    wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {letters}") == 1, what="the dead letter")
    assert sql.row(f"SELECT body, source, last_error FROM {letters}") == ("one", name, "schlecht")
    assert sql(f"REDRIVE {letters}") == 1
    assert sorted(sql.column(f"SELECT body FROM {q}")) == ["one", "two"]
    assert sql(f"ACK {q} 1, 2") == 2


@pytest.mark.parametrize("column", ["two words", "it's", "{k}", "a?b", "back\\slash", "größe", "a.b"])
def test_options_take_columns_with_odd_names(sql, odd_queue, name, column):
    literal = "'" + column.replace("\\", "\\\\").replace("'", "''") + "'"
    columns = f"n INT, {quoted(column)} VARCHAR(20)"
    cols = literal.replace("'", "'id|", 1)
    q = odd_queue(name, columns, order_key=literal, group_key=literal, message_cols=cols)
    shown = sql.row(f"SHOW CREATE QUEUE {q}")[1]
    assert f"order_key = {literal}" in shown
    sql(f"INSERT INTO {q} (n, {quoted(column)}) VALUES (1, 'k'), (2, 'k'), (3, 'l')")
    assert sorted(sql.rows(f"SELECT * FROM STREAM {q} LIMIT 3 WAIT 0")) == [(1, "k"), (3, "l")]
    assert sql(f"ACK {q} 1") == 1
    assert sql.rows(f"SELECT {quoted(column)}, id FROM STREAM {q} LIMIT 3 WAIT 1") == [("k", 2)]
    sql(f"INSERT INTO {q} (n) VALUES (4) AFTER GROUP 'l' OF {q}")
    assert sql(f"ACK {q} 3") == 1
    assert sql.column(f"SELECT id FROM STREAM {q} LIMIT 1 WAIT 5") == [4]
    assert "'4'" in str(sql.rows(f"EXPLAIN DELIVERY FOR {q} WHERE id = 4")) or sql.rows(f"EXPLAIN DELIVERY FOR {q}")
    sql(f"ALTER QUEUE {q} SET (order_key = DEFAULT)")
    sql(f"DROP QUEUE {q}")
    sql(shown)
