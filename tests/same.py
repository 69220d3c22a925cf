"""Scenarios played at the server itself and through the proxy, by a client that keeps every byte, and compared.

Compared are whole answers: metadata, rows, status flags, warnings, info, session state, errors, numbering.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

import pytest
from servers import MariaDb, Sql
from wire_client import DEPRECATE_EOF, PREPARE, SESSION_TRACK, Answer, WireClient

Seen = tuple[str, Answer]
"""What was asked, in words, and all that was answered."""

Scenario = Callable[[WireClient], list[Seen]]
Play = Callable[..., list[Seen]]

# A client of MariaDB, one of MySQL 5.7 and later, and one from before.
KINDS = pytest.mark.parametrize(
    "drop", [0, SESSION_TRACK, DEPRECATE_EOF | SESSION_TRACK], ids=["all", "untracked", "eof"]
)


def played_twice(mariadb: MariaDb, proxied_port: int, scenario: Scenario, **options: object) -> list[Seen]:
    """Each time in an empty database called `same`. Returns what was seen through the proxy."""
    seen = []
    for port in (mariadb.port, proxied_port):
        with mariadb.connect() as connection:
            Sql(connection)("DROP DATABASE IF EXISTS same")
            Sql(connection)("CREATE DATABASE same CHARACTER SET utf8mb4")
        with WireClient(port, database="same", **options) as client:  # type: ignore[arg-type]
            seen.append(scenario(client))
    direct, proxied = ([(what, without_numbers(answer)) for what, answer in one] for one in seen)
    assert proxied == direct, differences(direct, proxied)
    return proxied


def without_numbers(answer: Answer) -> Answer:
    """Numbers of statements go on from the connection that the server's thread had before."""
    return Answer(
        [
            (seq, re.sub(rb"(handler|statement) \(\d+\)", rb"\1", payload) if payload[:1] == b"\xff" else payload)
            for seq, payload in answer.packets
        ]
    )


def differences(direct: list[Seen], proxied: list[Seen]) -> str:
    """The first few, with what led to them."""
    told = [
        f"{what}\n  direct  {one.packets!s:.400}\n  proxied {other.packets!s:.400}"
        for (what, one), (also, other) in zip(direct, proxied, strict=False)
        if (what, one.packets) != (also, other.packets)
    ]
    missing = [what for what, _ in direct if what not in dict(proxied)]
    return "\n".join([*told[:20], *(f"missing: {what}" for what in missing[:20])])


def prepared(client: WireClient, sql: str) -> tuple[int, Seen]:
    """Its number, and the answer without it: the server goes on counting from its thread's connection before."""
    answer = client.command(PREPARE, sql.encode())
    if not answer.ok:
        return 0, (f"prepare {sql}", answer)
    (seq, first), *rest = answer.packets
    return answer.statement, (f"prepare {sql}", Answer([(seq, first[:1] + bytes(4) + first[5:]), *rest]))


def asked(client: WireClient, *statements: str | bytes) -> list[Seen]:
    return [(repr(sql), client.query(sql)) for sql in statements]


def scenario(work: Callable[[WireClient], list[Seen]]) -> Callable[[WireClient], list[Seen]]:
    """Ends with a sign that client and server are in step."""

    def played(client: WireClient) -> list[Seen]:
        seen = work(client)
        return [*seen, *asked(client, "SELECT 'in step'")]

    return played


def number(value: int) -> bytes:
    return struct.pack("<q", value)


def parameters(*values: tuple[int, bytes | None]) -> bytes:
    """Null bitmap, the byte that announces types, types and values."""
    nulls = sum(1 << at for at, (_, value) in enumerate(values) if value is None)
    types = b"".join(struct.pack("<BB", kind, 0) for kind, _ in values)
    given = b"".join(value for _, value in values if value is not None)
    return nulls.to_bytes((len(values) + 7) // 8, "little") + b"\x01" + types + given
