"""One message through a server that runs somewhere: made, inserted, received, acked."""

from __future__ import annotations

import pymysql


def one_message(port: int, password: str = "") -> None:
    """By root, in the queue `q` of the database main, which stays."""
    with pymysql.connect(
        host="127.0.0.1", port=port, user="root", password=password, database="main", autocommit=True
    ) as client:
        cursor = client.cursor()
        cursor.execute("CREATE QUEUE IF NOT EXISTS q (n INT)")
        cursor.execute("INSERT INTO q (n) VALUES (7)")
        cursor.execute("SELECT id, n FROM STREAM q LIMIT 1 WAIT 20")
        ((message, n),) = cursor.fetchall()
        assert n == 7 and cursor.execute("ACK q %s", (message,)) == 1
