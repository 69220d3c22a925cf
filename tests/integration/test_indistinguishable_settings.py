"""Settings of a session, and of one statement: as at the server itself. Then what the proxy answers."""

from __future__ import annotations

import zlib

from same import Play, Seen, asked, prepared, scenario
from servers import SERVER, Gate
from wire_client import CLOSE, COMPRESS, EXECUTE, PREPARE, WireClient, frame


def test_settings_of_one_statement(play: Play) -> None:
    def work(client: WireClient) -> list[Seen]:
        client.run("CREATE TABLE t (i INT)", "INSERT INTO t VALUES (7)")
        return asked(
            client,
            "SET STATEMENT sql_mode='' FOR UPDATE t SET i=1",
            "SET STATEMENT sql_mode='' FOR CREATE PROCEDURE p() BEGIN SELECT 1; SELECT 2; END",
            "CALL p()",
            "SET STATEMENT sql_mode='', max_statement_time=5 FOR INSERT INTO t VALUES (1); SELECT 2",
            "SET STATEMENT character_set_client='latin1' FOR SELECT 1",
            "SELECT @@sql_mode, SUM(i) FROM t",
        )

    seen = dict(play(scenario(work)))
    assert SERVER == "mysql" or all(answer.ok for what, answer in seen.items() if "character_set" not in what)


def test_a_prepared_set_names_is_noticed(play: Play) -> None:
    """Statements to come are read in it: the name of a database, here."""
    use = "USE größe".encode("latin1")

    def work(client: WireClient) -> list[Seen]:
        client.run("DROP DATABASE IF EXISTS größe", "CREATE DATABASE größe", "PREPARE utf8 FROM 'SET NAMES utf8mb4'")
        statement, first = prepared(client, "SET NAMES latin1")
        seen = [
            first,
            ("prepared", client.execute(statement)),
            *asked(client, use, "SELECT DATABASE()", "EXECUTE utf8"),
        ]
        seen += asked(client, "USE same", "USE größe", "SELECT DATABASE()", "EXECUTE IMMEDIATE 'SET NAMES latin1'")
        return [
            *seen,
            *asked(client, "USE same", use, "SELECT DATABASE()", "DROP DATABASE gr\xf6\xdfe".encode("latin1")),
        ]

    seen = play(scenario(work))
    assert SERVER == "mysql" or all(answer.ok for _, answer in seen)  # which knows no EXECUTE IMMEDIATE


def test_errors_of_use_are_the_servers(play: Play) -> None:
    def work(client: WireClient) -> list[Seen]:
        return asked(client, "USE nowhere", "USE no where", "USE `a", "USE", "USE select", "USE same.x")

    assert [answer.ok for _, answer in play(scenario(work))] == [False] * 6 + [True]


def test_the_socket_of_the_database_is_not_told(gate: Gate) -> None:
    """Rust's mysql would go on over it, around the proxy."""
    with WireClient(gate.port, database=gate.database) as client:
        assert client.value("SELECT @@socket") == b""
        statement = client.prepare("SELECT @@socket")
        answer = client.execute(statement)
        assert answer.ok and answer.payloads[-2] == b"\x00\x00\x00", answer.payloads
        told = client.command(PREPARE, b"SELECT @@socket")
        assert any(b"@@socket" in payload for payload in told.payloads)


def test_a_command_after_one_without_an_answer_in_the_same_compressed_packet(gate: Gate) -> None:
    """libmariadb sends COM_STMT_CLOSE together with what comes next."""
    with WireClient(gate.port, database=gate.database, add=COMPRESS) as client:

        def send(*commands: bytes) -> None:
            plain = b"".join(map(frame, commands))
            client.socket.sendall(len(plain).to_bytes(3, "little") + bytes(4) + plain)

        def answer() -> bytes:
            head = client.file.read(7)
            body = client.file.read(int.from_bytes(head[:3], "little"))
            return zlib.decompress(body) if any(head[4:7]) else body

        send(bytes((PREPARE,)) + b"DO 1")
        first = answer()
        assert first[4:5] == b"\x00"
        number = first[5:9]
        for _ in range(3):
            send(bytes((CLOSE,)) + number, bytes((PREPARE,)) + b"DO 2")
            again = answer()
            assert again[4:5] == b"\x00", again
            number = again[5:9]
        send(bytes((EXECUTE,)) + number + bytes(1) + b"\x01\x00\x00\x00")
        assert answer()[4:5] == b"\x00"


def test_statements_of_the_proxys_own_announce_their_columns_when_they_are_prepared(gate: Gate) -> None:
    with WireClient(gate.port, database=gate.database) as client:
        client.run("CREATE QUEUE announced (body INT)")
        try:
            for sql in ("SELECT * FROM queuegate.queues", "SELECT COUNT(*) FROM queuegate.queues", "SHOW QUEUES",
                        "SHOW QUEUE STATUS", "SHOW SUBSCRIPTIONS", "SHOW CREATE QUEUE announced"):  # fmt: skip
                told = client.command(PREPARE, sql.encode())
                assert told.ok, (sql, told.error)
                columns = int.from_bytes(told.payloads[0][5:7], "little")
                executed = client.execute(told.statement)
                assert executed.ok and executed.payloads[0][0] == columns > 0, (sql, columns, executed.payloads[0])
        finally:
            client.run("DROP QUEUE announced")
