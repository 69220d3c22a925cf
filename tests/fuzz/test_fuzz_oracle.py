"""The fuzzer's own test: a gate that is broken on purpose is complained about, each time for the right reason."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import fuzz_drive
import fuzz_wire as w
import pytest
from fuzz_corpus import Conversation, joined, load, load_all, save
from fuzz_gate import EmbeddedWorld, ProxyWorld, RelayWorld, World
from fuzz_input import Input, dump, parse
from fuzz_run import Fuzzer
from fuzz_small import smallest

import proxy.login.own_accounts
from mysql_wire import replies
from proxy.commands.text_commands import TextCommands
from proxy.login.exchange import AuthExchange
from proxy.transport.client_socket import ReadFlow
from proxy.transport.client_timers import ClientTimers
from proxy.upstream.embedded import EmbeddedUpstream
from proxy.upstream.relay import RelayUpstream

EMBEDDED = {one.name: one for one in load_all("embedded")}
MARIADB = {one.name: one for one in load_all("mariadb")}


def as_recorded(conversation: Conversation, world: str) -> Input:
    """The client's side, word for word."""
    steps = [step for client, data in joined(conversation.segments) if client for step in (("send", data), ("pump", 0))]
    return Input(world, conversation.name, tuple(steps))


@pytest.fixture
def open_world() -> Iterator[Callable[[type[World]], World]]:
    worlds: list[World] = []

    def make(kind: type[World]) -> World:
        worlds.append(kind() if kind is EmbeddedWorld else kind(list(MARIADB.values())))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()


def complaints(world: World, conversation: Conversation) -> str:
    return " | ".join(fuzz_drive.play(world, conversation, as_recorded(conversation, world.kind)))


@pytest.mark.parametrize("name", sorted(EMBEDDED))
def test_recorded_conversations_are_fine_on_the_embedded_backend(open_world: Any, name: str) -> None:
    assert complaints(open_world(EmbeddedWorld), EMBEDDED[name]) == ""


@pytest.mark.parametrize("name", sorted(MARIADB))
def test_recorded_conversations_are_fine_before_a_server(open_world: Any, name: str) -> None:
    assert complaints(open_world(RelayWorld), MARIADB[name]) == ""


@pytest.mark.parametrize("name", sorted(EMBEDDED))
def test_recorded_conversations_are_fine_with_accounts_of_the_proxys_own(open_world: Any, name: str) -> None:
    assert complaints(open_world(ProxyWorld), EMBEDDED[name]) == ""


@pytest.mark.parametrize("name", ["embedded-pymysql-1", "embedded-connector-pure-1", "embedded-go-1"])
def test_recorded_conversations_get_to_their_end(open_world: Any, name: str) -> None:
    """Not refused at the first word: as many commands are answered as were sent."""
    world = open_world(EmbeddedWorld)
    with world.loop.running():
        played = fuzz_drive.Played(world, EMBEDDED[name], as_recorded(EMBEDDED[name], "embedded"))
        assert played.run() == []
    assert played.verdict.commands > 15


# --- broken gates


