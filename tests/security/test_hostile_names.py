"""Hostile names and values through every statement that the product composes: nothing else is executed, names and
values come back as they were, in every sql_mode, in every client's character set and from every account that runs them.

Each example is the whole life of a queue: few of them, and each as much as fits in. Three clients take part: its owner,
one in another sql_mode and character set, and one that is limited to its queues, before a server at a second proxy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pymysql
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from pymysql.constants import CLIENT
from servers import Gate, Sql, wait_until

CHARSETS = {"utf8mb4": "utf-8", "latin1": "cp1252", "gbk": "gbk", "big5": "big5", "sjis": "shift_jis"}
"""What a client may speak, and Python's word for it."""
HALVING = ("gbk", "big5", "sjis")
"""Those in which a backslash may be half of a character."""
MODES = ("", "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES")
HARM = "'; DROP TABLE canary; -- "
PIECES = (
    "'",
    '"',
    "`",
    "\\",
    "#",
    "--",
    "-- ",
    "/*",
    "*/",
    "/*!",
    ";",
    "%",
    "%s",
    "\n",
    "?",
    "{x}",
    ".",
    ",",
    "=",
    "|",
)
hostile = st.lists(
    st.sampled_from(
        (
            *PIECES,
            "a",
            "Z",
            "é",
            "漢",
            "運",
            "功",
            "表",
            "ソ",
            "\u0301",
            " ",
            "DROP TABLE canary",
            "SELECT 1",
            "\\'",
            "$",
        )
    ),
    min_size=1,
    max_size=12,
).map("".join)
NAMES = hostile.map(lambda text: text.strip()[:64].strip() or "x")
COLUMNS = NAMES.map(lambda text: text.replace("|", "!").replace(",", ";")[:60] + "c")
HALVES = "".join(
    ("運'", "功'", "表'", "ソ`", "表\\'")
)  # with a byte more or less, a quote that ends nothing ends something
VALUES = (
    hostile | st.sampled_from(("\0", "\x1a", "🙂", HARM, "' OR 1=1 #", "x' UNION SELECT body FROM canary #", HALVES))
).map(lambda text: text[:60])


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def literal(text: str, mode: str) -> str:
    """As a client writes it."""
    return "'" + (text if "NO_BACKSLASH" in mode else text.replace("\\", "\\\\")).replace("'", "''") + "'"


def fitting(text: str, charset: str) -> str:
    """What of a text there is in a character set."""
    codec = CHARSETS[charset]

    def there(character: str) -> bool:
        try:
            return character.encode(codec).decode(codec) == character
        except UnicodeError:
            return False

    return "".join(filter(there, text)) or "x"


class Hostile(NamedTuple):
    """An example: what the queue and its column are called and hold, and how the client speaks that says so."""

    name: str
    column: str
    value: str
    mode: str
    charset: str

    def possible(self, *, embedded: bool) -> Hostile:
        """As far as it can be said: queue statements refuse a backslash in a string where it is none, and the embedded
        backend such character sets."""
        texts = (self.name, self.column, self.value)
        if "NO_BACKSLASH_ESCAPES" in self.mode:
            texts = tuple(text.replace("\\", "/") for text in texts)
        charset = "utf8mb4" if embedded and self.charset in HALVING else self.charset
        name, column, value = (fitting(text, charset).strip() or "x" for text in texts)
        return Hostile(name, column, value, self.mode, charset)


