"""Makes a release and does all but upload it: `python packaging/release.py FOLDER --ssh-key FILE` (or `--gpg-key ID`).

In this order, and the first that is not as it should be ends it with one line:

1. the tree has no changes, HEAD has the tag `v<version>`, CHANGELOG.md has a section for that version, and the extra
   `all` and the Helm chart, which name the version, too, name this one;
2. wheels and sdists of all distributions, the server's wheel with compiled parts, and the Debian package, with the
   commit's time in them: whoever builds the same commit with the same tools has the same bytes;
3. each has the same version, `twine check` finds nothing, a wheel can be built from each sdist, and in a fresh virtual
   environment the wheels install, a server of them starts, and a message goes through it: with compiled parts, and
   without;
4. what the server needs, with hashes, as pip takes it, and a list of all that is in an installation of it (SBOM, in the
   form of CycloneDX); the same of the extra `all`;
5. the digest of the base of images of this release, if it is given: it cannot be looked up here;
6. SHA256SUMS, signed, and the signature verified.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DISTRIBUTIONS = (".", *(f"packaging/queuegate-{name}" for name in ("spark", "worker", "celery", "django")))
SUMS = "SHA256SUMS"
CHART = "packaging/helm/queuegate/Chart.yaml"
NAMESPACE = "queuegate-release"  # of ssh-keygen -Y: a signature for something else is not taken for one of a release

_SMOKE = """
import pathlib, re, subprocess, sys, time
import pymysql
from queuegate_worker.testing.server import environment

def port(server):
    for line in server.stderr:
        if found := re.search(r"listening on 127\\.0\\.0\\.1:(\\d+)", line):
            return int(found[1])
    raise SystemExit("the server ended before it listened")

command = [str(pathlib.Path(sys.executable).with_name("queuegate")), "serve", "--listen", "127.0.0.1:0"]
with subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True) as server:
    try:
        db = pymysql.connect(host="127.0.0.1", port=port(server), user="root", database="main", autocommit=True)
        cursor = db.cursor()
        cursor.execute("CREATE QUEUE q (n INT)")
        cursor.execute("INSERT INTO q (n) VALUES (7)")
        cursor.execute("SELECT n FROM STREAM q LIMIT 1 WAIT 20")
        assert cursor.fetchall() == ((7,),)
        db.close()
    finally:
        server.terminate()
        server.communicate(timeout=60)
assert server.returncode == 0, server.returncode
import queuegate_worker.command, queuegate_celery, queuegate_django.options, spark_connector
"""


class NotReady(Exception):
    """Something is not as a release needs it; the text says what, and what to do."""


def version(root: Path = ROOT) -> str:
    """The version that pyproject.toml gives all distributions."""
    found: str = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    return found


def check_tree(root: Path = ROOT) -> None:
    """Step 1. Raises NotReady."""
    wanted = f"v{version(root)}"
    if changed := _git(root, "status", "--porcelain"):
        raise NotReady(f"the tree has changes ({changed.splitlines()[0].strip()}, ...); commit them first")
    if wanted not in _git(root, "tag", "--points-at", "HEAD").split():
        raise NotReady(f"this commit has no tag {wanted}; make it: git tag -s {wanted}")
    section = changes(version(root), (root / "CHANGELOG.md").read_text())
    if not section:
        raise NotReady(f"CHANGELOG.md has no section [{version(root)}] with its date; make one of [Unreleased]")
    for place, named in named_versions(root):
        if named != version(root):
            raise NotReady(f"{place} names version {named}; make it {version(root)}")


def named_versions(root: Path = ROOT) -> list[tuple[str, str]]:
    """Where the version is written once more, and what is written there."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    wanted = project.get("optional-dependencies", {}).get("all", [])
    pairs = [(name, found[2]) for name in wanted if (found := re.match(r"(queuegate-[^=]*)==(.*)", name))]
    named = [(f"the extra `all` of pyproject.toml ({name.partition('==')[0]})", of) for name, of in pairs]
    if (root / CHART).exists():
        keys = re.findall(r"(?m)^(version|appVersion): ([\w.]+)", (root / CHART).read_text())
        named += [(f"{key} in {CHART}", of) for key, of in keys]
    return named


