"""Fixtures of the tests that run Spark: one session for all of them, beside the gates of the other suites.

`gate`, `queue`, `sql`, `stream` and the others are those of tests/conftest.py: a test that takes `gate` runs once on
each backend. `make test-spark` runs this folder; a run that does not name it leaves it out (tests/conftest.py: how).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
import toolchains
from jdbc_sources import MARIADB, MYSQL, Driver, Jdbc
from servers import ROOT, Gate, MariaDb, Sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STOP_SECONDS = 30
HANG_SECONDS = 600
"""After which a test counts as one that hangs: the first one starts a JVM, some start several, beside other work."""
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.python.authenticate.socketTimeout": "120s",  # 15 s by default, too short for a busy machine
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Warnings of pyspark and of what it leaves to the garbage collector are no faults of ours; Spark takes long."""
    for item in items:
        if "spark" in item.path.relative_to(config.rootpath).parts:
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(HANG_SECONDS))
            item.add_marker(pytest.mark.filterwarnings("default::FutureWarning", "default::DeprecationWarning"))
            item.add_marker(pytest.mark.filterwarnings("default::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("default::pytest.PytestUnraisableExceptionWarning"))


@pytest.fixture(scope="session")
def _environment() -> Iterator[None]:
    """What the JVM and its Python workers inherit: without PYSPARK_PYTHON they are whatever `python3` is on PATH."""
    changed = {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    before = {key: os.environ.get(key) for key in changed}
    os.environ.update(changed)
    yield
    for key, value in before.items():
        if value is None:
            del os.environ[key]
        else:
            os.environ[key] = value


@pytest.fixture(scope="session")
def spark(_environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A SparkSession of two threads with both JDBC drivers; the JVM has ended when the tests have."""
    pytest.importorskip("pyspark", reason="pyspark is not installed: `make test-spark` does it")
    toolchains.tool("java", "default-jdk-headless")
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("spark")
    builder = SparkSession.builder.master("local[2]").appName("queuegate tests")
    builder = builder.config("spark.jars", ",".join(map(str, toolchains.jdbc_drivers())))
    builder = builder.config("spark.local.dir", str(folder / "local"))
    builder = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")  # many tests fail jobs on purpose
    yield session
    session.stop()
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    process = gateway.proc
    process.stdin.close()  # what tells spark-submit to end
    process.wait(STOP_SECONDS)


# --- JDBC


@pytest.fixture(params=[MYSQL, MARIADB], ids=lambda driver: driver.name)
def driver(request: pytest.FixtureRequest) -> Driver:
    """Each of the two drivers, by the form of URL that Spark takes for a MySQL server."""
    found: Driver = request.param
    return found


@pytest.fixture
def jdbc(spark: SparkSession, gate: Gate, driver: Driver, sql: Sql) -> Jdbc:
    """Spark JDBC at the proxy."""
    return Jdbc(spark, driver, gate.port, gate.database, sql)


@pytest.fixture
def direct(spark: SparkSession, mariadb: MariaDb, driver: Driver) -> Iterator[Jdbc]:
    """Spark JDBC at a MariaDB itself, with nothing of ours in between: what all must agree with."""
    with mariadb.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS direct CHARACTER SET utf8mb4")
    client = Sql(mariadb.connect(database="direct"))
    yield Jdbc(spark, driver, mariadb.port, "direct", client)
    client.close()
