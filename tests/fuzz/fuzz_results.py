"""What the server that is not there answers: results of every shape, told apart by the statement's own words.

Recorded answers are given where the very command was recorded under the same capabilities; all others are made up, the
same for the same command. The database's state is only what the protocol shows of it: whether a transaction is open.
"""

from __future__ import annotations

import re
import zlib

import fuzz_wire as w
from fuzz_corpus import Conversation

IN_TRANSACTION, AUTOCOMMIT, MORE, CURSOR, LAST_ROW = 0x01, 0x02, 0x08, 0x40, 0x80
SHAPING = (w.DEPRECATE_EOF | w.SESSION_TRACK | w.PROTOCOL_41 | w.QUERY_ATTRIBUTES | w.OPTIONAL_METADATA
           | w.EXTENDED_METADATA | w.CACHE_METADATA | w.PROGRESS)  # fmt: skip
VAR_STRING, LONGLONG = 0xFD, 0x08

Column = tuple[bytes, int]


def recorded(conversations: list[Conversation]) -> dict[tuple[int, bytes], list[bytes]]:
    """Answers by capabilities and command, of every turn that was one command and one answer."""
    found: dict[tuple[int, bytes], list[bytes]] = {}
    for conversation in conversations:
        turns = conversation.turns()
        capabilities = w.capabilities_of(turns[0][0][0].payload, w.offered_by(conversation.greeting))
        for sent, got in turns[1:]:
            if len(sent) == 1 and got and sent[0].seq == 0 and got[0].seq == 1 and _again(sent[0].payload):
                found[capabilities & SHAPING, sent[0].payload] = [packet.payload for packet in got]
    return found


def _again(payload: bytes) -> bool:
    """Commands that mean the same whatever was before them."""
    return payload[0] in (w.QUERY, w.FIELD_LIST, w.STATISTICS) and b"LOCAL" not in payload


