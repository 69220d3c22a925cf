"""The suites that can be compared: where each comes from, what its database needs, and how it is run.

A suite's `prepare` fetches what is missing; `run` runs it once against a server's address in a folder of its own and
returns the outcomes. Accounts and databases are those that the project's own continuous integration makes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from outcomes import Run, read_go, read_results
from sources import Cache, Unavailable, fresh_copy

RECORDERS = Path(__file__).parent / "recorders"
SUITE_SECONDS = 3600  # the longest suite takes a third of it; one that hangs must end some day
COMPLIANCE = "test/dialect/test_suite.py"
_ONE_SCHEMA = """
for _name in ("schemas", "cross_schema_fk_reflection"):
    setattr(DefaultRequirements, _name, property(lambda self: exclusions.closed()))
"""
_SERVER_IN_ID = re.compile(r"_(?:mysql|mariadb)\+(\w+?)_\d+_\d+_\d+::")  # a class's name, in SQLAlchemy's suite
TEST_SECONDS = 120  # so that one test that hangs costs its own outcome and not the whole suite's


@dataclass(frozen=True)
class Target:
    """Where a run connects: the server itself, or the proxy before it; with the server's own socket where there is one.

    The embedded backend has one database and, with nothing configured, one account: root with an empty password.
    """

    port: int
    socket: Path
    host: str = "127.0.0.1"
    embedded: bool = False

    def database(self, own: str) -> str:
        """The database to use in place of the suite's own."""
        return "main" if self.embedded else own

    def account(self, user: str, password: str) -> tuple[str, str]:
        """The user and password to use in place of the suite's own."""
        return ("root", "") if self.embedded else (user, password)


class Suite(Protocol):
    """One driver's own tests."""

    name: str
    setup: Sequence[str]  # statements for the fresh server, run by its root
    options: Sequence[str]  # further ones for mariadbd
    embeddable: bool  # whether it can be run with one database and one account

    def prepare(self, cache: Cache) -> str:
        """Fetch what is needed; returns what was fetched, as name and version."""
        ...

    def run(self, target: Target, folder: Path, only: Sequence[str]) -> Run:
        """Run it once; `only` names tests, in the words of its own runner."""
        ...


_ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
"""A suite has plugins of its own, and is not to be run by the options that our own tests are run by."""


