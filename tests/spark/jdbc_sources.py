"""Spark JDBC at one server by one driver, so that the same work can be done in several places and compared."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from servers import Sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, DataFrameWriter, SparkSession

T = TypeVar("T")
CATALOG = "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"
_CAUSE = re.compile(r"(?:SQL\w*|BatchUpdate|MySQL\w*|CommunicationsException)Exception: (?:\(conn=\d+\) )?([^\n]+)")


@dataclass(frozen=True)
class Driver:
    """A JDBC driver and a form of its URL. Spark takes only `jdbc:mysql` for a MySQL server, of any driver."""

    name: str
    class_name: str
    scheme: str = "jdbc:mysql"
    parameters: tuple[str, ...] = ()


MYSQL = Driver("connector_j", "com.mysql.cj.jdbc.Driver")
MARIADB = Driver("mariadb_connector_j", "org.mariadb.jdbc.Driver", parameters=("permitMysqlScheme",))
ANSI = Driver(
    "jdbc_mariadb", "org.mariadb.jdbc.Driver", "jdbc:mariadb", parameters=("sessionVariables=sql_mode=ANSI_QUOTES",)
)


@dataclass(frozen=True)
class Jdbc:
    """One place. Parameters belong to the URL, options are Spark's own."""

    spark: SparkSession
    driver: Driver
    port: int
    database: str
    sql: Sql

    def url(self, *parameters: str) -> str:
        listed = "&".join((*self.driver.parameters, *parameters))
        return f"{self.driver.scheme}://127.0.0.1:{self.port}/{self.database}" + (f"?{listed}" if listed else "")

    def options(self, *parameters: str, **options: object) -> dict[str, str]:
        login = {"url": self.url(*parameters), "driver": self.driver.class_name, "user": "root", "password": ""}
        return {**login, **{key: str(value) for key, value in options.items()}}

    def reader(self, *parameters: str, **options: object) -> DataFrameReader:
        return self.spark.read.format("jdbc").options(**self.options(*parameters, **options))

    def read(self, *parameters: str, **options: object) -> DataFrame:
        return self.reader(*parameters, **options).load()

    def writer(self, frame: DataFrame, *parameters: str, **options: object) -> DataFrameWriter:
        return frame.write.format("jdbc").options(**self.options(*parameters, **options))

    def append(self, frame: DataFrame, table: str, *parameters: str, **options: object) -> None:
        self.writer(frame, *parameters, dbtable=table, **options).mode("append").save()

    def overwrite(self, frame: DataFrame, table: str, *parameters: str, **options: object) -> None:
        self.writer(frame, *parameters, dbtable=table, **options).mode("overwrite").save()

    def catalog(self, **options: object) -> str:
        """The name of a Spark catalog of this place, with all push-down that there is."""
        name = f"c_{self.driver.name}_{self.port}"
        pushed = dict.fromkeys(("pushDownAggregate", "pushDownLimit", "pushDownOffset", "pushDownTableSample"), "true")
        self.spark.conf.set(f"spark.sql.catalog.{name}", CATALOG)
        for key, value in self.options(**pushed, **options).items():
            self.spark.conf.set(f"spark.sql.catalog.{name}.{key}", value)
        return name


def cause(work: Callable[[], object]) -> str:
    """What the database said to work that fails."""
    try:
        work()
    except Exception as error:
        said = _CAUSE.findall(str(error))
        return said[-1] if said else str(error)
    raise AssertionError("it did not fail")


def same(here: Jdbc, direct: Jdbc, work: Callable[[Jdbc], T]) -> T:
    """What the work comes to, which is the same at the server itself."""
    found, expected = work(here), work(direct)
    assert found == expected
    return found


def plain(rows: list[Any]) -> list[tuple[Any, ...]]:
    """Rows in an order of their own, with values that compare: Spark's binary values are bytearrays."""
    values = [tuple(bytes(value) if isinstance(value, bytearray) else value for value in row) for row in rows]
    return sorted(values, key=repr)