class Answers:
    """One connection's answers."""

    def __init__(self, known: dict[tuple[int, bytes], list[bytes]]) -> None:
        self.known = known
        self.capabilities = 0
        self.status = AUTOCOMMIT
        self._statements: dict[int, bytes] = {}
        self._cursors: set[int] = set()
        self._last = 0

    # --- packets

    def ok(self, *, affected: int = 0, more: bool = False, header: bytes = b"\0", info: bytes = b"") -> bytes:
        status = self.status | (MORE if more else 0)
        tail = w.text(info) if info else b""  # with its length, as servers send it whatever was agreed upon
        return header + w.lenenc(affected) + b"\0" + status.to_bytes(2, "little") + b"\0\0" + tail

    def eof(self, flags: int = 0, *, rows: bool = True) -> bytes:
        status = (self.status | flags).to_bytes(2, "little")
        if rows and self.capabilities & w.DEPRECATE_EOF:
            return b"\xfe\0\0" + status + b"\0\0"
        return b"\xfe\0\0" + status

    def error(self, errno: int, text: bytes) -> list[bytes]:
        return [b"\xff" + errno.to_bytes(2, "little") + b"#42000" + text]

    def column(self, column: Column) -> bytes:
        name, kind = column
        names = b"".join(w.text(part) for part in (b"def", b"main", b"t", b"t", name, name))
        if self.capabilities & w.EXTENDED_METADATA:
            names += w.text(b"\x00\x04json" if kind == VAR_STRING else b"")
        return names + b"\x0c\x2d\x00\x00\x04\x00\x00" + bytes((kind,)) + b"\0\0\0\0\0"

    def result(self, columns: list[Column], rows: list[bytes], *, flags: int = 0) -> list[bytes]:
        """A result set; with a cursor only its header."""
        count, described = w.lenenc(len(columns)), True
        if self.capabilities & (w.CACHE_METADATA | w.OPTIONAL_METADATA):
            described = len(rows) % 3 != 1
            count += bytes((described,))
        head = [*self._progress(rows), count, *(map(self.column, columns) if described else ())]
        if flags & CURSOR:
            return [*head, self.eof(flags)]
        if not self.capabilities & w.DEPRECATE_EOF:
            head.append(self.eof(flags))
        return [*head, *rows, self.eof(flags)]

    def _progress(self, rows: list[bytes]) -> list[bytes]:
        """What a long statement says of itself, to clients that want to hear it."""
        if self.capabilities & w.PROGRESS and len(rows) == 2:
            return [b"\xff\xff\xff\x01\x01\x02\x10\x00\x00" + w.text(b"copying")] * 2
        return []

    # --- commands

    def to(self, payload: bytes) -> list[bytes]:
        """The answer's payloads; none for commands without an answer."""
        known = self.known.get((self.capabilities & SHAPING, payload))
        if known is not None:
            return known
        body = payload[1:]
        match payload[0] if payload else -1:
            case w.QUERY:
                return self._query(self._text(body))
            case w.PREPARE:
                return self._prepare(body)
            case w.EXECUTE:
                return self._execute(body)
            case w.BULK_EXECUTE if self.capabilities & w.BULK:
                return self._bulk(body)
            case w.FETCH:
                return self._fetch(int.from_bytes(body[:4], "little"))
            case w.FIELD_LIST:
                return [self.column((b"f", VAR_STRING)) + b"\xfb", self.eof()]
            case w.STATISTICS:
                return [b"Uptime: 1  Threads: 1"]
            case w.SET_OPTION:
                return [self.eof()]
            case w.STMT_CLOSE:
                self._statements.pop(int.from_bytes(body[:4], "little"), None)
                return []
            case w.LONG_DATA:
                return []
            case w.PING | w.INIT_DB | w.RESET_CONNECTION | w.STMT_RESET | w.DEBUG | w.PROCESS_KILL:
                return [self.ok()]
        return self.error(1047, b"Unknown command")

    def _text(self, body: bytes) -> bytes:
        if self.capabilities & w.QUERY_ATTRIBUTES and body.startswith(b"\0\x01"):
            return body[2:]
        return body

    def after_file(self) -> list[bytes]:
        return [self.ok(affected=2, info=b"Records: 2  Deleted: 0  Skipped: 0  Warnings: 0")]

    def _query(self, text: bytes) -> list[bytes]:
        parts = [text]
        if self.capabilities & w.MULTI_STATEMENTS:
            parts = [part for part in text.split(b";") if part.strip()][:8] or [text]
        payloads: list[bytes] = []
        for number, part in enumerate(parts, 1):
            self.status = self.status & ~MORE | (MORE if number < len(parts) else 0)
            answer = self._statement(part)
            payloads += answer
            if answer[-1].startswith((b"\xff", b"\xfb")):
                break
        self.status &= ~MORE
        return payloads

    def _statement(self, text: bytes) -> list[bytes]:
        word = re.match(rb"[\s(]*(?:/\*.*?\*/\s*)?([A-Za-z]*)", text, re.DOTALL)
        verb = word[1].upper() if word else b""
        if b"@@character_set_results" in text:
            return self.result([(b"c", VAR_STRING)], [w.text(b"utf8mb4")])
        if b"@@sql_mode, DATABASE()" in text:
            names = [(name, VAR_STRING) for name in (b"c", b"m", b"d")]
            return self.result(names, [w.text(b"utf8mb4") + w.text(b"STRICT_TRANS_TABLES") + w.text(b"main")])
        if b"@@sql_mode" in text and not text.startswith(b"SELECT @@version, "):
            return self.result([(b"m", VAR_STRING)], [w.text(b"ANSI_QUOTES,STRICT_TRANS_TABLES")])
        if b"nowhere" in text:
            return self.error(1146, b"Table 'main.nowhere' doesn't exist")
        asked = next((rows for words, rows in _ASKED if words.search(text)), None)
        if asked is not None and zlib.crc32(text) % 6:  # else what nobody asked for
            width = len(asked[0])
            return self.result([(b"c%d" % n, VAR_STRING) for n in range(width)], [_row(row) for row in asked if row[0]])
        match verb:
            case b"SHOW" if b"CREATE TABLE" in text:
                return self.result([(b"T", VAR_STRING), (b"C", VAR_STRING)], [w.text(b"q") + w.text(_TABLE)])
            case b"SHOW" if b"PROCESSLIST" in text.upper():
                return self.result([(name, VAR_STRING) for name in _PROCESS], [b"".join(map(w.text, _ME))])
            case b"SELECT" | b"SHOW" | b"WITH" | b"TABLE" | b"EXPLAIN" | b"DESCRIBE" | b"DESC" | b"VALUES":
                return self._made_up(text)
            case b"LOAD" if b"LOCAL" in text.upper():
                return [b"\xfb/tmp/file"]
            case b"BEGIN" | b"START":
                self.status |= IN_TRANSACTION
            case b"COMMIT" | b"ROLLBACK":
                self.status &= ~IN_TRANSACTION
            case b"":
                return self.error(1065, b"Query was empty")
        return [self.ok(affected=zlib.crc32(text) % 300, info=b"Rows matched: 1" if verb == b"UPDATE" else b"")]

    def _made_up(self, text: bytes) -> list[bytes]:
        """A result whose size hangs on the text alone."""
        chance = zlib.crc32(text)
        columns = [(b"c%d" % n, VAR_STRING) for n in range(chance % 3 + 1)]
        values = [b"\xfb", w.text(b""), w.text(b"value"), w.text(b"x" * (chance % 700))]
        rows = [b"".join(values[(chance + row + n) % 4] for n in range(len(columns))) for row in range(chance % 5)]
        if chance % 97 == 0:
            rows.append(b"".join(w.text(b"y" * 70_000) for _ in columns))
        return self.result(columns, rows)

    # --- prepared statements

    def _prepare(self, text: bytes) -> list[bytes]:
        if b"nowhere" in text:
            return self.error(1146, b"Table 'main.nowhere' doesn't exist")
        self._last += 1
        self._statements[self._last] = text
        parameters = text.count(b"?")
        columns = 2 if self._selects(text) else 0
        numbers = (self._last.to_bytes(4, "little"), columns.to_bytes(2, "little"), parameters.to_bytes(2, "little"))
        described = b"\x01" if self.capabilities & w.OPTIONAL_METADATA else b""
        payloads = [b"\0" + b"".join(numbers) + b"\0\0\0" + described]
        for definitions in ([(b"?", VAR_STRING)] * parameters, [(b"id", LONGLONG), (b"name", VAR_STRING)][:columns]):
            payloads += map(self.column, definitions)
            if definitions and not self.capabilities & w.DEPRECATE_EOF:
                payloads.append(self.eof())
        return payloads

    @staticmethod
    def _selects(text: bytes) -> bool:
        return text.lstrip().upper().startswith((b"SELECT", b"SHOW"))

    def _execute(self, body: bytes) -> list[bytes]:
        text = self._statements.get(int.from_bytes(body[:4], "little"))
        if text is None:
            return self.error(1243, b"Unknown prepared statement handler")
        if not self._selects(text):
            return [self.ok(affected=1)]
        columns = [(b"id", LONGLONG), (b"name", VAR_STRING)]
        flags = CURSOR if len(body) > 4 and body[4] & 1 else 0
        if flags:
            self._cursors.add(int.from_bytes(body[:4], "little"))
        return self.result(columns, self._binary_rows(zlib.crc32(text) % 4), flags=flags)

    def _bulk(self, body: bytes) -> list[bytes]:
        if int.from_bytes(body[:4], "little") not in self._statements:
            return self.error(1243, b"Unknown prepared statement handler")
        if self.capabilities & w.BULK_RESULTS and int.from_bytes(body[4:6], "little") & 64:
            rows = [b"\0\0" + number.to_bytes(8, "little") * 2 for number in range(2)]
            return self.result([(b"Id", LONGLONG), (b"Affected_rows", LONGLONG)], rows)
        return [self.ok(affected=2)]

    def _fetch(self, statement: int) -> list[bytes]:
        if statement not in self._cursors:
            return self.error(1421, b"The statement has no open cursor")
        self._cursors.discard(statement)
        return [*self._binary_rows(2), self.eof(LAST_ROW)]

    @staticmethod
    def _binary_rows(count: int) -> list[bytes]:
        return [b"\0\0" + n.to_bytes(8, "little") + w.text(b"name") for n in range(count)]


