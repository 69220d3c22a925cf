"""A bare Debian in a folder, made by mmdebstrap: what is installed there meets nothing of this machine but its network.

It is the Debian whose Python is of this Python's version. Processes in it run by chroot, so that a port that they open
is this machine's. What cannot be made here is a skip at a desk and a failure in CI.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from servers import wait_until
from toolchains import missing

_RELEASES = {(3, 11): "bookworm", (3, 13): "trixie"}
# How this machine reaches archives and indexes, where that is not by their own names.
_PASSED = re.compile(r"PIP_(?!FIND_LINKS)\w+|SSL_CERT_FILE|https?_proxy|no_proxy", re.IGNORECASE)
_COPIED = ("etc/resolv.conf", "etc/hosts", "etc/pip.conf", "etc/ssl/certs/ca-certificates.crt")
STEP_SECONDS = 250


class BareDebian:
    """See the module. `root` is its root folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        passed = {name: value for name, value in os.environ.items() if _PASSED.fullmatch(name)}
        self.environment = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8",
            "DEBIAN_FRONTEND": "noninteractive", **passed,
        }  # fmt: skip

    def run(self, *command: str, cwd: str = "/", environment: dict[str, str] | None = None) -> str:
        """Run it there as root; what it wrote. Fails the test where it fails."""
        inside = ["chroot", str(self.root), "sh", "-c", 'cd "$0" && exec "$@"', cwd, *command]
        done = subprocess.run(
            inside, env={**self.environment, **(environment or {})}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=STEP_SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}:\n{done.stdout[-6000:]}"
        return done.stdout

    def install(self, *packages: str) -> str:
        """Install Debian's packages, or files of ours; what apt-get said."""
        return self.run("apt-get", "install", "--yes", "--quiet=2", "--no-install-recommends", *packages)

    def path(self, inside: str) -> Path:
        """Where a path of it is on this machine."""
        return self.root / inside.lstrip("/")

    @contextlib.contextmanager
    def serving(
        self, *command: str, user: str, cwd: str, environment: dict[str, str] | None = None,
        writable: Sequence[str] | None = None,
    ) -> Iterator[int]:  # fmt: skip
        """A proxy that runs there as this user; the port that it listens on. It ends in order, with exit code 0.
        `writable`: its root file system is read-only but for these folders, each an empty one in memory."""
        log = self.path("/var/tmp/served.log")
        inside = ["chroot", f"--userspec={user}", str(self.root), "sh", "-c", 'cd "$0" && exec "$@"', cwd, *command]
        if writable is not None:
            owner = user.replace(":", ",gid=")
            mounts = [f'mount -t tmpfs -o "uid={owner},mode=750" tmpfs "$0{folder}"' for folder in writable]
            script = ['mount --bind "$0" "$0"', *mounts, 'mount -o remount,ro,bind "$0" "$0"']
            # The mount is of a folder below: it is entered anew by chroot.
            inside = ["unshare", "--mount", "sh", "-ec", "; ".join([*script, 'exec "$@"']), str(self.root), *inside]
        with log.open("wb") as output:
            process = subprocess.Popen(
                inside, env={**self.environment, **(environment or {})}, stdout=output, stderr=subprocess.STDOUT
            )
        try:
            port = wait_until(lambda: _port(process, log), 60, "the proxy to listen")
            yield int(port)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)  # every program in between has become the next one
            code = process.wait(60)
        assert code == 0, log.read_text()
        assert "Traceback" not in log.read_text()


def _port(process: subprocess.Popen[bytes], log: Path) -> str | None:
    text = log.read_text()
    assert process.poll() is None, text
    found = re.search(r"listening on [\d.]+:(\d+)", text)
    return found[1] if found else None


@contextlib.contextmanager
def bare_debian() -> Iterator[BareDebian]:
    """One that is removed afterwards."""
    if os.geteuid() != 0 or shutil.which("mmdebstrap") is None:
        missing("installing on a bare Debian needs mmdebstrap and root")
    release = _RELEASES.get(sys.version_info[:2])
    if release is None:
        missing("no Debian has a Python of this version")
    # Not where tests have their files: that is memory.
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="queuegate-debian-") as folder:
        root = Path(folder) / "root"
        command = ["mmdebstrap", "--quiet", "--variant=minbase", "--include=ca-certificates", release, str(root)]
        made = subprocess.run(command, capture_output=True, text=True, timeout=STEP_SECONDS, check=False)
        if made.returncode:
            missing(f"no bare Debian could be made ({made.stderr[-300:]})")
        for name in _COPIED:
            if Path("/", name).exists():
                shutil.copy(Path("/", name), root / name)
        bare = BareDebian(root)
        bare.run("apt-get", "update", "--quiet=2")
        yield bare