def changes(of: str, changelog: str) -> str:
    """What the changelog says of a version; empty: nothing. The section has a date, as Keep a Changelog wants it."""
    head = rf"^## \[{re.escape(of)}\] - \d{{4}}-\d{{2}}-\d{{2}}$"
    found = re.search(rf"{head}\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


def build_python(folder: Path, root: Path = ROOT) -> list[Path]:
    """Wheels and sdists of all distributions."""
    for name in DISTRIBUTIONS:
        for target in ("sdist", "wheel"):
            _run([sys.executable, "-m", "hatchling", "build", "-t", target, "-d", folder.resolve()], root / name, root)
    return sorted([*folder.glob("*.whl"), *folder.glob("*.tar.gz")])


def build_compiled(folder: Path, root: Path = ROOT) -> Path:
    """The server's wheel with compiled parts, for this machine's Python and processor."""
    return Path(_run([sys.executable, root / "packaging/compiled.py", folder.resolve()], root, root).splitlines()[-1])


def build_debian(folder: Path, root: Path = ROOT) -> Path:
    """The Debian package for this machine's Python and processor."""
    _run([sys.executable, root / "packaging/debian/build.py", folder.resolve()], root, root)
    (made,) = folder.glob("*.deb")
    return made


def check_versions(files: Sequence[Path], root: Path = ROOT) -> None:
    """Raises NotReady where a file is of another version."""
    for file in files:
        if not re.search(rf"[-_]{re.escape(version(root))}(-|_|\.tar\.gz$)", file.name):
            raise NotReady(f"{file.name} is not of version {version(root)}")


def check_python(files: Sequence[Path], root: Path = ROOT) -> None:
    """What twine finds, and that a wheel can be built from each sdist alone."""
    _run([sys.executable, "-m", "twine", "check", "--strict", *files], root, root)
    for sdist in (file for file in files if file.name.endswith(".tar.gz")):
        with tempfile.TemporaryDirectory() as scratch:
            shutil.unpack_archive(sdist, scratch, filter="data")
            (source,) = Path(scratch).iterdir()
            _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", scratch], source, root)
            (built,) = Path(scratch).glob("*.whl")
            (shipped,) = (file for file in files if file.name == built.name)
            if built.read_bytes() != shipped.read_bytes():
                raise NotReady(f"the wheel built from {sdist.name} is not the one that is shipped")


def check_installed(files: Sequence[Path], root: Path = ROOT) -> None:
    """The wheels work in a virtual environment that has nothing else."""
    with tempfile.TemporaryDirectory() as scratch:
        _run([sys.executable, "-m", "venv", scratch], root, root)
        python = Path(scratch, "bin/python")
        wheels = [file.resolve() for file in files if file.suffix == ".whl"]
        _run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wheels], Path(scratch), root)
        said = _run([python, "-m", "queuegate", "--version"], Path(scratch), root)
        if said != f"queuegate {version(root)}":
            raise NotReady(f"the installed program says {said!r}")
        _run([python, "-c", _SMOKE], Path(scratch), root)


def list_dependencies(folder: Path, wheels: Sequence[Path], root: Path = ROOT, *, part: str = "") -> list[Path]:
    """Step 4: the lock file of an installation of these wheels, and the list of its components. `part`: what the names
    of both have for it, and that of the lock file in the tree: `-all`, or nothing for the server alone."""
    lock = folder / f"queuegate-{version(root)}{part}-requirements.txt"
    shutil.copyfile(root / f"packaging/requirements{part}.txt", lock)
    listed = folder / f"queuegate-{version(root)}{part}-sbom.cdx.json"
    with tempfile.TemporaryDirectory() as scratch:
        _run([sys.executable, "-m", "venv", "--without-pip", scratch], root, root)
        python = Path(scratch, "bin/python")
        install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--disable-pip-version-check"]
        _run([*install, "--require-hashes", "-r", lock.resolve()], Path(scratch), root)
        _run([*install, "--no-deps", "--no-index", *(wheel.resolve() for wheel in wheels)], Path(scratch), root)
        make = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible", "--of", "JSON"]
        _run([*make, "--pyproject", root / "pyproject.toml", "-o", listed.resolve(), python], root, root)
    return [lock, listed]


def name_image_base(folder: Path, base: str, root: Path = ROOT) -> Path:
    """Step 5: a file with the base of images of this release. Raises NotReady where it is not a digest."""
    if not re.fullmatch(r"[a-z0-9][\w.:/-]*@sha256:[0-9a-f]{64}", base):
        raise NotReady(f"the image's base is {base}, which can be another image tomorrow; give NAME@sha256:...")
    target = folder / f"queuegate-{version(root)}-image-base.txt"
    target.write_text(f"{base}\n")
    return target


def sums(folder: Path, files: Sequence[Path]) -> Path:
    """The file that `sha256sum --check` reads."""
    target = folder / SUMS
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(files)]
    target.write_text("".join(lines))
    return target


