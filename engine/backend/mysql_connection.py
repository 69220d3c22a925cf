"""AnswerConnection: PyMySQL's connection, with its own method to run statements whose answers are needed as bytes.

PyMySQL logs in, encrypts, prepares and pings, and its converters make Python values. The engine's statements go through
`run`: few reads of the socket for the answers to all statements that were sent together (mysql_client.answers).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from pymysql.connections import TEXT_TYPES, Connection
from pymysql.constants import COMMAND, FIELD_TYPE
from pymysql.err import raise_mysql_exception

from engine.model.errors import AnswerTooLarge
from engine.model.queue import ColumnMeta, TextValue
from mysql_client.answers import Answer, AnswerReader
from mysql_client.driver import (
    close_at_once,
    malformed_packet,
    read_payload,
    receive,
    receive_available,
    send_command,
)
from mysql_client.packets import MalformedAnswer, parse_column

_BINARY = 63  # the number of the character set of bytes
_READ_BYTES = 64 * 1024  # a claim's rows come in a few reads


class AnswerConnection(Connection):
    """See the module. `answered`: how many statements were, which the user of the connection sets back."""

    answered = 0

    def run(self, sql: str, *, values: bool = False, bytes_max: int = 0) -> list[Answer]:
        """Run one statement or several, joined by semicolons: their answers; `values`: those of the last with rows of
        Python values. Raises pymysql.err.Error; AnswerTooLarge, and is closed, at more than `bytes_max` (0: none)."""
        connection: Any = self
        send_command(connection, COMMAND.COM_QUERY, sql)
        reader, size = AnswerReader(collect_columns=values), 0
        try:
            while not reader.done:
                data = receive(connection, _READ_BYTES)
                size += len(data)
                if size > bytes_max > 0:
                    close_at_once(connection)
                    raise AnswerTooLarge(bytes_max)
                reader.feed(data)
        except MalformedAnswer as error:
            close_at_once(connection)
            raise malformed_packet(error) from error
        answers = self._answers_of(reader)
        if values:
            answers.append(self._with_values(answers.pop(), reader.columns))
        return answers

    def send(self, sql: str, *, bytes_max: int = 0) -> Callable[[], list[Answer] | None]:
        """Send the same and wait for nothing. What is returned reads what has come, and returns the answers once all
        of them are there. Both raise pymysql.err.Error, the second AnswerTooLarge as well, and leave the connection
        open. Not with TLS."""
        connection: Any = self
        send_command(connection, COMMAND.COM_QUERY, sql)
        reader, size = AnswerReader(), 0

        def read() -> list[Answer] | None:
            nonlocal size
            try:
                while not reader.done:
                    data = receive_available(connection, _READ_BYTES)
                    if data is None:
                        return None
                    size += len(data)
                    if size > bytes_max > 0:
                        raise AnswerTooLarge(bytes_max)
                    reader.feed(data)
            except MalformedAnswer as error:
                raise malformed_packet(error) from error
            return self._answers_of(reader)

        return read

    def columns_of(self, sql: str) -> tuple[ColumnMeta, ...]:
        """The columns that a statement without parameters will have; it is prepared, and not run. Raises
        pymysql.err.Error."""
        connection: Any = self
        send_command(connection, COMMAND.COM_STMT_PREPARE, sql)
        _, statement, count = struct.unpack_from("<BIH", read_payload(connection))
        columns = tuple(parsed_column(read_payload(connection), connection.encoding) for _ in range(count))
        if columns:
            read_payload(connection)  # EOF
        send_command(connection, COMMAND.COM_STMT_CLOSE, struct.pack("<I", statement))  # which has no answer
        return columns

    def _answers_of(self, reader: AnswerReader) -> list[Answer]:
        self.answered += len(reader.answers)
        if reader.error is not None:
            raise_mysql_exception(reader.error)
        connection: Any = self
        connection.server_status = reader.status
        return reader.answers

    def _with_values(self, answer: Answer, columns: list[bytes]) -> Answer:
        if not answer.rows:
            return answer
        connection: Any = self
        readers = [_value_reader(parsed_column(each, connection.encoding), connection) for each in columns]
        rows = [tuple(read(value) for read, value in zip(readers, row, strict=True)) for row in answer.rows]
        return Answer(rows, answer.affected)


def parsed_column(payload: bytes, encoding: str) -> ColumnMeta:
    """A column definition. Raises OperationalError."""
    try:
        return ColumnMeta(*parse_column(payload, encoding))
    except MalformedAnswer as error:
        raise malformed_packet(error) from error


def _value_reader(column: ColumnMeta, connection: Any) -> Callable[[TextValue], Any]:
    """How PyMySQL makes a Python value of the column's bytes."""
    binary = column.type in TEXT_TYPES and column.charset == _BINARY
    encoding = connection.encoding if column.type in TEXT_TYPES or column.type == FIELD_TYPE.JSON else "ascii"
    convert = connection.decoders.get(column.type)

    def read(value: TextValue) -> Any:
        if value is None:
            return None
        text = value if binary else value.decode(encoding)
        return text if convert is None else convert(text)

    return read