def _call(command: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path) -> None:
    """Run a suite's own runner to its end; what it prints goes to a file beside the results."""
    with log.open("ab") as output:
        try:
            subprocess.run(
                command, cwd=folder, env={**_ENVIRONMENT, **environment}, stdout=output, stderr=output,
                stdin=subprocess.DEVNULL, timeout=SUITE_SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            output.write(b"\n-- ended: it ran longer than a suite may --\n")


def _pytest(python: Path, source: Path, folder: Path, arguments: Sequence[str], **environment: str) -> Run:
    results = folder / "results.jsonl"
    _call(
        [str(python), "-m", "pytest", "-p", "suite_recorder", "-p", "no:cacheprovider", "-q", "--tb=short",
         f"--timeout={TEST_SECONDS}", *arguments],
        source, {"SUITE_RESULTS": str(results), "PYTHONPATH": str(RECORDERS), **environment}, folder / "log",
    )  # fmt: skip
    return read_results(results)


def _unittest(command: Sequence[str], source: Path, folder: Path, path: str) -> Run:
    results = folder / "results.jsonl"
    _call(
        command, source,
        {"SUITE_RESULTS": str(results), "SUITE_UNITTEST": "1", "PYTHONPATH": f"{RECORDERS}{os.pathsep}{path}"},
        folder / "log",
    )  # fmt: skip
    return read_results(results)


class PyMySql:
    """PyMySQL's own tests, with the accounts and databases of its continuous integration.

    The newest source distribution with tests in it is an old one, so the repository is preferred.
    """

    name = "pymysql"
    embeddable = True
    options = ("--character-set-server=utf8mb4",)
    setup = (
        "CREATE DATABASE test1 DEFAULT CHARACTER SET utf8mb4",
        "CREATE DATABASE test2 DEFAULT CHARACTER SET utf8mb4",
        "CREATE USER test2 IDENTIFIED BY 'some password'",
        "GRANT ALL ON test2.* TO test2",
        "CREATE USER test2@localhost IDENTIFIED BY 'some password'",
        "GRANT ALL ON test2.* TO test2@localhost",
        "INSTALL SONAME 'auth_ed25519'",
        "CREATE FUNCTION ed25519_password RETURNS STRING SONAME 'auth_ed25519.so'",
    )

    def prepare(self, cache: Cache) -> str:
        self._python = cache.environment(self.name, ["pytest", "pytest-timeout", "cryptography", "PyNaCl"])
        try:
            self._source = cache.checkout("PyMySQL/PyMySQL", "v1.2.0")
            self._words = ("password", "database")
            return "PyMySQL 1.2.0"
        except Unavailable:
            self._source = cache.sdist("pymysql", "0.10.1")
            self._words = ("passwd", "db")
            return "PyMySQL 0.10.1 (the newest on PyPI with its tests)"

    def run(self, target: Target, folder: Path, only: Sequence[str]) -> Run:
        source = fresh_copy(self._source, folder / "source")
        root = {"host": target.host, "port": target.port, "user": "root", self._words[0]: "", "use_unicode": True,
                self._words[1]: target.database("test1"), "local_infile": True}  # fmt: skip
        user, password = target.account("test2", "some password")
        other = {"host": target.host, "port": target.port, "user": user, self._words[0]: password,
                 self._words[1]: target.database("test2")}  # fmt: skip
        (source / "pymysql/tests/databases.json").write_text(json.dumps([root, other, other]))
        return _pytest(self._python, source, folder, only or ["pymysql"])


class SqlAlchemy:
    """SQLAlchemy's own tests by one driver: the compliance suite for dialects, those of the MySQL dialect, or more."""

    embeddable = True
    options = ("--character-set-server=utf8mb4", "--collation-server=utf8mb4_unicode_ci")
    setup = (
        "CREATE DATABASE test CHARACTER SET utf8mb4",
        "CREATE DATABASE test_schema CHARACTER SET utf8mb4",
        "CREATE USER scott@'%' IDENTIFIED BY 'tiger'",
        "GRANT ALL ON *.* TO scott@'%'",
    )
    drivers: Mapping[str, Sequence[str]] = {
        "pymysql": ["pymysql"],
        "mysqlconnector": ["mysql-connector-python>=9,<10"],
        "asyncmy": ["asyncmy", "greenlet"],
        "aiomysql": ["aiomysql", "greenlet"],
        "mysqldb": ["mysqlclient"],
    }

    def __init__(self, driver: str, name: str = "", tests: Sequence[str] = (COMPLIANCE, "test/dialect/mysql")) -> None:
        self.name = f"sqlalchemy-{name or driver}"
        self._driver = driver
        self._tests = tests

    def prepare(self, cache: Cache) -> str:
        version = "2.1.9"
        packages = ["pytest", "pytest-timeout", f"sqlalchemy=={version}", *self.drivers[self._driver]]
        self._python = cache.environment(f"sqlalchemy-{self._driver}", packages)
        self._source = cache.sdist("sqlalchemy", version)
        return f"SQLAlchemy {version}, {packages[-1] if len(packages) == 4 else packages[3]}"

    def run(self, target: Target, folder: Path, only: Sequence[str]) -> Run:
        source = fresh_copy(self._source, folder / "source")
        user, password = target.account("scott", "tiger")
        place = f"{target.host}:{target.port}/{target.database('test')}"
        url = f"mysql+{self._driver}://{user}:{password}@{place}?charset=utf8mb4"
        if target.embedded:
            requirements = source / "test/requirements.py"
            requirements.write_text(requirements.read_text() + _ONE_SCHEMA)
        run = _pytest(self._python, source, folder, [*(only or self._tests), "--dburi", url, "--maxfail=100000"])
        return {_SERVER_IN_ID.sub(r"_\1::", test): outcome for test, outcome in run.items()}


class GoSqlDriver:
    """go-sql-driver/mysql, the whole of it: unit tests and tests against a server."""

    name = "go-sql-driver"
    embeddable = False
    # One of its tests opens as many connections as there may be, all at once; a busy server resets some of 2000.
    options = ("--character-set-server=utf8mb4", "--max-connections=300")
    setup = ("CREATE DATABASE gotest",)
    elsewhere = "TestConnectorReturnsTimeout"  # dials an address of the internet, and where there is none it panics

    def prepare(self, cache: Cache) -> str:
        self._source = cache.go_module("github.com/go-sql-driver/mysql", "v1.10.1")
        return "go-sql-driver/mysql 1.10.1"

    def run(self, target: Target, folder: Path, only: Sequence[str]) -> Run:
        source = fresh_copy(self._source, folder / "source")
        log = folder / "log"
        _call(
            ["go", "test", "-json", "-timeout", f"{SUITE_SECONDS}s", "-skip", self.elsewhere,
             *(["-run", *only] if only else []), "./..."],
            source,
            {"MYSQL_TEST_USER": "root", "MYSQL_TEST_PASS": "", "MYSQL_TEST_DBNAME": "gotest", "MYSQL_TEST_PROT": "tcp",
             "MYSQL_TEST_CONCURRENT": "1", "MYSQL_TEST_ADDR": f"{target.host}:{target.port}"},
            log,
        )  # fmt: skip
        return read_go(log.read_text(errors="replace").splitlines())


class MySqlClient:
    """mysqlclient (MySQLdb), the C driver of most Django installations."""

    name = "mysqlclient"
    embeddable = True
    options = ("--character-set-server=utf8mb4",)
    setup = ("CREATE DATABASE mysqldb_test CHARACTER SET utf8mb4",)

    def prepare(self, cache: Cache) -> str:
        self._source = cache.checkout("PyMySQL/mysqlclient", "v2.2.8")
        self._python = cache.environment(self.name, ["pytest", "pytest-timeout", "mysqlclient==2.2.8"])
        return "mysqlclient 2.2.8"

    def run(self, target: Target, folder: Path, only: Sequence[str]) -> Run:
        source = fresh_copy(self._source, folder / "source")
        (source / "tests/here.cnf").write_text(
            f"[MySQLdb-tests]\nhost = {target.host}\nport = {target.port}\nuser = root\n"
            f"database = {target.database('mysqldb_test')}\ndefault-character-set = utf8mb4\n"
        )
        return _pytest(self._python, source, folder, only or ["tests"], TESTDB="here.cnf")


class AioMySql:
    """aiomysql's own tests. They insist on TLS over TCP, which this server does not have: that line is taken out."""

    name = "aiomysql"
    embeddable = True
    options = ("--character-set-server=utf8mb4",)
    setup = ()

    def prepare(self, cache: Cache) -> str:
        packages = ["pytest<8", "pytest-timeout", "aiomysql==0.3.2", "pymysql<1.2", "uvloop", "sqlalchemy<1.5"]
        self._python = cache.environment(self.name, packages)
        self._source = cache.sdist("aiomysql", "0.3.2")
        return "aiomysql 0.3.2"

    def run(self, target: Target, folder: Path, only: Sequence[str]) -> Run:
        source = fresh_copy(self._source, folder / "source")
        conftest = source / "tests/conftest.py"
        text = conftest.read_text().replace('server_params["ssl"] = ctx', "")
        text = text.replace("if not unix_socket:\n                cursor", "if False:\n                cursor")
        if target.embedded:
            text = re.sub(r"cursor\.execute\(\s*'(DROP|CREATE) DATABASE[^)]*\)", "pass", text)
            text = text.replace("db='mysql'", "db='main'").replace('if db_type == "mysql"', "if False")
        conftest.write_text(text)
        return _pytest(
            self._python, source, folder, [*(only or ["tests"]), f"--mysql-address={target.host}:{target.port}"],
            MYSQL_DB=target.database("test_pymysql"),
        )  # fmt: skip


class AsyncMy:
    """asyncmy's own tests."""

    name = "asyncmy"
    embeddable = False
    options = ("--character-set-server=utf8mb4",)
    setup = ("CREATE USER tester@'%' IDENTIFIED BY '123456'", "GRANT ALL ON *.* TO tester@'%'")

    def prepare(self, cache: Cache) -> str:
        self._source = cache.checkout("long2ice/asyncmy", "v0.2.11")
        packages = [
            "pytest<8",
            "pytest-timeout",
            "pytest-asyncio==0.21.2",
            "pytest-mock",
            "asyncmy==0.2.11",
            "cryptography",
        ]
        self._python = cache.environment(self.name, packages)
        return "asyncmy 0.2.11"

    def run(self, target: Target, folder: Path, only: Sequence[str]) -> Run:
        source = fresh_copy(self._source, folder / "source")
        (source / "asyncmy").rename(source / "asyncmy-source")  # the installed package is what is tested
        for file in (source / "conftest.py", *(source / "tests").glob("*.py")):
            text = file.read_text().replace("port=3306", f"port={target.port}").replace('user="root"', 'user="tester"')
            file.write_text(text)
        return _pytest(self._python, source, folder, only or ["tests"])


class Django:
    """Django's own tests on its MySQL backend: those parts of them that are about the database."""

    embeddable = False
    options = ("--character-set-server=utf8mb4", "--innodb-flush-log-at-trx-commit=0")
    setup = ("CREATE USER scott@'%' IDENTIFIED BY 'tiger'", "GRANT ALL ON *.* TO scott@'%'",
             "CREATE DATABASE django_default", "CREATE DATABASE django_other")  # fmt: skip
    labels = (
        "backends transactions transaction_hooks inspectdb introspection schema migrations basic aggregation "
        "annotations expressions expressions_window lookup select_for_update datatypes db_functions bulk_create "
        "raw_query dbshell queries model_fields datetimes timezones update delete constraints indexes "
        "get_or_create fixtures "
    )

    def __init__(self, driver: str) -> None:
        self.name = f"django-{driver}"
        self._driver = driver

    def prepare(self, cache: Cache) -> str:
        packages = [
            "django==5.2.19",
            self._driver,
            "tblib",
            "sqlparse",
            "jinja2",
            "pyyaml",
            "tzdata",
            "pillow",
            "docutils",
        ]
        self._python = cache.environment(self.name, [*packages, "cryptography"])
        self._source = cache.sdist("django", "5.2.19")
        return f"Django 5.2.19, {self._driver}"

    def run(self, target: Target, folder: Path, only: Sequence[str]) -> Run:
        source = fresh_copy(self._source, folder / "source")
        one = {"ENGINE": "django.db.backends.mysql", "HOST": target.host, "PORT": target.port, "USER": "scott",
               "PASSWORD": "tiger", "TEST": {"CHARSET": "utf8mb4"}}  # fmt: skip
        databases = {"default": {**one, "NAME": "django_default"}, "other": {**one, "NAME": "django_other"}}
        lines = [] if self._driver == "mysqlclient" else ["import pymysql", "pymysql.install_as_MySQLdb()"]
        lines += [f"DATABASES = {databases!r}", "SECRET_KEY = 'any'", "USE_TZ = False",
                  "PASSWORD_HASHERS = ['django.contrib.auth.hashers.MD5PasswordHasher']",
                  "DEFAULT_AUTO_FIELD = 'django.db.models.AutoField'"]  # fmt: skip
        (source / "tests/here.py").write_text("\n".join(lines) + "\n")
        return _unittest(
            [str(self._python), "runtests.py", "--settings=here", "--parallel=1", "--noinput",
             *(only or self.labels.split())],
            source / "tests", folder, str(source),
        )  # fmt: skip


class MySqlConnectorPython:
    """mysql-connector-python's own tests. Made for MySQL, so many fail on MariaDB, either way."""

    name = "mysql-connector-python"
    embeddable = False
    options = ("--character-set-server=utf8mb4",)
    setup = ("CREATE DATABASE myconnpy",)

    def prepare(self, cache: Cache) -> str:
        self._python = cache.environment(self.name, ["mysql-connector-python==9.7.0", "cryptography"])
        self._source = cache.sdist("mysql-connector-python", "9.7.0")
        return "mysql-connector-python 9.7.0"

    def run(self, target: Target, folder: Path, only: Sequence[str]) -> Run:
        source = fresh_copy(self._source, folder / "source")
        return _unittest(
            [str(self._python), "unittests.py", "--use-external-server", f"--host={target.host}",
             f"--port={target.port}", "--user=root", "--skip-install", *only],
            source, folder, str(source),
        )  # fmt: skip


class Peewee:
    """peewee's own tests on MySQL."""

    name = "peewee"
    embeddable = True
    options = ("--character-set-server=utf8mb4",)
    setup = ("CREATE DATABASE peewee_test CHARACTER SET utf8mb4",)

    def prepare(self, cache: Cache) -> str:
        self._source = cache.checkout("coleifer/peewee", "4.3.0")
        self._python = cache.environment(self.name, ["pymysql", "cryptography"])
        return "peewee 4.3.0, pymysql"

    def run(self, target: Target, folder: Path, only: Sequence[str]) -> Run:
        source = fresh_copy(self._source, folder / "source")
        base = source / "tests/base.py"
        base.write_text(base.read_text().replace("peewee_test'", f"{target.database('peewee_test')}'"))
        return _unittest(
            [str(self._python), "runtests.py", "-e", "mysql", f"--mysql-host={target.host}",
             f"--mysql-port={target.port}", "--mysql-user=root", *only],
            source, folder, str(source),
        )  # fmt: skip


SUITES: Sequence[Suite] = (
    PyMySql(),
    SqlAlchemy("pymysql", "compliance", [COMPLIANCE]),
    *(SqlAlchemy(driver) for driver in SqlAlchemy.drivers),
    SqlAlchemy("pymysql", "everything", ["test", "--backend-only"]),
    GoSqlDriver(),
    MySqlClient(),
    AioMySql(),
    AsyncMy(),
    Django("mysqlclient"),
    Django("pymysql"),
    MySqlConnectorPython(),
    Peewee(),
)