def sign_by_ssh(listed: Path, key: Path) -> Path:
    """Sign with an SSH key; the signature, which is verified."""
    target = listed.with_name(f"{listed.name}.sig")
    target.unlink(missing_ok=True)
    _run(["ssh-keygen", "-Y", "sign", "-q", "-n", NAMESPACE, "-f", key, listed], listed.parent)
    public = _run(["ssh-keygen", "-y", "-f", key], listed.parent)
    with tempfile.NamedTemporaryFile("w", suffix=".signers") as signers:
        signers.write(f"release {public}\n")
        signers.flush()
        verify = ["ssh-keygen", "-Y", "verify", "-n", NAMESPACE, "-I", "release", "-f", signers.name, "-s", target]
        _run(verify, listed.parent, said=listed.read_bytes())
    return target


def sign_by_gpg(listed: Path, key: str) -> Path:
    """Sign with a key of GnuPG's keyring; the signature, which is verified."""
    target = listed.with_name(f"{listed.name}.asc")
    target.unlink(missing_ok=True)
    _run(["gpg", "--batch", "--armor", "--local-user", key, "--output", target, "--detach-sign", listed], listed.parent)
    _run(["gpg", "--batch", "--verify", target, listed], listed.parent)
    return target


def release(
    folder: Path, ssh_key: Path | None, gpg_key: str | None, image_base: str | None = None, root: Path = ROOT
) -> list[Path]:
    """All steps; what is to be uploaded. Raises NotReady."""
    check_tree(root)
    if folder.exists() and any(folder.iterdir()):
        raise NotReady(f"{folder} is not empty, and what lies there is of another build; remove it")
    folder.mkdir(parents=True, exist_ok=True)
    base = [] if image_base is None else [name_image_base(folder, image_base, root)]
    packages = build_python(folder, root)
    compiled = build_compiled(folder, root)
    files = [*packages, compiled, build_debian(folder, root)]
    check_versions(files, root)
    check_python([*packages, compiled], root)
    check_installed(packages, root)
    check_installed([compiled, *(file for file in packages if not file.name.startswith("queuegate-"))], root)
    files += list_dependencies(folder, [_wheel(packages, "queuegate")], root)
    of_all = [_wheel(packages, name) for name in ("queuegate", "queuegate_worker", "queuegate_celery")]
    files += list_dependencies(folder, of_all, root, part="-all")
    files += base
    listed = sums(folder, files)
    made = [*files, listed]
    if ssh_key is not None:
        made.append(sign_by_ssh(listed, ssh_key.resolve()))
    if gpg_key is not None:
        made.append(sign_by_gpg(listed, gpg_key))
    return made


def _wheel(files: Sequence[Path], name: str) -> Path:
    (wheel,) = (file for file in files if file.name.startswith(f"{name}-") and file.suffix == ".whl")
    return wheel


def _git(root: Path, *arguments: str) -> str:
    return _run(["git", *arguments], root)


def _environment(root: Path) -> Mapping[str, str]:
    """Times in what is built are the commit's, and modules come from what is built."""
    passed = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {"SOURCE_DATE_EPOCH": _git(root, "log", "-1", "--format=%ct"), **passed}


def _run(command: Sequence[str | Path], cwd: Path, root: Path | None = None, said: bytes | None = None) -> str:
    """What it printed. `root`: it is a step of building that tree. Raises NotReady with its last words."""
    environment = None if root is None else _environment(root)
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, input=said, capture_output=True, check=False
    )
    if done.returncode:
        words = (done.stderr or done.stdout).decode(errors="replace").strip()[-1500:]
        raise NotReady(f"{Path(command[0]).name} {' '.join(map(str, command[1:4]))} failed: {words}")
    return done.stdout.decode(errors="replace").strip()


def main() -> int:
    """Make the release; the exit code."""
    parser = argparse.ArgumentParser(description="Build, check and sign a release.")
    parser.add_argument("folder", type=Path, help="where it is made; an empty folder, or none yet")
    parser.add_argument("--ssh-key", type=Path, metavar="FILE", help="sign with this private key, by ssh-keygen -Y")
    parser.add_argument("--gpg-key", metavar="ID", help="sign with this key of GnuPG's keyring")
    parser.add_argument(
        "--image-base", metavar="IMAGE@sha256:...", help="the base of images of this release, which its files then name"
    )
    parser.add_argument("--unsigned", action="store_true", help="to try it out: sign nothing")
    options = parser.parse_args()
    if not (options.ssh_key or options.gpg_key or options.unsigned):
        parser.error("a release is signed: give --ssh-key FILE or --gpg-key ID, or --unsigned to try it out")
    try:
        made = release(options.folder, options.ssh_key, options.gpg_key, options.image_base)
    except NotReady as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    print(*made, sep="\n")
    if options.image_base is None:
        print("\nno base of images is named by its digest: docs/releases.md, What it is built of", file=sys.stderr)
    print(f"\nversion {version()} is ready to be uploaded; its changes:\n", file=sys.stderr)
    print(changes(version(), (ROOT / "CHANGELOG.md").read_text()), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
