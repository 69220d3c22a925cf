"""The option `where`: a condition in SQL that the database evaluates, in addition to the bounds of each part."""

from __future__ import annotations

import pymysql

from spark_connector.client.connection import Client, number, to_connector_error
from spark_connector.client.queue import Queue
from spark_connector.errors import OptionError
from spark_connector.option_condition import OPTION

# The server's errors for an invalid condition; other errors are not caused by the option.
_FAULTS = frozenset({1052, 1054, 1064, 1111, 1221, 1235, 1241, 1242, 1305, 1630, 1582, 1583, 3593})


def check(client: Client, queue: Queue, text: str) -> None:
    """Checks that the database accepts it. Raises OptionError, ConnectionFailed, ConnectorError."""
    try:
        client.rows(f"SELECT 1 FROM {queue.quoted} WHERE ({text}) LIMIT 0")
    except pymysql.Error as error:
        if number(error) in _FAULTS:
            raise OptionError(f"{OPTION}: of {text[:80]!r} the database says: {error.args[1]}") from error
        raise to_connector_error(error, client.address) from error
