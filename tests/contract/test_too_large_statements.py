"""Statements above `max_allowed_packet`: the error that a server has, once the client listens."""

from __future__ import annotations

import pymysql
import pytest

MIB = 1 << 20


@pytest.mark.parametrize("size", [64 * MIB, 80 * MIB])
def test_a_statement_that_is_too_large(gate, size):
    """It is read to its end: PyMySQL has numbered its packets further, and listens only then."""
    if not gate.embedded:
        pytest.skip("a statement that concerns no queue is passed on, and the server's own limit counts")
    client = gate.connect()
    with pytest.raises(pymysql.err.MySQLError) as refused:
        client.query(b"SELECT '" + b"x" * size + b"'")
    assert refused.value.args[0] == 1153
    client._force_close()


def test_a_queues_statement_that_is_too_large(gate, queue):
    client = gate.connect()
    with pytest.raises(pymysql.err.MySQLError) as refused:
        client.query(b"ACK " + queue().encode() + b" '" + b"x" * 64 * MIB + b"'")
    assert refused.value.args[0] == 1153
    client._force_close()


def test_a_statement_of_several_packets(gate):
    client = gate.connect()
    with client.cursor() as cursor:
        cursor.execute("SELECT @@max_allowed_packet")
        if cursor.fetchone()[0] < 40 * MIB:
            pytest.skip("the server takes no statement of several packets")
    client.query(b"SELECT LENGTH('" + b"x" * 20 * MIB + b"')")
    assert client._result is not None and client._result.rows == ((20 * MIB,),)
    client.close()
