"""AnswerConnection: PyMySQL's connection, with its own method to run statements whose answers are needed as bytes.

PyMySQL logs in, encrypts, prepares and pings, and its converters make Python values. The engine's statements go through
`run`: few reads of the socket for the answers to all statements that were sent together (engine.backend.answers).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pymysql
from pymysql.connections import TEXT_TYPES, Connection
from pymysql.constants import COMMAND, CR, FIELD_TYPE
from pymysql.err import OperationalError, raise_mysql_exception
from pymysql.protocol import FieldDescriptorPacket

from engine.backend.answers import AnswerReader, MalformedAnswer
from engine.backend.base import Answer
from engine.model.queue import TextValue

_BINARY = 63  # the number of the character set of bytes
_READ_BYTES = 64 * 1024  # a claim's rows come in a few reads


class AnswerConnection(Connection):
    """See the module."""

    def run(self, sql: str, *, values: bool = False) -> list[Answer]:
        """Run one statement or several, joined by semicolons: their answers; `values`: those of the last with rows of
        Python values. Raises pymysql.err.Error."""
        connection: Any = self
        connection._execute_command(COMMAND.COM_QUERY, sql)
        reader = AnswerReader(collect_columns=values)
        try:
            while not reader.done:
                reader.feed(self._received())
        except MalformedAnswer as error:
            connection._force_close()
            raise OperationalError(CR.CR_MALFORMED_PACKET, f"Malformed packet: {error}") from error
        if reader.error is not None:
            raise_mysql_exception(reader.error)
        connection.server_status = reader.status
        if values:
            reader.answers.append(self._with_values(reader.answers.pop(), reader.columns))
        return reader.answers

    def _with_values(self, answer: Answer, columns: list[bytes]) -> Answer:
        if not answer.rows:
            return answer
        connection: Any = self
        packets = [FieldDescriptorPacket(payload, connection.encoding) for payload in columns]
        readers = [_value_reader(packet, connection) for packet in packets]
        rows = [tuple(read(value) for read, value in zip(readers, row, strict=True)) for row in answer.rows]
        return Answer(rows, answer.affected)

    def _received(self) -> bytes:
        """What comes next from the server, at least one byte."""
        connection: Any = self
        try:
            if connection._sock.gettimeout() != connection._read_timeout:
                connection._sock.settimeout(connection._read_timeout)
                connection._current_timeout = connection._read_timeout  # PyMySQL remembers it
            data: bytes = connection._sock.recv(_READ_BYTES)
        except OSError as error:
            connection._force_close()
            raise _lost(f" ({error})") from error
        except BaseException:
            connection._force_close()
            raise
        if not data:
            connection._force_close()
            raise _lost()
        return data


def _value_reader(column: Any, connection: Any) -> Callable[[TextValue], Any]:
    """How PyMySQL makes a Python value of the column's bytes."""
    binary = column.type_code in TEXT_TYPES and column.charsetnr == _BINARY
    encoding = connection.encoding if column.type_code in TEXT_TYPES or column.type_code == FIELD_TYPE.JSON else "ascii"
    convert = connection.decoders.get(column.type_code)

    def read(value: TextValue) -> Any:
        if value is None:
            return None
        text = value if binary else value.decode(encoding)
        return text if convert is None else convert(text)

    return read


def _lost(why: str = "") -> pymysql.err.OperationalError:
    return OperationalError(CR.CR_SERVER_LOST, f"Lost connection to MySQL server during query{why}")
