"""The composition root: whatever asks for the end, the end begins the same way."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from proxy.config import Config
from proxy.listen.listener import WorkerSlot, bind
from proxy.transport.addresses import Address
from queuegate import app, process


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.setattr(sys, "setswitchinterval", lambda seconds: None)  # it is the whole process's
    return Config.model_validate({"listen": "127.0.0.1:0", "backend": f"sqlite:///{tmp_path}/gate.db"})


async def ends(config: Config, ready: Callable[[app.RunningProxy], None], place: WorkerSlot | None = None) -> int:
    """Serve, and count how often the end begins."""
    begun: list[bool] = []
    serving = app.serve(config, place, ready=ready, ending=lambda: begun.append(True))
    await asyncio.wait_for(serving, 60)
    return len(begun)


async def test_the_end_begins_when_it_is_asked_to_stop(config: Config) -> None:
    def stop_twice(serving: app.RunningProxy) -> None:
        serving.stop()
        serving.stop()

    assert await ends(config, stop_twice) == 1


async def test_the_end_begins_with_a_signal(config: Config) -> None:
    assert await ends(config, lambda _: os.kill(os.getpid(), signal.SIGTERM)) == 1


async def test_the_end_begins_when_the_supervisor_is_gone(config: Config) -> None:
    own, other = socket.socketpair()
    with own, other:
        place = replace(WorkerSlot(bind(config.listen), app.tallies(config).of(0)), supervisor=own)
        assert await ends(config, lambda _: other.close(), place) == 1


@pytest.mark.parametrize(
    ("listen", "own", "logged"),
    [("0.0.0.0:5", "10.0.0.1", False), ("0.0.0.0:5", "fd00::2", True), ("[::]:5", "fd00::2", False)],
)
def test_where_other_proxies_connect(
    listen: str, own: str, logged: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The address towards the database; it is said where nobody listens at that."""
    monkeypatch.setattr(app, "own_address", lambda url: own)
    config = Config.model_validate({"backend": "mysql://u@h/d", "peers": {"listen": listen}})
    address = app._mesh_address(config, WorkerSlot((), app.tallies(config).of(0)))
    assert address.advertise == Address(own, 5)
    assert ("other proxies cannot connect" in caplog.text) is logged


@pytest.mark.parametrize(
    ("database", "peers", "logged"),
    [("", {"listen": "10.0.0.1:5"}, True), ("d", {"listen": "10.0.0.1:5"}, False), ("", {}, False)],
)
def test_peers_need_a_database(
    database: str, peers: dict[str, str], logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    config = Config.model_validate({"backend": f"mysql://u@h/{database}", "peers": peers})
    process._announce(config, None, config.listen)
    assert ("there are no peers" in caplog.text) is logged