@dataclass
class Life:
    """One queue from its making to its end. `limited` may say nothing but what concerns queues."""

    owner: Sql
    client: Sql
    limited: Sql
    it: Hostile

    def __post_init__(self) -> None:
        it = self.it
        self.q, self.c, self.v = quoted(it.name), quoted(it.column), literal(it.value, it.mode)
        self.plainly = literal(it.value, "")

    def run(self) -> None:
        it = self.it
        names, id_and_column = literal(it.column, it.mode), literal("id|" + it.column, it.mode)
        self.client(
            f"CREATE QUEUE {self.q} ({self.c} VARCHAR(100), n INT) WITH (order_key = {names}, group_key = {names},"
            f" message_cols = {id_and_column}, max_concurrency = 5, dead_letter = 'letters', min_backoff = 0)"
        )
        self._shown()
        self._inserted()
        self._received()
        self._settled()
        self._died()
        self.client(f"TRUNCATE QUEUE {self.q}")
        self.client(f"DROP QUEUE {self.q}")

    def _shown(self) -> None:
        """The statements that the proxy answers speak UTF-8, so the owner says them."""
        owner, name = self.owner, self.it.name
        assert name in owner.column("SHOW QUEUES") and name in owner.column("SHOW QUEUE STATUS")
        assert name in owner.column(f"SHOW QUEUES LIKE {literal(name.replace('%', '_'), '')}") or "\\" in name
        shown = owner.row(f"SHOW CREATE QUEUE {self.q}")
        assert shown[0] == name
        owner(f"DROP QUEUE {self.q}")
        owner(shown[1])
        assert owner.row(f"SHOW CREATE QUEUE {self.q}") == shown
        self.client(f"ALTER QUEUE {self.q} SET (prefetch = 7, max_rate = 500)")
        assert owner.value(f"SELECT COUNT(*) FROM queuegate.queues WHERE queue = {literal(name, '')}") == 1

    def _inserted(self) -> None:
        """As text, from a text, by an account with limits, and a KILL that would like to be something else."""
        self.client(f"INSERT INTO {self.q} ({self.c}, n) VALUES ({self.v}, 1)")
        text = f"INSERT INTO {self.q} ({self.c}, n) VALUES ({self.v}, ?)"
        self.client(f"PREPARE p FROM {literal(text, self.it.mode)}")
        self.client("SET @n = 2")
        self.client("EXECUTE p USING @n")
        self.client("DEALLOCATE PREPARE p")
        self.limited(f"INSERT INTO {self.q} ({self.c}, n) VALUES ({self.plainly}, 3)")
        for kill in (f"KILL {self.v}", f"KILL QUERY {self.q}", f"KILL 1{self.v}"):
            assert self.client.error(kill)[0] in (1054, 1064, 1094, 1095, 1235, 1392, 1974), kill
        rows = self.client.rows(f"SELECT id, {self.c}, n FROM {self.q} ORDER BY id")
        assert rows == [(number, self.it.value, number) for number in (1, 2, 3)]

    def _received(self) -> None:
        client, value = self.client, self.it.value
        nul = "\0" in value  # a stream's WHERE takes none
        got = client.rows(
            f"SELECT * FROM STREAM {self.q} WHERE {'n > 0' if nul else f'{self.c} = {self.v}'} LIMIT 1 WAIT 10"
        )
        assert got == [(1, value)], got
        held = self.owner.rows(f"SELECT id FROM queuegate.in_flight WHERE queue = {literal(self.it.name, '')}")
        assert held == [("1",)]
        assert len(client.rows(f"EXPLAIN DELIVERY FOR {self.q} WHERE {self.c} = {self.v}")) == 3
        assert client(f"NACK {self.q} 1 DELAY 0 REASON {self.v}") == 1
        assert client.value(f"SELECT first_error FROM {self.q} WHERE id = 1") == value
        where = "n > 0" if nul else f"{self.c} = {self.plainly}"
        assert self.limited.rows(f"SELECT * FROM STREAM {self.q} WHERE {where} LIMIT 1 WAIT 10") == [(1, value)]
        assert self.limited(f"NACK {self.q} 1 DELAY 0 REASON {self.plainly}") == 1

    def _settled(self) -> None:
        client = self.client
        client(f"INSERT INTO {self.q} (n) VALUES (4) AFTER GROUP {self.v} OF {self.q}")
        assert client(f"REJECT {self.q} WHERE n = 1 AND {self.c} = {self.v}") == 1
        assert self.limited(f"ACK {self.q} WHERE n = 2 AND {self.c} = {self.plainly}") == 1
        assert client(f"ACK {self.q} WHERE n = 3 AND {self.c} = {self.v}") == 1

    def _died(self) -> None:
        owner, value = self.owner, self.it.value
        wait_until(lambda: "letters" in owner.column("SHOW QUEUES") and owner.value("SELECT COUNT(*) FROM letters"))
        assert owner.row(f"SELECT source, last_error, {self.c} FROM letters") == (self.it.name, value, value)
        assert self.client("REDRIVE letters WHERE id = 1") == 1
        assert self.client(f"ACK {self.q} WHERE {self.c} = {self.v}") == 1
        due = f"SELECT time_next FROM {self.q} WHERE n = 4"
        wait_until(lambda: owner.value(due) < 1 << 62, what="the follow-up")
        assert self.client(f"UPDATE {self.q} SET state = 'acked' WHERE n = 4") == 1
        owner("DROP QUEUE letters")


