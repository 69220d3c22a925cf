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


REACTIVE_JARS = (
    Jar(
        "com.fasterxml.jackson.core", "jackson-core", "2.18.6",
        "e7e1bfa50f0a79db37e6aa37db111cf03aebf4a484b359d21127ab43ab2398c6",
    ),
    Jar(
        "io.netty", "netty-buffer", "4.1.133.Final",
        "386d560b5eb8fa5317190c67be1b657e33163eeecd0b25ab36a15bdf235ff204",
    ),
    Jar(
        "io.netty", "netty-codec", "4.1.133.Final",
        "65d9fd0b5ae80ddda532b3a98bf5adbd4f34ec6ae19ba2439eab2ed3d6d79c5a",
    ),
    Jar(
        "io.netty", "netty-codec-dns", "4.1.133.Final",
        "b0ad104c6281ed101ea5d9b511f9bd5ba7ff92e9b240ca799f4597f7b8ce4d92",
    ),
    Jar(
        "io.netty", "netty-codec-http", "4.1.133.Final",
        "cb82f9fd12d9cd3c3bf2306080e2230a29fcddaab388fc8a36bd7b2c7e1e49ec",
    ),
    Jar(
        "io.netty", "netty-codec-http2", "4.1.133.Final",
        "0e07715264db137a41b75aa3733b7bb5ab597403abb9668385ea776692ee41d0",
    ),
    Jar(
        "io.netty", "netty-codec-socks", "4.1.133.Final",
        "83a031b42f7b577cd38726ebcc769a3dfc0a904a1b426041c34f2c9784a2a682",
    ),
    Jar(
        "io.netty", "netty-common", "4.1.133.Final",
        "799930f8e36ea3611f90372f1ed54c212aee8ae70bf38bdf082417d6db672b0a",
    ),
    Jar(
        "io.netty", "netty-handler", "4.1.133.Final",
        "b468863c1b0fd13ba20f8b1a2b04f8f23d3d6bb50ee3003d372fd8ec7eb87265",
    ),
    Jar(
        "io.netty", "netty-handler-proxy", "4.1.133.Final",
        "562c8c851983a0913bcfe2044da774c677dc98afb910891a66b01401eadf0c3c",
    ),
    Jar(
        "io.netty", "netty-resolver", "4.1.133.Final",
        "8b9ee3129bd6f8d0b5b09007b4e41e78c6ea63f18a8d33cb171455ffabcda10e",
    ),
    Jar(
        "io.netty", "netty-resolver-dns", "4.1.133.Final",
        "16ea68b2ae21e0181e9bb30e71424c189a28648ab880e86d0934b3da7481228f",
    ),
    Jar(
        "io.netty", "netty-transport", "4.1.133.Final",
        "9895abfebf5cb8c185e4534f3936759d7ecd133353cef18d2ae9ae3c58845142",
    ),
    Jar(
        "io.netty", "netty-transport-classes-epoll", "4.1.133.Final",
        "d21448bca3a3691437e88e974f24a36270783a62a79eff3a615fb6f730d6714b",
    ),
    Jar(
        "io.netty", "netty-transport-native-unix-common", "4.1.133.Final",
        "75681c3be01ff3c5bb6a39a7583e70289f64fd926e4fc29859ce9cf223ad99fc",
    ),
    Jar(
        "io.asyncer", "r2dbc-mysql", "1.4.3",
        "ba6056769982a1f8c3ba3b8d6f8ecaa54d9992917df82ac720595cf1ca3b3a74",
    ),
    Jar(
        "io.r2dbc", "r2dbc-spi", "1.0.0.RELEASE",
        "a5846c59fea336431a4ae72ca14edbf5299b78486fa308eafb383f4ae0ea74e5",
    ),
    Jar(
        "org.reactivestreams", "reactive-streams", "1.0.4",
        "f75ca597789b3dac58f61857b9ac2e1034a68fa672db35055a8fb4509e325f28",
    ),
    Jar(
        "io.projectreactor", "reactor-core", "3.7.3",
        "47f446f44bd1b6816ef9bf5c3ba9eae55441fbb089828f1307a39504455749a8",
    ),
    Jar(
        "io.projectreactor.netty", "reactor-netty-core", "1.2.3",
        "e36fb3d2acf48c6194ac3f037249bc021ef9773eecda5b0ad76809e0176f3d06",
    ),
    Jar(
        "io.vertx", "vertx-core", "4.5.27",
        "8f411bfed688e27a9fdd01a0d86f19e37b91845af76f1a4a6810cabc61f3cd46",
    ),
    Jar(
        "io.vertx", "vertx-mysql-client", "4.5.27",
        "c8e35a53aad6ab7ed724629f74a80deab1847c7d6c7280c3af32db968ecf9768",
    ),
    Jar(
        "io.vertx", "vertx-sql-client", "4.5.27",
        "99a88f2f6c3db5c87f03b2e25ac54db405a9133643466225feda2b1bd4957871",
    ),
)  # fmt: skip
"""r2dbc-mysql and Vert.x's client, with what they are built on."""


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


