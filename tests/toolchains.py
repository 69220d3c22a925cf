"""Toolchains and drivers of other languages for the client tests: found, fetched once at pinned versions, and built.

What is fetched is kept in a cache outside the tree (QUEUEGATE_TEST_CACHE, or queuegate-tests in the user's cache). A
toolchain or a registry that is missing is a skip at a desk and a failure in CI; every step has a timeout.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import pytest
from servers import find_binary

PROGRAMS = Path(__file__).parent / "integration"
MAVEN = "https://repo1.maven.org/maven2"
FETCH_SECONDS = 180
BUILD_SECONDS = 400  # the first `go build` of a machine compiles Go's own library too
_JAVA_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx512m", "-Dfile.encoding=UTF-8")


@dataclass(frozen=True)
class Jar:
    """A driver on Maven Central."""

    group: str
    name: str
    version: str
    sha256: str

    @property
    def url(self) -> str:
        return f"{MAVEN}/{self.group.replace('.', '/')}/{self.name}/{self.version}/{self.name}-{self.version}.jar"


JARS = (
    Jar(
        "com.mysql", "mysql-connector-j", "9.7.0",
        "0353648eaa1c91e0f4020c959abf756bc866ffd583df22ae6b6f6e0cbd43eb44",
    ),
    Jar(
        "org.mariadb.jdbc", "mariadb-java-client", "3.5.11",
        "42604178b9e57ec08ee0035079961516f086e455d0141f0b22c6eff29fb2fff4",
    ),
)  # fmt: skip

POOL_JARS = (
    Jar(
        "com.zaxxer", "HikariCP", "7.1.0",
        "2be45c641b841e81df87292e181f2c203500c5f0e9a1676f135927387f3cf40b",
    ),
    Jar(
        "org.slf4j", "slf4j-api", "2.0.16",
        "a12578dde1ba00bd9b816d388a0b879928d00bab3c83c240f7013bf4196c579a",
    ),
    Jar(
        "org.slf4j", "slf4j-nop", "2.0.16",
        "deca6c04ed35515a0a911fa44c0e836bee92c0c59d2e8fa9bab8ffbc464a9ba7",
    ),
)  # fmt: skip
"""HikariCP, and what it logs with."""


@dataclass(frozen=True)
class Program:
    """A client program, ready to run: its command line without the arguments that every program takes."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


def missing(reason: str) -> NoReturn:
    """Ends the test: these promises are not tested here."""
    reason = f"{reason}: promises about it are NOT tested"
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def tool(name: str, package: str) -> str:
    """Where a program is; `package` is Debian's."""
    found = find_binary(name)
    return found or missing(f"{name} is not installed (Debian: {package})")


def cache() -> Path:
    """Where downloads stay from one run to the next."""
    given = os.environ.get("QUEUEGATE_TEST_CACHE")
    base = (
        Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "queuegate-tests"
    )
    base.mkdir(parents=True, exist_ok=True)
    return base


def java(folder: Path) -> Program:
    """The Java client with both drivers and a pool on its class path."""
    compiler, machine = tool("javac", "default-jdk-headless"), tool("java", "default-jdk-headless")
    drivers = [str(path) for path in (*jdbc_drivers(), *map(fetched, POOL_JARS))]
    sources = [str(path) for path in sorted((PROGRAMS / "java").glob("*.java"))]
    options = ["-encoding", "UTF-8", "-Xlint:all", "-Werror", "-cp", os.pathsep.join(drivers), "-d", str(folder)]
    _run([compiler, *options, *sources], "the Java client does not compile", BUILD_SECONDS)
    return Program((machine, *_JAVA_OPTIONS, "-cp", os.pathsep.join([str(folder), *drivers]), "Main"))


def jdbc_drivers() -> list[Path]:
    """The files of both JDBC drivers: MySQL Connector/J and MariaDB Connector/J."""
    return [fetched(jar) for jar in JARS]


def go(folder: Path) -> Program:
    """The Go client; its module's go.sum pins the driver."""
    compiler = tool("go", "golang-go")
    environment = {"GOFLAGS": "-mod=readonly -buildvcs=false", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
    source = PROGRAMS / "go"
    _fetch([compiler, "mod", "download"], source, environment)
    _run(
        [compiler, "build", "-o", str(folder / "client"), "."],
        "the Go client does not compile", BUILD_SECONDS, source, environment,
    )  # fmt: skip
    return Program((str(folder / "client"),))


def node(folder: Path) -> Program:
    """The JavaScript client; package-lock.json pins the driver and what it needs."""
    machine, installer = tool("node", "nodejs"), tool("npm", "npm")
    source = PROGRAMS / "node"
    lock = source / "package-lock.json"
    modules = cache() / f"node-{hashlib.sha256(lock.read_bytes()).hexdigest()[:16]}"
    if not modules.exists():
        with tempfile.TemporaryDirectory(dir=cache()) as made:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(source / name, made)
            _fetch([installer, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], Path(made))
            kept_as(Path(made) / "node_modules", modules)
    return Program((machine, str(source / "main.js")), {"NODE_PATH": str(modules)})


def php(folder: Path) -> Program:
    """The PHP client; the drivers are extensions of the interpreter."""
    machine = tool("php", "php-cli php-mysql")
    modules = _call([machine, "-m"], FETCH_SECONDS, folder, None).stdout
    if not {"mysqli", "pdo_mysql"} <= set(modules.split()):
        missing("PHP has no mysqli and pdo_mysql (Debian: php-mysql)")
    return Program((machine, "-d", "mysqli.allow_local_infile=On", str(PROGRAMS / "php" / "main.php")))


def mysqlclient() -> Any:
    """The module MySQLdb, which is built from source on libmariadb."""
    try:
        return importlib.import_module("MySQLdb")
    except ImportError as error:
        missing(f"mysqlclient is not installed ({error}); Debian: libmariadb-dev, then pip install mysqlclient")


def fetched(jar: Jar) -> Path:
    """A file of Maven Central, fetched once; the file that was pinned, or none."""
    kept = cache() / f"{jar.name}-{jar.version}.jar"
    if not kept.exists():
        try:
            with urllib.request.urlopen(jar.url, timeout=FETCH_SECONDS) as answer:
                content: bytes = answer.read()
        except OSError as error:
            missing(f"{jar.url} cannot be fetched ({error})")
        assert hashlib.sha256(content).hexdigest() == jar.sha256, f"{jar.url} is not the file that was pinned"
        with tempfile.NamedTemporaryFile(dir=cache(), delete=False) as made:
            made.write(content)
        kept_as(Path(made.name), kept)
    return kept


def kept_as(made: Path, kept: Path) -> None:
    """Another run that fetches the same at the same time may have been first; both are the same."""
    try:
        made.rename(kept)
    except OSError:
        assert kept.exists()


def _fetch(command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> None:
    try:
        done = _call(command, FETCH_SECONDS, folder, environment)
    except subprocess.TimeoutExpired:
        missing(f"{' '.join(command)} did not end in {FETCH_SECONDS} s, is the registry out of reach?")
    if done.returncode:
        missing(f"{' '.join(command)} failed, is the registry out of reach?\n{done.stdout}{done.stderr}")


def _run(
    command: Sequence[str],
    what: str,
    seconds: float,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> None:
    done = _call(command, seconds, folder, environment)
    assert done.returncode == 0, f"{what}:\n{done.stdout}{done.stderr}"


def _call(
    command: Sequence[str], seconds: float, folder: Path | None, environment: Mapping[str, str] | None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env={**os.environ, **(environment or {})}, timeout=seconds,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
