"""What a service manager hands over, and what it is told."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy import systemd
from proxy.systemd import BadHandover, Notifier, addresses_of, handed_sockets

PID = 4711


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """Where states are announced to."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(tmp_path / "notify"))
        heard.settimeout(5)
        yield heard


def listening(host: str = "127.0.0.1") -> socket.socket:
    made = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    made.setblocking(True)
    return made


def given(monkeypatch: pytest.MonkeyPatch, *sockets: socket.socket, names: str | None = None) -> dict[str, str]:
    """The environment of a process that has these sockets from FIRST_FD on."""
    ends = [os.dup(each.fileno()) for each in sockets]
    # Neighbours, as the kernel hands them out: the first one free, and so on.
    base = 200
    for offset, fd in enumerate(ends):
        os.dup2(fd, base + offset)
        os.close(fd)
    monkeypatch.setattr(systemd, "FIRST_FD", base)
    named = {} if names is None else {"LISTEN_FDNAMES": names}
    return {"LISTEN_PID": str(PID), "LISTEN_FDS": str(len(sockets)), "KEPT": "yes", **named}


def test_sockets_by_name(monkeypatch):
    with listening() as one, listening() as two, listening() as three:
        environment = given(monkeypatch, one, two, three, names="mysql:admin:mysql")
        handed = handed_sockets(environment, PID)
        assert environment == {"KEPT": "yes"}  # nobody else takes them
        ports = {name: [each.getsockname()[1] for each in sockets] for name, sockets in handed.items()}
        assert ports == {
            "mysql": [one.getsockname()[1], three.getsockname()[1]],
            "admin": [two.getsockname()[1]],
        }
        for sockets in handed.values():
            for each in sockets:
                assert not each.getblocking() and not each.get_inheritable()
                each.close()


def test_without_names_they_are_the_clients_port(monkeypatch):
    with listening() as one:
        (taken,) = handed_sockets(given(monkeypatch, one), PID)["mysql"]
        assert taken.getsockname() == one.getsockname()
        taken.close()


def test_the_configuration_hears_the_address_that_others_can_reach(monkeypatch):
    with listening() as one, listening("0.0.0.0") as two:
        handed = handed_sockets(given(monkeypatch, one, two), PID)
        assert addresses_of(handed) == {"listen": f"0.0.0.0:{two.getsockname()[1]}"}
        for each in handed["mysql"]:
            each.close()


def test_what_is_meant_for_another_process_is_left_alone():
    environment = {"LISTEN_PID": "1", "LISTEN_FDS": "1"}
    assert handed_sockets(environment, PID) == {} == handed_sockets({}, PID)
    assert environment == {}


@pytest.mark.parametrize(
    ("fds", "names", "said"),
    [
        ("many", "", "LISTEN_FDS is no number"),
        ("65", "", "LISTEN_FDS is no number"),
        ("1", "mysql:admin", "2 names for 1 sockets"),
        ("1", "ssh", "'ssh' was handed over"),
    ],
)
def test_a_handover_that_cannot_be_served_is_refused(fds, names, said):
    with pytest.raises(BadHandover, match=said):
        handed_sockets({"LISTEN_PID": str(PID), "LISTEN_FDS": fds, "LISTEN_FDNAMES": names}, PID)


def test_other_descriptors_than_listening_tcp_sockets_are_refused(monkeypatch, tmp_path):
    with socket.socket() as silent, socket.socket(socket.AF_UNIX) as local:
        local.bind(str(tmp_path / "socket"))
        local.listen()
        for wrong in (silent, local):
            with pytest.raises(BadHandover, match="does not listen for TCP"):
                handed_sockets(given(monkeypatch, wrong), PID)
    with (tmp_path / "file").open("w") as file:
        os.dup2(file.fileno(), 200)
        monkeypatch.setattr(systemd, "FIRST_FD", 200)
        with pytest.raises(BadHandover, match="is no socket"):
            handed_sockets({"LISTEN_PID": str(PID), "LISTEN_FDS": "1"}, PID)
        os.close(200)


def test_states_are_announced(manager):
    environment = {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(PID)}
    notifier = Notifier.of(environment, PID)
    assert environment == {} and notifier.beat_seconds == 15
    notifier.ready()
    notifier.stopping()
    assert [manager.recv(100), manager.recv(100)] == [b"READY=1", b"STOPPING=1"]


def test_signs_of_life_come_twice_in_the_watchdogs_time(manager):
    notifier = Notifier(manager.getsockname(), 8.0)
    later: list[tuple[float, object]] = []
    notifier.beat_by(lambda seconds, then: later.append((seconds, then)))
    assert manager.recv(100) == b"WATCHDOG=1"
    ((seconds, then),) = later
    assert seconds == 4.0
    then()
    assert manager.recv(100) == b"WATCHDOG=1" and len(later) == 2


def test_an_abstract_address_is_one_too():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        name = f"queuegate-test-{os.getpid()}"
        heard.bind(f"\0{name}")
        Notifier(f"@{name}").ready()
        assert heard.recv(100) == b"READY=1"


def test_a_manager_that_is_gone_is_no_reason_to_end(tmp_path, caplog):
    Notifier(str(tmp_path / "nobody")).ready()
    assert "cannot be told READY=1" in caplog.text


def test_without_a_manager_nothing_is_said():
    notifier = Notifier.of({}, PID)
    assert notifier == Notifier(None, None)
    notifier.ready()
    notifier.beat_by(lambda *_: pytest.fail("nobody watches"))


def test_the_watchdog_of_another_process_is_not_ours():
    assert Notifier.of({"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1"}, PID).beat_seconds is None