def test_a_password_that_is_not_asked_for(open_world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def lenient(stream: Any, state: Any, decision: Any, info: Any) -> bool:
        return True

    monkeypatch.setattr(proxy.login.own_accounts, "_converse", lenient)
    assert "without the right proof" in complaints(open_world(EmbeddedWorld), EMBEDDED["embedded-pymysql-2"])


def test_a_command_that_runs_before_the_login(open_world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run = AuthExchange.run

    async def hasty(self: AuthExchange) -> int:
        self._backend.write(w.framed(b"\x03SELECT 1"))
        return await run(self)

    monkeypatch.setattr(AuthExchange, "run", hasty)
    assert "came before the login was decided" in complaints(open_world(RelayWorld), MARIADB["mariadb-pymysql-3"])


def test_a_statement_that_nobody_sent(open_world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    command = RelayUpstream.command

    async def inventive(self: RelayUpstream, payload: bytes, **options: Any) -> Any:
        return await command(self, b"\x03DELETE FROM ft" if payload == b"\x02main" else payload, **options)

    monkeypatch.setattr(RelayUpstream, "command", inventive)
    assert "was never sent" in complaints(open_world(RelayWorld), MARIADB["mariadb-pymysql-1"])


def test_a_packet_that_is_cut(open_world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    world, ok_packet = open_world(EmbeddedWorld), replies.ok_packet
    monkeypatch.setattr(replies, "ok_packet", lambda *args, **options: ok_packet(*args, **options)[:2])
    assert "from the gate" in complaints(world, EMBEDDED["embedded-pymysql-1"])


def test_an_answer_that_never_comes(open_world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(self: EmbeddedUpstream, body: bytes, hold: bool) -> Any:
        await asyncio.get_running_loop().create_future()

    world = open_world(EmbeddedWorld)
    monkeypatch.setattr(EmbeddedUpstream, "_ping", never)
    told = complaints(world, EMBEDDED["embedded-pymysql-1"])
    assert "no answer to b'\\x0e'" in told and "a task is left" in told


def test_a_defect(open_world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def defect(self: TextCommands, payload: bytes) -> None:
        raise ZeroDivisionError

    world = open_world(EmbeddedWorld)
    monkeypatch.setattr(TextCommands, "query", defect)
    assert "ZeroDivisionError" in complaints(world, EMBEDDED["embedded-pymysql-1"])


def test_a_timer_that_outlives_its_line(open_world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClientTimers, "cancel_stall", lambda self: None)
    world, conversation = open_world(EmbeddedWorld), EMBEDDED["embedded-pymysql-1"]
    half = Input("embedded", conversation.name, (("send", b"\xff\x00\x00\x01"), ("pump", 0)))
    assert "a timer is left" in " | ".join(fuzz_drive.play(world, conversation, half))


def test_memory_without_a_bound(open_world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReadFlow, "pause", lambda self, transport: None)
    monkeypatch.setattr(fuzz_drive, "HELD_MAX", 1 << 20)
    world, conversation = open_world(EmbeddedWorld), EMBEDDED["embedded-pymysql-1"]
    recorded = as_recorded(conversation, "embedded").steps[:4]
    ahead = (("send", w.framed(b"\x03SELECT * FROM STREAM fq")), ("pump", 0)) + (("send", bytes(1 << 19)),) * 3
    told = fuzz_drive.play(world, conversation, Input("embedded", conversation.name, (*recorded, *ahead)))
    assert "are held for one client" in " | ".join(told)


# --- its tools


def test_an_input_is_its_number() -> None:
    assert Fuzzer(3, "relay").input(17) == Fuzzer(3, "relay").input(17) != Fuzzer(3, "relay").input(18)


@pytest.mark.parametrize("kind", ["relay", "embedded"])
def test_inputs_are_kept_as_text(kind: str) -> None:
    inputs = [Fuzzer(5, kind).input(number) for number in range(50)]
    assert parse(dump(inputs)) == inputs


def test_conversations_are_kept_as_text(tmp_path: Any) -> None:
    for conversation in EMBEDDED.values():
        assert load(save(conversation, tmp_path)).segments == conversation.segments


def test_what_fails_is_made_small() -> None:
    """Down to the one word that does the harm, though another input has to come before it."""
    harmless = tuple(("send", w.framed(b"\x03SELECT %d" % number)) for number in range(20))
    harm = (*harmless[:9], ("send", w.framed(b"\x03SELECT 'and harm'")), *harmless[9:])
    first = Input("relay", "x", (("send", b"prepare"),))

    def play(inputs: list[Input]) -> list[str]:
        prepared = any(b"prepare" in one.sent for one in inputs[:-1])
        return ["harm"] if prepared and b"harm" in inputs[-1].sent else []

    inputs = [Input("relay", "x", harmless), first, Input("relay", "x", harmless), Input("relay", "x", harm)]
    small = smallest(inputs, play)
    assert [one.sent for one in small] == [b"prepare", w.framed(b"harm")]
