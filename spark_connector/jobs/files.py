"""A folder as Hadoop's FileSystem sees it: local, hdfs://, s3a://, whatever the session's Spark can reach."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spark_connector.jobs.failures import JobError, one_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Folder:
    """A folder and what is in it, by names relative to it. Raises JobError where something cannot be done."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark, jvm = spark, getattr(spark, "_jvm", None)
        if jvm is None:
            raise JobError("this job needs a classic Spark session: with Spark Connect it cannot reach the file system")
        self._jvm: Any = jvm
        try:
            given = jvm.org.apache.hadoop.fs.Path(path)
            self._files = given.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
            self.path = str(given.makeQualified(self._files.getUri(), self._files.getWorkingDirectory()))
        except Exception as error:
            raise JobError(f"{path!r} is no folder that Spark can reach: {one_line(error)}") from error

    def of(self, *names: str) -> str:
        """The full path of something in the folder."""
        return "/".join((self.path, *names))

    def make(self) -> None:
        """The folder itself, with those above it, and that something can be written there."""
        probe = self._at("_probe")
        try:
            if not self._files.mkdirs(self._jvm.org.apache.hadoop.fs.Path(self.path)):
                raise JobError(f"cannot make the folder {self.path}")
            self._files.create(probe, True).close()
            self._files.delete(probe, False)
        except JobError:
            raise
        except Exception as error:
            raise JobError(f"cannot write to {self.path}: {one_line(error)}") from error

    def exists(self, *names: str) -> bool:
        """Whether there is such a thing, or the folder itself."""
        return bool(self._files.exists(self._at(*names)))

    def names(self, *names: str) -> Sequence[str]:
        """What is in it, in order; nothing where it is not there."""
        if not self.exists(*names):
            return ()
        return sorted(str(status.getPath().getName()) for status in self._files.listStatus(self._at(*names)))

    def remove(self, *names: str) -> None:
        """Deletes it with all that is in it; nothing happens where it is not there."""
        self._files.delete(self._at(*names), True)

    def move(self, old: str, new: str) -> None:
        """Renames, atomically where the file system does so (local and HDFS do, object stores copy)."""
        if not self._files.rename(self._at(*old.split("/")), self._at(*new.split("/"))):
            raise JobError(f"cannot rename {self.of(old)} to {self.of(new)}")

    def read(self, name: str) -> str:
        """A small file's text."""
        stream = self._files.open(self._at(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """A small file that is not there yet: there as a whole afterwards, or not at all."""
        made = self._at(f"{name}.new")
        stream = self._files.create(made, True)
        stream.write(bytearray(text.encode()))
        stream.close()
        if not self._files.rename(made, self._at(name)):
            raise JobError(f"cannot write {self.of(name)}")

    def _at(self, *names: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.of(*names))


def insist_on_new(spark: SparkSession, path: str) -> Folder:
    """A folder that is not there yet. Raises JobError."""
    target = Folder(spark, path)
    if target.exists():
        raise JobError(f"{target.path} is there already: give a folder that is not")
    return target


def write_whole(spark: SparkSession, rows: DataFrame, path: str) -> str:
    """The rows as Parquet in a folder that is not there yet: there as a whole afterwards, or not at all. Its path."""
    target = insist_on_new(spark, path)
    above, _, name = target.path.rpartition("/")
    beside = Folder(spark, above)
    beside.make()
    made = f"_{name}.{uuid.uuid4().hex[:8]}"
    try:
        rows.write.parquet(beside.of(made))
        beside.move(made, name)
    finally:
        beside.remove(made)
    return target.path
