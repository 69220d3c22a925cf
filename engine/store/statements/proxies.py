"""The table `queuegate_proxies`, in which the proxies of one database find each other. MySQL and MariaDB only.

It is in the database of the backend's URL, made by the engine's account at first need. Times are the database's, in ns.
"""

from __future__ import annotations

from engine.store.statements.mysql import MYSQL

_NOW_NS = MYSQL.now_ns
_TABLE = MYSQL.gate.own("", "queuegate_proxies")

MAKE_TABLE = (
    f"CREATE TABLE IF NOT EXISTS {_TABLE.target} ("
    "number BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, proxy CHAR(32) NOT NULL, worker INT NOT NULL,"
    " address VARCHAR(300) NOT NULL, secret CHAR(64) NOT NULL, server VARCHAR(300) NOT NULL, time_seen BIGINT NOT NULL,"
    " sessions VARCHAR(4000) NOT NULL DEFAULT ''"
    ") ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin"
)
"""One row for each process that serves clients; `secret` is what it proves itself by, `sessions` are its
engine's at the server, each its number there, `@`, and its end's address."""

ADD_SESSIONS = f"ALTER TABLE {_TABLE.target} ADD COLUMN sessions VARCHAR(4000) NOT NULL DEFAULT ''"
"""For a table that an earlier version created. Its proxies name the columns that they write."""

SERVER = "SELECT CONCAT_WS(':', @@hostname, @@port, @@server_id)"
"""Which server this is: only there do connection ids mean the same connections."""

JOIN = (
    f"INSERT INTO {_TABLE.target} (proxy, worker, address, secret, server, time_seen) VALUES (?, ?, ?, ?, ?, {_NOW_NS})"
)
"""A new process; the server numbers them in the order of arrival."""

PROOF = _TABLE.proof
"""Sent before JOIN and JOIN_AGAIN. Fails where there is no such table."""

JOINED = f"SELECT number FROM {_TABLE} WHERE secret = ?"
"""The number of the process that has just joined; by its secret, which no other process has."""

SEEN = f"UPDATE {_TABLE} SET time_seen = {_NOW_NS}, server = ? WHERE number = ? AND secret = ?"
"""It lives."""

TAKEN = f"SELECT COUNT(*) FROM {_TABLE} WHERE number = ?"
"""Whether another process has that number: the table was emptied, or created again, meanwhile."""

JOIN_AGAIN = (
    f"REPLACE INTO {_TABLE.target} (number, proxy, worker, address, secret, server, time_seen)"
    f" VALUES (?, ?, ?, ?, ?, ?, {_NOW_NS})"
)
"""It lives, and was taken for dead."""

FORGET = _TABLE.delete(f"time_seen < {_NOW_NS} - ?")
"""Those that have not been seen for so long."""

ALIVE = (
    f"SELECT number, proxy, worker, address, secret, server FROM {_TABLE}"
    f" WHERE time_seen >= {_NOW_NS} - ? ORDER BY number"
)
"""Those that have."""

LEAVE = _TABLE.delete("number = ? AND secret = ?")
"""It ends."""

SESSIONS = f"UPDATE {_TABLE} SET sessions = ? WHERE number = ? AND secret = ?"
"""What it has at its server now."""

UNSEEN = (
    f"SELECT number, address, sessions, time_seen FROM {_TABLE}"
    f" WHERE sessions <> '' AND server = ? AND proxy <> ? AND time_seen < {_NOW_NS} - ?"
)
"""Those of other proxies at the same server that have not been seen for so long, and may have left sessions there. The
workers of one proxy are linked while they live, and the kernel ends the sessions of a dead one."""

FENCED = f"UPDATE {_TABLE} SET sessions = '' WHERE number = ? AND time_seen = ?"
"""Nothing is left of it there, if it has not been seen meanwhile."""


def left(count: int) -> str:
    """Which of so many sessions still exist. Only those of the engine's own account: the row may be forged."""
    return (
        "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = SUBSTRING_INDEX(USER(), '@', 1)"
        f" AND ID <> CONNECTION_ID() AND (ID, HOST) IN ({', '.join(['(?, ?)'] * count)})"
    )
