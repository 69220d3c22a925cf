"""What proxies and their databases were at when a statement of a test was not answered in time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import pymysql
from servers import Gate, Sql

_SECONDS = 5  # for each question
_TRANSACTIONS = "SELECT trx_mysql_thread_id, trx_state, trx_started, trx_query FROM information_schema.INNODB_TRX"


def unanswered(error: BaseException | None) -> bool:
    """Whether a client has waited for an answer in vain."""
    return isinstance(error, pymysql.err.OperationalError) and "timed out" in str(error)


def what_ran() -> Iterator[tuple[str, str]]:
    """What is at work in each proxy that runs, and in its database: a title and lines."""
    for gate in Gate.running():
        yield f"connections of {gate!r}", _answers(gate.connect, "SHOW FULL PROCESSLIST")
        if not gate.embedded:
            port = urlsplit(gate.backend).port
            database = partial(pymysql.connect, host="127.0.0.1", port=port, user="root")
            yield f"its database, {gate.backend}", _answers(database, "SHOW FULL PROCESSLIST", _TRANSACTIONS)


def _answers(connect: Callable[..., Any], *statements: str) -> str:
    try:
        with connect(database=None, connect_timeout=_SECONDS, read_timeout=_SECONDS) as connection:
            client = Sql(connection)
            return "\n".join(str(row) for statement in statements for row in client.rows(statement))
    except (OSError, pymysql.Error) as error:
        return f"does not say: {error}"