def reactive(folder: Path) -> Program:
    """The reactive Java client with both drivers on its class path. What they log goes to stderr from WARNING on."""
    compiler, machine = tool("javac", "default-jdk-headless"), tool("java", "default-jdk-headless")
    drivers = [str(path) for path in map(fetched, REACTIVE_JARS)]
    sources = [str(path) for path in sorted((PROGRAMS / "reactive").glob("*.java"))]
    options = ["-encoding", "UTF-8", "-Xlint:all,-classfile", "-Werror", "-cp", os.pathsep.join(drivers)]
    _run([compiler, *options, "-d", str(folder), *sources], "the reactive client does not compile", BUILD_SECONDS)
    logging = f"-Djava.util.logging.config.file={PROGRAMS / 'reactive' / 'logging.properties'}"
    class_path = os.pathsep.join([str(folder), *drivers])
    return Program((machine, *_JAVA_OPTIONS, logging, "-cp", class_path, "Main"))


def jdbc_drivers() -> list[Path]:
    """The files of both JDBC drivers: MySQL Connector/J and MariaDB Connector/J."""
    return [fetched(jar) for jar in JARS]


def go(folder: Path, source: Path = PROGRAMS / "go") -> Program:
    """The Go client; its module's go.sum pins the driver."""
    compiler = tool("go", "golang-go")
    environment = {"GOFLAGS": "-mod=readonly -buildvcs=false", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
    _fetch([compiler, "mod", "download"], source, environment)
    _run(
        [compiler, "build", "-o", str(folder / "client"), "."],
        "the Go client does not compile", BUILD_SECONDS, source, environment,
    )  # fmt: skip
    return Program((str(folder / "client"),))


def go_compressed(folder: Path) -> Program:
    """The Go client that asks for compression. Its driver wants Go 1.21, which Debian 12 lacks."""
    version = _call([tool("go", "golang-go"), "env", "GOVERSION"], FETCH_SECONDS, folder, None).stdout.strip()
    if tuple(int(part) for part in version.removeprefix("go").split(".")[:2]) < (1, 21):
        pytest.skip(f"{version} is too old for a driver of Go's that compresses")
    return go(folder, PROGRAMS / "go_compressed")


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
    """What `downloaded` returns, or the end of this test."""
    try:
        return downloaded(jar)
    except OSError as error:
        missing(f"{jar.url} cannot be fetched ({error})")


def downloaded(jar: Jar) -> Path:
    """A file of Maven Central, fetched once; the file that was pinned, or none. OSError: it cannot be fetched."""
    kept = cache() / f"{jar.name}-{jar.version}.jar"
    if not kept.exists():
        with urllib.request.urlopen(jar.url, timeout=FETCH_SECONDS) as answer:
            content: bytes = answer.read()
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
