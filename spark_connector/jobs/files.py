"""A folder by Hadoop's FileSystem: local, hdfs://, s3a://, or any other that the session's Spark supports."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spark_connector.jobs.failures import JobError, one_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Folder:
    """A folder and its content, by relative names. Raises JobError if an operation fails."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark, jvm = spark, getattr(spark, "_jvm", None)
        if jvm is None:
            raise JobError("this job needs a classic Spark session: with Spark Connect it cannot reach the file system")
        self._jvm: Any = jvm
        try:
            location = jvm.org.apache.hadoop.fs.Path(path)
            self._files = location.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
            self.path = str(location.makeQualified(self._files.getUri(), self._files.getWorkingDirectory()))
        except Exception as error:
            raise JobError(f"{path!r} is no folder that Spark can reach: {one_line(error)}") from error

    def of(self, *names: str) -> str:
        """The full path of something in the folder."""
        return "/".join((self.path, *names))

    def make(self) -> None:
        """Creates the folder and its parents, and checks that it is writable."""
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
        """Whether the file, or the folder itself, exists."""
        return bool(self._files.exists(self._at(*names)))

    def names(self, *names: str) -> Sequence[str]:
        """The names in it, sorted; none if it does not exist."""
        if not self.exists(*names):
            return ()
        return sorted(str(status.getPath().getName()) for status in self._files.listStatus(self._at(*names)))

    def remove(self, *names: str) -> None:
        """Deletes it with its content; does nothing if it does not exist."""
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
        """Writes a small new file atomically."""
        temporary = self._at(f"{name}.new")
        stream = self._files.create(temporary, True)
        stream.write(bytearray(text.encode()))
        stream.close()
        if not self._files.rename(temporary, self._at(name)):
            raise JobError(f"cannot write {self.of(name)}")

    def _at(self, *names: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.of(*names))


def require_new_folder(spark: SparkSession, path: str) -> Folder:
    """A folder that does not exist yet. Raises JobError."""
    target = Folder(spark, path)
    if target.exists():
        raise JobError(f"{target.path} is there already: give a folder that is not")
    return target


def write_whole(spark: SparkSession, rows: DataFrame, path: str) -> str:
    """Writes the rows as Parquet to a new folder, atomically. Its path."""
    target = require_new_folder(spark, path)
    above, _, name = target.path.rpartition("/")
    parent = Folder(spark, above)
    parent.make()
    temporary = f"_{name}.{uuid.uuid4().hex[:8]}"
    try:
        rows.write.parquet(parent.of(temporary))
        parent.move(temporary, name)
    finally:
        parent.remove(temporary)
    return target.path
