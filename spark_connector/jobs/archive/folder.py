"""The folder of a queue's archive and its content.

    _queue.json                                        the archive's queue
    interval=<after>-<until>/day=2026-11-20/part-...   published: an interval is complete or does not exist
    _staging/<run>/interval=<after>-<until>/day=...    staged by a run; readers skip names that begin with _

Each run stages in its own folder: tasks of a killed driver may write for some time, and their files must not mix with
the verified files of another run. An interval is renamed from staging when it is verified; published files are never
changed or deleted. So `spark.read.parquet(folder)` contains each archived message once at any time, also during a run
and after a run was killed.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from spark_connector.jobs.archive.intervals import Interval, named
from spark_connector.jobs.failures import JobError
from spark_connector.jobs.files import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STAGING, IDENTITY = "_staging", "_queue.json"
DAY, INTERVAL = "day", "interval"


class ArchiveFolder:
    """The archive of one queue. Raises JobError."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark = spark
        self.folder = Folder(spark, path)
        self._run = uuid.uuid4().hex

    def claim(self, database: str, queue: str) -> None:
        """Makes the folder this queue's archive, or checks that it is."""
        self.folder.make()
        ours = {"database": database, "queue": queue}
        if not self.folder.exists(IDENTITY):
            if others := [name for name in self.folder.names() if not name.startswith(("_", "."))]:
                raise JobError(f"{self.folder.path} holds {others[0]} and is no archive: give an empty folder")
            self.folder.write(IDENTITY, json.dumps({"v": 1, **ours}))
        identity = json.loads(self.folder.read(IDENTITY))
        if {key: identity.get(key) for key in ours} != ours:
            raise JobError(
                f"{self.folder.path} is the archive of queue {identity.get('queue')} of database "
                f"{identity.get('database')}, not of {queue} of {database}: give each queue a folder of its own"
            )

    def is_archive(self) -> bool:
        """Whether an archive job has written here."""
        return self.folder.exists(IDENTITY)

    def check_is_archive(self) -> None:
        """Checks that it is an archive."""
        if not self.is_archive():
            raise JobError(f"{self.folder.path} is no archive of a queue: it has no {IDENTITY}")

    def published(self) -> list[Interval]:
        """The published intervals."""
        return named(self.folder.names())

    def clean(self, archived_until: int) -> None:
        """Removes the files of failed runs.

        Where a rename is a copy (object stores), an interrupted one leaves files in both places: then published files
        that are not counted are removed too, and first, so that an interruption here is repaired by the next run.
        """
        for run in self.folder.names(STAGING):
            for interval in named(self.folder.names(STAGING, run)):
                if interval.until > archived_until:
                    self.folder.remove(interval.name)
        self.folder.remove(STAGING)

    @contextmanager
    def staged(self, interval: Interval) -> Iterator[str]:
        """The folder to write an interval to; removed if that fails."""
        try:
            yield self.folder.of(STAGING, self._run, interval.name)
        except BaseException:
            self._forget()
            raise

    def _forget(self) -> None:
        try:
            self.folder.remove(STAGING, self._run)
        except Exception:
            pass  # Spark or the file system is gone: the next run removes it; the first error is the one to report

    def publish(self, interval: Interval) -> None:
        """Publishes the staged interval: from now on readers see it."""
        if self.folder.exists(interval.name):
            raise JobError(f"{self.folder.of(interval.name)} is there already: another run archives this queue")
        self.folder.move(f"{STAGING}/{self._run}/{interval.name}", interval.name)
        self._forget()

    def read(self, intervals: Sequence[Interval] | None = None) -> DataFrame:
        """The messages of these intervals, or of all, with the columns `day` and `interval`."""
        if not (self.published() if intervals is None else intervals):
            raise JobError(f"the archive {self.folder.path} is empty")
        reader = self._spark.read.option("basePath", self.folder.path).option("mergeSchema", "true")
        chosen = [self.folder.of(interval.name) for interval in intervals or ()]
        return reader.parquet(*(chosen or [self.folder.path]))