class Gates(NamedTuple):
    """Where clients of the database log in, and where those do that are limited to their queues."""

    own: Gate
    other: Gate


LIMITED = [
    {"name": "root", "password": ""},
    {"name": "limited", "password": "pw", "queues": {"*": ["enqueue", "receive", "settle"]}},
]


@contextlib.contextmanager
def client_of(gate: Gate, **options) -> Iterator[Sql]:
    client = Sql(gate.connect(**options))
    try:
        yield client
    finally:
        client.close()


def live(gates: Gates, hostile: Hostile) -> None:
    it = hostile.possible(embedded=gates.own.embedded)
    with (
        client_of(gates.own, charset="utf8mb4") as owner,
        client_of(gates.own, charset=it.charset) as client,
        client_of(gates.other, charset="utf8mb4", user="limited", password="pw") as limited,
    ):
        client(f"SET SESSION sql_mode = '{it.mode}'")
        owner("SET SESSION sql_mode = ''")
        owner("CREATE TABLE IF NOT EXISTS canary (body VARCHAR(20))")
        owner("DELETE FROM canary")
        owner("INSERT INTO canary VALUES ('unread')")
        tables = set(owner.column("SHOW TABLES"))
        try:
            Life(owner, client, limited, it).run()
        finally:  # what is left of it by a failure
            for name in (it.name, "letters"):
                owner(f"DROP QUEUE IF EXISTS {quoted(name)}")
        made = {"queuegate_limits", "queuegate_groups", "queuegate_archive", "queuegate_proxies"}
        made |= {"queuegate_schedules", "queuegate_dead_letters"}
        assert set(owner.column("SHOW TABLES")) - made == tables - made
        assert owner.column("SELECT body FROM canary") == ["unread"]
    for gate in gates:
        assert "failed by a defect" not in gate.log


