"""Errors and warnings without the server's accounts and files, and with all else that they say."""

from __future__ import annotations

import pytest

from mysql_wire.packets import frame
from mysql_wire.reframer import with_edited_error
from proxy.upstream.redaction import (
    redacted,
    redacted_packet,
    redacted_problem,
    redacted_text,
    redacted_warning,
)

TEXTS = {
    (1142, "INSERT command denied to user 'gate'@'10.0.0.1' for table 'orders'"): (
        "INSERT command denied to user '...'@'...' for table 'orders'"
    ),
    (1044, "Access denied for user 'o'gate' x'@'%' to database 'a'"): (
        "Access denied for user '...'@'...' to database 'a'"
    ),
    (1045, "refused a connection of the proxy's own account: Access denied for user 'g'@'h' (using password: YES)"): (
        "refused a connection of the proxy's own account: Access denied for user '...'@'...' (using password: YES)"
    ),
    (1226, "User 'gate' has exceeded the 'max_queries_per_hour' resource (current value: 1)"): (
        "User ... has exceeded the 'max_queries_per_hour' resource (current value: 1)"
    ),
    (1203, "User gate already has more than 'max_user_connections' active connections"): (
        "User ... already has more than 'max_user_connections' active connections"
    ),
    (1449, "The user specified as a definer ('gate'@'%') does not exist"): (
        "The user specified as a definer ('...'@'...') does not exist"
    ),
    (3, "Error writing file '/tmp/MYfd=5' (Errcode: 28 \"No space left on device\")"): (
        "Error writing file '...' (Errcode: 28 \"No space left on device\")"
    ),
    (1034, "Index for table '/data/tmp/#sql-temptable.MAI' is corrupt; try to repair it"): (
        "Index for table '...' is corrupt; try to repair it"
    ),
    (1021, "Disk full (/tmp/#sql_1_0.MAI); waiting for someone to free some space... (errno: 28)"): (
        "Disk full (...); waiting for someone to free some space... (errno: 28)"
    ),
    (1016, "Can't open file: './shop/orders.ibd' (errno: 2)"): "Can't open file: '...' (errno: 2)",
    (1218, "Can't connect to the database (/run/mysqld.sock: No such file or directory); nothing was executed"): (
        "Can't connect to the database (...: No such file or directory); nothing was executed"
    ),
    (1218, "Can't connect to the database (10.0.0.1:3306: Connection refused)"): (
        "Can't connect to the database (10.0.0.1:3306: Connection refused)"
    ),
    (1105, "backend connection lost: the server closed the connection; 1/2 and/or"): (
        "backend connection lost: the server closed the connection; 1/2 and/or"
    ),
    # the client's own words
    (1062, "Duplicate entry 'a'@'b' for key '/x/y'"): "Duplicate entry 'a'@'b' for key '/x/y'",
    (1064, "You have an error in your SQL syntax near ''a'@'b' /tmp'"): (
        "You have an error in your SQL syntax near ''a'@'b' /tmp'"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("errno", "text"), TEXTS)
def test_accounts_and_files_are_left_out(errno: int, text: str) -> None:
    wanted = TEXTS[errno, text]
    assert redacted_text(errno, text) == wanted
    assert redacted(errno, text.encode()) == wanted.encode()
    assert redacted_warning((b"Error", b"%d" % errno, text.encode())) == (b"Error", b"%d" % errno, wanted.encode())


def test_a_packet_keeps_its_number_and_its_state() -> None:
    text, hidden = b"denied to user 'a'@'b' for", b"denied to user '...'@'...' for"
    for head in (b"\xff\x76\x04#42000", b"\xff\x76\x04"):
        assert redacted_packet(head + text) == head + hidden
        row = frame(b"\x01x", 3)
        assert with_edited_error(row + frame(head + text, 4), redacted_packet) == row + frame(head + hidden, 4)


def test_a_problem_is_told_without_accounts_and_files() -> None:
    text = "the history is not written: INSERT command denied to user 'gate'@'10.0.0.1' for table `shop`.`t`"
    assert redacted_problem(text) == text.replace("'gate'@'10.0.0.1'", "'...'@'...'")
    assert redacted_problem("Error writing file '/var/lib/mysql/shop/t.ibd' (28)") == "Error writing file '...' (28)"
    assert redacted_problem("retain: 'soon' is too short; at least 1s") == "retain: 'soon' is too short; at least 1s"
