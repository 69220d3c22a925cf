"""Builds the Debian package: `python packaging/debian/build.py FOLDER`, which prints the path of the .deb.

The package brings its libraries along, in /opt/queuegate/lib, and needs only Debian's Python of the version that this
program runs with: Debian does not have all of them, and those it has are older. Compiled libraries make it a package
of one architecture. With SOURCE_DATE_EPOCH two builds are the same, byte for byte.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LIBRARIES = Path("opt/queuegate/lib")

_PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
# Of an installed distribution: what belongs to pip, of which some names folders of this machine.
_OF_PIP = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")
_COMMAND = f"""\
#!/usr/bin/{_PYTHON} -IS
# -I and -S: neither the environment nor packages of this machine change what is loaded.
import sys

sys.path.insert(0, "/{LIBRARIES}")
from queuegate.__main__ import main

sys.exit(main())
"""


def project() -> dict[str, str]:
    """Version and description, as pyproject.toml has them."""
    given: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return given


def build(folder: Path) -> Path:
    """Build the package into `folder`. Raises CalledProcessError where a step fails."""
    architecture = _output("dpkg", "--print-architecture")
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "tree"
        _libraries(tree, Path(scratch))
        _files(tree)
        _control(tree, architecture)
        _settle(tree)
        target = folder / f"queuegate_{project()['version']}_{architecture}.deb"
        folder.mkdir(parents=True, exist_ok=True)
        command = ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", tree, target]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=_environment())
    return target


def _libraries(tree: Path, scratch: Path) -> None:
    """The wheel with compiled parts, and what it needs by the hashes of the lock file, as pip unpacks them; no byte
    code, which is made where it is installed."""
    build = [sys.executable, ROOT / "packaging/compiled.py", scratch]
    subprocess.run(build, cwd=ROOT, check=True, stdout=sys.stderr, env=_environment())
    (wheel,) = scratch.glob("*.whl")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    # Without the packages that this Python has, which it may have from elsewhere.
    install += ["--ignore-installed", "--only-binary", ":all:", "--target", str(tree / LIBRARIES)]
    for what in (["--require-hashes", "-r", ROOT / "packaging/requirements.txt"], ["--no-deps", wheel]):
        subprocess.run([*install, *what], check=True, stdout=sys.stderr)
    for name in ("bin", "share"):
        shutil.rmtree(tree / LIBRARIES / name, ignore_errors=True)
    for description in (tree / LIBRARIES).glob("*.dist-info"):
        for name in _OF_PIP:
            (description / name).unlink(missing_ok=True)


def _files(tree: Path) -> None:
    _write(tree / "usr/bin/queuegate", _COMMAND, 0o755)
    config = (ROOT / "config.yaml").read_text()
    changed, count = re.subn(r"(?m)^backend: .*$", "backend: sqlite:////var/lib/queuegate/queue.db", config)
    assert count == 1, "config.yaml names no backend"
    _write(tree / "etc/queuegate/config.yaml", changed, 0o640)
    for unit in sorted((ROOT / "packaging/systemd").iterdir()):
        _write(tree / "usr/lib/systemd/system" / unit.name, unit.read_text())
    _compressed(tree / "usr/share/man/man1/queuegate.1.gz", ROOT / "packaging/man/queuegate.1")
    _compressed(tree / "usr/share/doc/queuegate/changelog.gz", ROOT / "CHANGELOG.md")
    _write(tree / "usr/share/doc/queuegate/copyright", (HERE / "copyright").read_text())


def _control(tree: Path, architecture: str) -> None:
    control = tree / "DEBIAN"
    size = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file()) // 1024
    text = (HERE / "control.in").read_text()
    for word, value in (
        ("VERSION", project()["version"]),
        ("ARCHITECTURE", architecture),
        ("MAINTAINER", _maintainer()),
        ("SIZE", str(size)),
        ("PYTHON", _PYTHON),
        ("LIBC", _libc_needed(tree / LIBRARIES)),
        ("DESCRIPTION", project()["description"]),
    ):
        text = text.replace(f"@{word}@", value)
    _write(control / "control", text)
    _write(control / "conffiles", "/etc/queuegate/config.yaml\n")
    for script in ("postinst", "prerm", "postrm"):
        _write(control / script, (HERE / script).read_text().replace("@PYTHON@", _PYTHON), 0o755)
    sums = [
        f"{hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()}  {path.relative_to(tree)}\n"
        for path in sorted(tree.rglob("*"))
        if path.is_file() and control not in path.parents
    ]
    _write(control / "md5sums", "".join(sums))


def _maintainer() -> str:
    """Whoever builds it, as Debian's own tools ask."""
    name, address = os.environ.get("DEBFULLNAME"), os.environ.get("DEBEMAIL")
    return f"{name} <{address}>" if name and address else "queuegate maintainers <maintainers@queuegate.invalid>"


def _libc_needed(libraries: Path) -> str:
    """The least glibc that every library runs with, by the tags of the wheels that pip chose."""
    found = [(2, 17)]
    for description in libraries.glob("*.dist-info/WHEEL"):
        tags = re.findall(r"(?m)^Tag: \S*-manylinux_(\d+)_(\d+)_", description.read_text())
        if tags:  # a wheel may have several, of which any will do
            found.append(min((int(major), int(minor)) for major, minor in tags))
    return ".".join(map(str, max(found)))


def _settle(tree: Path) -> None:
    """Times and modes that do not depend on this machine."""
    epoch = int(_environment()["SOURCE_DATE_EPOCH"])
    for path in [tree, *sorted(tree.rglob("*"))]:
        if path.is_dir():
            path.chmod(0o755)
        elif LIBRARIES in path.relative_to(tree).parents:
            path.chmod(0o644)
        os.utime(path, (epoch, epoch))


def _environment() -> dict[str, str]:
    """SOURCE_DATE_EPOCH is the commit's time, unless it is set."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return dict(os.environ)
    shown = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    return {**os.environ, "SOURCE_DATE_EPOCH": shown or "315532800"}  # a tree without history: 1980, as zip begins


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def _compressed(path: Path, source: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(source.read_bytes(), 9, mtime=0))
    path.chmod(0o644)


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    """Build where dpkg-deb is; the exit code."""
    if shutil.which("dpkg-deb") is None or platform.system() != "Linux":
        print("dpkg-deb is needed; on Debian it is in the package dpkg", file=sys.stderr)
        return 1
    print(build(Path(sys.argv[1] if len(sys.argv) > 1 else "dist")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