def gates_before(url: str, directory, **config) -> Gates:
    """One where accounts are the proxy's; before a server two."""
    database = "main" if url.startswith("sqlite") else url.rpartition("/")[2]
    if url.startswith("sqlite"):
        gate = Gate(url, directory, database=database, users=LIMITED, **config).start()
        return Gates(gate, gate)
    (directory / "other").mkdir()
    own = Gate(url, directory, database=database, **config).start()
    other = Gate(url, directory / "other", database=database, auth="proxy", users=LIMITED, **config).start()
    return Gates(own, other)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The gates of each place, on a database of this module alone."""
    made: dict[str, Gates] = {}

    def gates_of(place: str, request) -> Gates:
        if place not in made:
            directory = tmp_path_factory.mktemp("hostile")
            url = (
                f"sqlite:///{directory}/queue.db"
                if place == "embedded"
                else request.getfixturevalue("mariadb").fresh_database("hostile")
            )
            made[place] = gates_before(url, directory)
        return made[place]

    yield gates_of
    for gates in made.values():
        for gate in {id(gate): gate for gate in gates}.values():
            gate.stop()


@settings(
    derandomize=True,
    max_examples=5,
    phases=(Phase.explicit, Phase.generate),  # an example is a queue's whole life; it is short enough as it is
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(hostile=st.builds(Hostile, NAMES, COLUMNS, VALUES, st.sampled_from(MODES), st.sampled_from(list(CHARSETS))))
@example(hostile=Hostile("a' SELECT 7 id,body FROM canary#", "it's", HARM, "", "utf8mb4"))
@example(hostile=Hostile('x"\\`', "\\'c", "\\' OR 1=1 -- ", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES", "latin1"))
@example(hostile=Hostile("q" * 64, "漢" * 20, "%s\0", "ANSI_QUOTES", "utf8mb4"))
@example(hostile=Hostile("運' OR 1=1 #", "運`c", HALVES, "", "gbk"))
@example(hostile=Hostile("功`x", "功' c", HALVES, "ANSI_QUOTES,NO_BACKSLASH_ESCAPES", "big5"))
@example(hostile=Hostile("表ソ`", "表'c", HALVES, "NO_BACKSLASH_ESCAPES", "sjis"))
def test_nothing_else_is_executed(kept, request, place, hostile):
    live(kept(place, request), hostile)


@pytest.mark.parametrize("charset", ["utf16", "ucs2", "utf32"])
def test_no_client_speaks_a_character_set_in_which_ascii_is_not_itself(sql, charset):
    assert sql.error(f"SET NAMES {charset}")[0] in (1115, 1231)
    assert sql.error(f"SET character_set_client = {charset}")[0] in (1115, 1231)
    assert sql.value("SELECT 'still read as before'") == "still read as before"


@pytest.mark.parametrize("charset", HALVING)
def test_who_is_limited_speaks_none_in_which_half_a_character_may_be_a_quote(kept, request, place, charset):
    gate = kept(place, request).other
    with pytest.raises(pymysql.MySQLError) as refused:
        gate.connect(user="limited", password="pw", charset=charset)
    assert refused.value.args[0] == 1115
    with client_of(gate, user="limited", password="pw") as client:
        assert client.error(f"SET NAMES {charset}")[0] == 1142


@pytest.mark.parametrize("charset", HALVING)
def test_a_string_ends_where_the_client_ended_it(kept, request, place, charset, monkeypatch):
    """A client that names its character set at the login alone, and sends several statements at once."""
    gate = kept(place, request).own
    monkeypatch.setattr(pymysql.connections.Connection, "set_character_set", lambda *_: None)
    with client_of(gate, charset=charset, client_flag=CLIENT.MULTI_STATEMENTS) as client:
        client("CREATE TABLE IF NOT EXISTS canary (body VARCHAR(20))")
        client("INSERT INTO canary VALUES ('unread')")
        for character in fitting("運功表ソ", charset).replace("x", ""):
            value = f"{character}'; DELETE FROM canary; -- "
            written = value.replace("'", "\\'")  # which is not a backslash of the character before
            assert client.value(f"SELECT '{written}'") == value
            assert client.value(f"SELECT '{written}'; SELECT 2") == value
            assert "unread" in client.column("SELECT body FROM canary"), character


def test_the_engine_reads_its_statements_alike_under_a_servers_modes(own_mariadb, tmp_path):
    admin = Sql(own_mariadb.connect())
    admin("SET GLOBAL sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,NO_TABLE_OPTIONS'")
    admin.close()
    gates = gates_before(own_mariadb.fresh_database("modes"), tmp_path)
    try:
        for mode in ("ANSI_QUOTES", ""):
            live(gates, Hostile("a' SELECT 1 # \\", "it's \\' c", "\\' OR 1=1 # \"", mode, "utf8mb4"))
    finally:
        for gate in gates:
            gate.stop()


def test_names_that_no_database_takes_are_refused(sql):
    for name in ("x" * 65, "a\0b", "ends "):
        with pytest.raises(Exception, match=r"\(\d+") as error:
            sql(f"CREATE QUEUE {quoted(name)} (n INT)")
        assert error.value.args[0] in (1064, 1059, 1103, 1046, 1300), error.value.args