_PROCESS = (b"Id", b"User", b"Host", b"db", b"Command", b"Time", b"State", b"Info")
_ME = (b"7", b"root", b"127.0.0.1:1", b"main", b"Query", b"0", b"", b"SHOW PROCESSLIST")
_TABLE = b"CREATE TABLE `q` (`id` bigint(20) NOT NULL) COMMENT='vitess_message,vt_ack_wait=30'"


def _row(values: tuple[bytes | None, ...]) -> bytes:
    return b"".join(b"\xfb" if value is None else w.text(value) for value in values)


_ASKED: tuple[tuple[re.Pattern[bytes], list[tuple[bytes | None, ...]]], ...] = tuple(
    (re.compile(words), rows)
    for words, rows in (
        (rb"AS qg_now", [(b"1770000000000000000", b"1", b"2", b"1770000000000000001", None, b"why", None, b"3"),
                         (b"1770000000000000000", b"2", b"0", None, b"1760000000000000000", None, b"1", None)]),
        (rb"SCHEMA_NAME = 'queuegate'", [(None,)]),
        (rb"^SELECT TABLE_SCHEMA, TABLE_NAME", [(b"main", b"fq"), (b"main", b"fg"), (b"main", b"fq_dead"),
                                                (b"main", b"fe"), (b"main", b"fe_group_g")]),
        (rb"^SELECT ID FROM information_schema", [(b"7",), (b"8",)]),
        (rb"^SELECT @@version, ", [(b"10.11.14-MariaDB", b"STRICT_TRANS_TABLES", b"SYSTEM", b"utf8mb4_general_ci",
                                    b"4", b"en_US", b"0")]),
        (rb"^SELECT @@auto_increment_increment$", [(b"1",)]),
        (rb"^SELECT CAST\(UNIX_TIMESTAMP\(", [(b"1770000000000000000",)]),
        (rb"^SELECT HEX\(group_value\)", [(b"61", b"6D61696E", b"6671", b"36"), (b"61", b"6D61696E", b"78", b"37")]),
        (rb"^SELECT HEX\(CONVERT\(", [(b"61",), (b"62",), (b"C3BC",)]),
        (rb"LIMIT 1 FOR UPDATE$", [(None,)]),
        (rb"^SHOW WARNINGS$", [(b"Warning", b"1265", b"Data truncated for column 'payload' at row 1")]),
    )
)  # fmt: skip
"""What a server says to questions that the gate asks. A row that begins with NULL is none."""
