"""The wheels: what they put into an environment, and that each works alone, beside packages of the same names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest
from servers import ROOT, wait_until

pytestmark = pytest.mark.long

DISTRIBUTIONS = {
    "queuegate": ROOT,
    "queuegate_spark": ROOT / "packaging/queuegate-spark",
    "queuegate_worker": ROOT / "packaging/queuegate-worker",
    "queuegate_celery": ROOT / "packaging/queuegate-celery",
    "queuegate_django": ROOT / "packaging/queuegate-django",
}
SITE = sysconfig.get_paths()["purelib"]


SERVER = ("console", "proxy", "embedded", "rewriter", "mysql_wire", "engine", "mysql_client")
"""Packages that lie below `queuegate` in a wheel."""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> dict[str, Path]:
    """All of them, built without the network."""
    made = {}
    for name, folder in DISTRIBUTIONS.items():
        target = tmp_path_factory.mktemp(name)
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", target]
        subprocess.run(command, cwd=folder, check=True)
        (made[name],) = target.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheels, tmp_path_factory) -> dict[str, Path]:
    """A folder for each wheel, as pip unpacks it."""
    folders = {}
    for name, wheel in wheels.items():
        folders[name] = tmp_path_factory.mktemp(f"{name}-installed")
        zipfile.ZipFile(wheel).extractall(folders[name])
    return folders


def environment(*folders: Path | str) -> dict[str, str]:
    """An environment with these folders and the libraries that this one has, without the repository."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*folders, SITE)))}


def run(program: str, *folders: Path | str, cwd: Path) -> str:
    command = [sys.executable, "-S", "-c", program]  # -S: no .pth file, which would lead to the repository
    done = subprocess.run(command, cwd=cwd, env=environment(*folders), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def names(wheel: Path) -> set[str]:
    """What lies at the top of it, but for the description of the distribution and the man page."""
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    return {name for name in tops if not name.endswith((".dist-info", ".data"))}


def test_a_wheel_puts_its_own_names_into_an_environment_and_no_others(wheels):
    # The server's has the connector, too: its extra `spark` is to bring it.
    assert names(wheels["queuegate"]) == {"queuegate", "spark_connector", "pyspark_queuegate.py"}
    assert names(wheels["queuegate_spark"]) == {"spark_connector", "pyspark_queuegate.py"}
    assert names(wheels["queuegate_worker"]) == {"queuegate_worker"}
    assert names(wheels["queuegate_celery"]) == {"queuegate_celery"}
    assert names(wheels["queuegate_django"]) == {"queuegate_django"}
    assert not [
        name for wheel in wheels.values() for name in zipfile.ZipFile(wheel).namelist() if "__pycache__" in name
    ]


def test_every_module_is_in_a_wheel(wheels):
    server = set(zipfile.ZipFile(wheels["queuegate"]).namelist())
    for package in SERVER:
        for path in (ROOT / package).rglob("*.py"):
            assert f"queuegate/_server/{path.relative_to(ROOT)}" in server
    for folder in ("static", "templates"):
        for path in (ROOT / "console" / folder).iterdir():
            assert f"queuegate/_server/{path.relative_to(ROOT)}" in server
    connector = set(zipfile.ZipFile(wheels["queuegate_spark"]).namelist())
    for path in (ROOT / "spark_connector").rglob("*.py"):
        assert str(path.relative_to(ROOT)) in connector and str(path.relative_to(ROOT)) in server
    worker = set(zipfile.ZipFile(wheels["queuegate_worker"]).namelist())
    for path in (ROOT / "queuegate_worker").rglob("*.py"):
        assert str(path.relative_to(ROOT)) in worker
    celery = set(zipfile.ZipFile(wheels["queuegate_celery"]).namelist())
    for path in (ROOT / "queuegate_celery").rglob("*.py"):
        assert str(path.relative_to(ROOT)) in celery
    django = set(zipfile.ZipFile(wheels["queuegate_django"]).namelist())
    for path in (ROOT / "queuegate_django").rglob("*.py"):
        assert str(path.relative_to(ROOT)) in django
    for path in (ROOT / "mysql_client").iterdir():  # a link in the folders of its users
        if path.suffix == ".py":
            assert f"spark_connector/mysql_client/{path.name}" in connector & server
            assert f"queuegate_worker/mysql_client/{path.name}" in worker
            assert f"queuegate_celery/mysql_client/{path.name}" in celery


def test_the_wheel_writes_the_configuration(installed, stranger, tmp_path):
    where = environment(stranger, installed["queuegate"])
    command = [sys.executable, "-S", "-m", "queuegate", "init", "-"]
    done = subprocess.run(command, cwd=tmp_path, env=where, capture_output=True, text=True, check=True)
    assert done.stdout == (ROOT / "config.yaml").read_text()


def test_all_have_one_version(wheels):
    assert len({re.search(r"-(\d[^-]*)-", wheel.name)[1] for wheel in wheels.values()}) == 1


@pytest.fixture
def stranger(tmp_path) -> Path:
    """Another distribution's packages of the same names, found first."""
    for name in SERVER:
        (tmp_path / "others" / name).mkdir(parents=True)
        (tmp_path / "others" / name / "__init__.py").write_text("OTHER = True\n")
    return tmp_path / "others"


@pytest.fixture
def server(installed, stranger, tmp_path) -> Iterator[int]:
    """The installed server, serving from a folder of its own; its port."""
    log = tmp_path / "log"
    command = [sys.executable, "-S", "-m", "queuegate", "serve", "--listen", "127.0.0.1:0", "--console", "127.0.0.1:0"]
    where = environment(stranger, installed["queuegate"])
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=tmp_path, env=where, stdout=output, stderr=output)
        try:
            listening = re.compile(r"listening on 127\.0\.0\.1:(\d+)")
            wait_until(
                lambda: process.poll() is not None or listening.search(log.read_text()), 60, "the server to start"
            )
            found = listening.search(log.read_text())
            assert found, log.read_text()
            yield int(found[1])
        finally:
            process.terminate()
            assert process.wait(60) == 0


