"""The option `where`: a condition in SQL that the database evaluates, beside the bounds of each part."""

from __future__ import annotations

import pymysql

from spark_connector.client.connection import Client, number, told
from spark_connector.client.queue import Queue
from spark_connector.errors import OptionError
from spark_connector.option_condition import OPTION

# What the server says of a text that is no condition; anything else is no fault of the option.
_FAULTS = frozenset({1052, 1054, 1064, 1111, 1221, 1235, 1241, 1242, 1305, 1630, 1582, 1583, 3593})


def check(client: Client, queue: Queue, text: str) -> None:
    """That the database takes it. Raises OptionError, and told errors."""
    try:
        client.rows(f"SELECT 1 FROM {queue.quoted} WHERE ({text}) LIMIT 0")
    except pymysql.Error as error:
        if number(error) in _FAULTS:
            raise OptionError(f"{OPTION}: of {text[:80]!r} the database says: {error.args[1]}") from error
        raise told(error, client.address) from error
