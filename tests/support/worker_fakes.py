"""A stand-in for the proxy: connections whose statements a test answers, with a record of all that was sent."""

from __future__ import annotations

from typing import Any

import pymysql
from pymysql.constants.SERVER_STATUS import SERVER_STATUS_IN_TRANS

from queuegate_worker import Hooks, Message
from queuegate_worker.statements import Statements

STATEMENTS = Statements("q", "me", 1000, "connection", 30.0)
GONE = pymysql.err.OperationalError(2013, "Lost connection to MySQL server during query")
DEADLOCK = pymysql.err.OperationalError(1213, "Deadlock found when trying to get lock")


class FakeProxy:
    """`answers` has, by the first words of a statement, what it is answered with: affected rows, a list of rows, an
    exception; or a list of them, of which each is used once and the last for ever. Any other changes one row."""

    def __init__(self, **answers: Any) -> None:
        self.answers: dict[str, list[Any]] = {}
        self.sent: list[str] = []
        self.connected = 0
        for word, answer in answers.items():
            self.answer(word.replace("_", " "), *(answer if isinstance(answer, tuple) else (answer,)))

    def answer(self, words: str, *answers: Any) -> None:
        """What statements that begin like that are answered with, one after the other."""
        self.answers[words] = list(answers)

    def connect(self, _seconds: float = 0) -> FakeConnection:
        """A new connection."""
        self.connected += 1
        refused = self.answers.get("connect", [])
        if refused:
            raise refused.pop(0)
        return FakeConnection(self)

    def said(self, sql: str) -> Any:
        """The answer to a statement."""
        for words, answers in self.answers.items():
            if sql.startswith(words):
                answer = answers.pop(0) if len(answers) > 1 else answers[0]
                if isinstance(answer, BaseException):
                    raise answer
                return answer
        return 1


class FakeConnection:
    """What a line uses of PyMySQL's."""

    def __init__(self, proxy: FakeProxy) -> None:
        self.proxy, self.server_status, self.open = proxy, 0, True
        self.rolled_back = False  # by a deadlock: the flag of the next answer says it

    def cursor(self, _kind: Any = None) -> FakeCursor:
        return FakeCursor(self)

    def thread_id(self) -> int:
        return 77

    def close(self) -> None:
        self.open = False


class FakeCursor:
    """Of dictionaries it makes rows and their columns' names."""

    def __init__(self, connection: FakeConnection) -> None:
        self._connection, self._rows, self.description = connection, [], None

    def __enter__(self) -> FakeCursor:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def execute(self, sql: str, values: Any) -> int:
        proxy = self._connection.proxy
        proxy.sent.append(sql if values is None else sql % tuple(map(repr, values)))
        try:
            answer = proxy.said(proxy.sent[-1])
        except pymysql.MySQLError as error:
            self._connection.rolled_back |= error.args[0] == DEADLOCK.args[0]
            raise
        if sql == "START TRANSACTION":
            self._connection.server_status = SERVER_STATUS_IN_TRANS
        elif sql in ("COMMIT", "ROLLBACK") or sql.startswith("CREATE TABLE") or self._connection.rolled_back:
            self._connection.server_status = 0
        if isinstance(answer, list):
            self._rows = [tuple(row.values()) for row in answer]
            self.description = [(name,) for name in (answer[0] if answer else {})]
            return len(answer)
        return int(answer)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._rows

    def fetchone(self) -> tuple[Any, ...] | None:
        return self._rows.pop(0) if self._rows else None

    def close(self) -> None:
        pass


class Told(Hooks):
    """Keeps what the worker says."""

    def __init__(self):
        self.said = []

    def __getattribute__(self, name):
        if name in ("succeeded", "failed", "rejected", "released", "lost", "reconnecting"):
            return lambda subject, *rest: object.__getattribute__(self, "said").append(
                (name, subject.id if isinstance(subject, Message) else type(subject).__name__)
            )
        return object.__getattribute__(self, name)


def rows(*ids: int) -> list[dict[str, int]]:
    """Of messages whose column n is their id."""
    return [{"id": n, "n": n, "epoch": 1} for n in ids]