def test_the_console_of_the_wheel_answers(server, tmp_path):
    found = re.compile(r"console on http://127\.0\.0\.1:(\d+)")
    port = wait_until(lambda: found.search((tmp_path / "log").read_text()), 20, "the address of the console")[1]

    def page() -> str:
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{port}/login", timeout=10).read().decode()
        except urllib.error.URLError:
            return ""

    assert "Log in" in wait_until(page, 30, "the console to answer")


def test_the_server_serves_beside_packages_of_the_same_names(server):
    with pymysql.connect(host="127.0.0.1", port=server, user="root", database="main", autocommit=True) as client:
        cursor = client.cursor()
        cursor.execute("CREATE QUEUE q (n INT)")
        cursor.execute("INSERT INTO q (n) VALUES (7)")
        cursor.execute("SELECT id, n FROM STREAM q LIMIT 1 WAIT 5")
        assert cursor.fetchall() == ((1, 7),)
        assert cursor.execute("ACK q 1") == 1


def test_others_keep_their_packages(installed, stranger, tmp_path):
    program = "import queuegate, proxy, engine, rewriter; print(proxy.OTHER and engine.OTHER and rewriter.OTHER)"
    assert run(program, installed["queuegate"], stranger, cwd=tmp_path) == "True\n"


def test_the_connector_needs_no_server(installed, tmp_path):
    program = """
from importlib.util import find_spec
import spark_connector.client.connection, spark_connector.streaming.consumer, spark_connector.writing.sinks
server = ("console", "proxy", "embedded", "rewriter", "mysql_wire", "engine", "mysql_client", "queuegate")
print([name for name in server if find_spec(name)])
"""
    assert run(program, installed["queuegate_spark"], cwd=tmp_path) == "[]\n"


def test_the_worker_needs_pymysql_and_nothing_else(wheels, installed, tmp_path):
    (description,) = (n for n in zipfile.ZipFile(wheels["queuegate_worker"]).namelist() if n.endswith("METADATA"))
    metadata = zipfile.ZipFile(wheels["queuegate_worker"]).read(description).decode()
    needed = re.findall(r"^Requires-Dist: (.*)$", metadata, re.MULTILINE)
    assert [each for each in needed if "extra ==" not in each] == ["pymysql<2,>=1.1"]
    program = """
import sys
before = set(sys.modules)
import queuegate_worker.command
new = {name.partition(".")[0] for name in set(sys.modules) - before}
print(sorted(new - sys.stdlib_module_names - {"queuegate_worker"}))
"""
    loaded = set(eval(run(program, installed["queuegate_worker"], cwd=tmp_path)))
    assert "pymysql" in loaded
    assert loaded <= {"pymysql", "cryptography", "_cffi_backend", "_openssl", "nacl"}  # PyMySQL loads what is there


def test_the_worker_brings_its_fixtures_to_pytest(installed, tmp_path):
    (tmp_path / "test_mine.py").write_text(
        "from queuegate_worker import Queue\n\n\n"
        "def test_mine(queuegate_outbox):\n"
        "    Queue('orders').send(customer=7)\n"
        "    queuegate_outbox.assert_enqueued('orders', columns={'customer': 7})\n"
    )
    where = environment(installed["queuegate_worker"])
    command = [sys.executable, "-S", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py"]
    done = subprocess.run(command, cwd=tmp_path, env=where, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout, f"{done.stdout}{done.stderr}"


def test_the_servers_command_runs_the_worker_where_it_is_installed(installed, stranger, server, tmp_path):
    (tmp_path / "jobs.py").write_text("import engine\ndef handle(message):\n    print(message.n, engine.OTHER)\n")
    with pymysql.connect(host="127.0.0.1", port=server, user="root", database="main", autocommit=True) as client:
        client.cursor().execute("CREATE QUEUE q (n INT)")
        client.cursor().execute("INSERT INTO q (n) VALUES (7)")
    command = [sys.executable, "-S", "-m", "queuegate", "work", "jobs:handle", "--queue", "q", "--drain"]
    url = {"QUEUEGATE_URL": f"mysql://root@127.0.0.1:{server}/main"}
    folders = [stranger, installed["queuegate"]]
    done = subprocess.run(
        command, cwd=tmp_path, env={**environment(*folders), **url}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "queuegate: the worker is not installed here: pip install queuegate-worker\n"
    folders.append(installed["queuegate_worker"])
    done = subprocess.run(
        command, cwd=tmp_path, env={**environment(*folders), **url}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "7 True\n"), done.stderr


def test_the_celery_transport_needs_no_server(installed, tmp_path):
    pytest.importorskip("kombu", reason="kombu is not installed: the wheel of the Celery transport is NOT tried")
    program = """
from importlib.util import find_spec
import queuegate_celery
from kombu import Connection
print(type(Connection("queuegate://app@host/shop").transport).__module__)
server = ("console", "proxy", "embedded", "rewriter", "mysql_wire", "engine", "mysql_client", "queuegate")
print([name for name in server if find_spec(name)])
"""
    found = run(program, installed["queuegate_celery"], cwd=tmp_path)
    assert found == "queuegate_celery.transport\n[]\n"
