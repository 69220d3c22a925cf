"""The examples of docs/jdbc.md, run in their order as they stand; only the address is another."""

from __future__ import annotations

import re

import pytest
from servers import ROOT, Sql, wait_until

TEXT = (ROOT / "docs" / "jdbc.md").read_text()


@pytest.fixture
def shop(new_gate):
    gate = new_gate().start()
    client = Sql(gate.connect())
    yield gate, client
    client.close()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def test_the_examples_do_what_the_page_says(spark, driver, shop, capsys):
    gate, sql = shop
    for statement in blocks("sql")[0].split(";"):
        if statement.strip():
            sql(statement)
    names = {"spark": spark}
    parameters = "".join(f"?{parameter}" for parameter in driver.parameters)
    counts = []
    for block in blocks("python"):
        code = block.replace("127.0.0.1:3307/main", f"127.0.0.1:{gate.port}/{gate.database}{parameters}")
        code = code.replace("com.mysql.cj.jdbc.Driver", driver.class_name).replace("shop.main", f"shop.{gate.database}")
        code = code.replace("catalog.shop", f"catalog.shop{gate.port}").replace("shop.", f"shop{gate.port}.", -1)
        exec(compile(code, "docs/jdbc.md", "exec"), names)
        counts.append(sql.value("SELECT COUNT(*) FROM emails"))
    assert counts == [0, 0, 6, 6, 3, 4]  # connect, read, append, overwrite a table, then the queue, catalog
    assert capsys.readouterr().out.startswith("1\n")  # one customer whose name begins with A
    assert sql.value("SELECT COUNT(*) FROM report") == 3
    assert sql.column("SHOW TABLES LIKE 'audit'") == []
    got = wait_until(lambda: sql.rows("SELECT recipient, body FROM STREAM emails LIMIT 4 WAIT 5"), what="the messages")
    assert ("dora@example.com", "Hello Dora") in got and len(got) == 4


def test_every_block_of_python_is_run():
    assert len(blocks("python")) == 6
