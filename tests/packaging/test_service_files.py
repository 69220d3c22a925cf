"""The man page and the units of systemd: whole, up to date, and as strict as they claim to be."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from servers import ROOT
from toolchains import missing

from proxy.systemd import NAMES
from queuegate.command_line import parser

PAGE = ROOT / "packaging/man/queuegate.1"
UNITS = ROOT / "packaging/systemd"
EXPOSURE_MOST = 2.0


def unit(name: str) -> dict[str, list[str]]:
    """The settings of a unit file; each may be given several times."""
    settings: dict[str, list[str]] = {}
    for line in (UNITS / name).read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            settings.setdefault(key, []).append(value)
    return settings


def test_the_man_page_is_what_the_parser_says():
    written = subprocess.run(
        [sys.executable, "packaging/manpage.py"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert PAGE.read_text() == written.stdout, "run: python packaging/manpage.py > packaging/man/queuegate.1"


def test_the_man_page_names_every_command_and_option():
    text = PAGE.read_text().replace("\\-", "-")
    (commands,) = (action.choices for action in parser()._actions if isinstance(action.choices, dict))
    assert len(commands) >= 12
    for name, command in commands.items():
        assert f"\n.SS queuegate {name}\n" in text
        for action in command._actions:
            if action.help == argparse.SUPPRESS:  # of `queuegate serve`, which starts the console
                continue
            for option in action.option_strings:
                assert f"\\fB{option}\\fR" in text or option == "--ask-password"


def test_the_man_page_is_well_formed():
    groff = shutil.which("groff")
    if groff is None:
        missing("groff is not installed (Debian package groff-base)")
    done = subprocess.run(
        [groff, "-man", "-Tutf8", "-ww", "-z", PAGE], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""


def test_the_service_is_hardened(tmp_path):
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        missing("systemd-analyze is not installed")
    done = subprocess.run(
        [analyze, "security", "--offline=true", "--no-pager", UNITS / "queuegate.service"],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    exposure = re.search(r"Overall exposure level for queuegate\.service: ([\d.]+)", done.stdout)
    assert exposure and float(exposure[1]) < EXPOSURE_MOST, done.stdout


def test_the_units_are_well_formed(tmp_path):
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        missing("systemd-analyze is not installed")
    for path in UNITS.iterdir():
        # The program and its page are not installed here; all else must be in order.
        text = path.read_text().replace("/usr/bin/queuegate", "/bin/true")
        (tmp_path / path.name).write_text(re.sub(r"(?m)^Documentation=.*\n", "", text))
    done = subprocess.run(
        [analyze, "verify", "--man=no", *sorted(tmp_path.iterdir())],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    ours = [line for line in done.stderr.splitlines() if "queuegate" in line]
    assert (done.returncode, ours) == (0, []), done.stderr


def test_the_service_does_what_the_program_understands():
    service = unit("queuegate.service")
    assert service["Type"] == ["notify"]
    (command,) = service["ExecStart"]
    options = parser().parse_args(command.split()[1:])
    assert options.config == Path("/etc/queuegate/config.yaml")
    # systemd compares the exit code of the main process alone.
    assert service["RestartPreventExitStatus"] == ["2"] and "ExecStartPre" not in service


def test_an_upgrade_whose_configuration_is_refused_is_complete(tmp_path):
    for name, code in (("getent", 0), ("install", 0), ("systemctl", '"$([ "$1" != try-restart ]; echo $?)"')):
        (tmp_path / name).write_text(f"#!/bin/sh\nexit {code}\n")
        (tmp_path / name).chmod(0o755)
    script = (ROOT / "packaging/debian/postinst").read_text()
    script = script.replace("/run/systemd/system", str(tmp_path)).replace("@PYTHON@", "true")
    done = subprocess.run(
        ["/bin/sh", "-c", script, "postinst", "configure", "0.1.0"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "") and "journalctl -u queuegate" in done.stderr


@pytest.mark.parametrize("name", ["queuegate.socket", "queuegate-admin.socket"])
def test_the_sockets_have_names_that_the_program_knows(name):
    socket = unit(name)
    assert socket["FileDescriptorName"][0] in NAMES
    assert socket["Service"] == ["queuegate.service"]
