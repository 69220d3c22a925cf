"""The folder of a queue's archive, and what in it counts.

    _queue.json                                        whose archive it is
    interval=<after>-<until>/day=2026-11-20/part-...   what counts: an interval is there as a whole or not at all
    _staging/<run>/interval=<after>-<until>/day=...    what a run writes; readers pass over names that begin with _

Each run stages in a folder of its own: tasks of a driver that was killed may write on for a while, and what they write
must not get among what another run has verified. An interval is renamed from staging when it is verified; no file that
counts is changed or deleted afterwards. So `spark.read.parquet(folder)` sees each archived message once at any time,
also beside a run and after one was killed.
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
        """Makes the folder this queue's archive, or finds that it is."""
        self.folder.make()
        ours = {"database": database, "queue": queue}
        if not self.folder.exists(IDENTITY):
            if strangers := [name for name in self.folder.names() if not name.startswith(("_", "."))]:
                raise JobError(f"{self.folder.path} holds {strangers[0]} and is no archive: give an empty folder")
            self.folder.write(IDENTITY, json.dumps({"v": 1, **ours}))
        found = json.loads(self.folder.read(IDENTITY))
        if {key: found.get(key) for key in ours} != ours:
            raise JobError(
                f"{self.folder.path} is the archive of queue {found.get('queue')} of database {found.get('database')}, "
                f"not of {queue} of {database}: give each queue a folder of its own"
            )

    def is_archive(self) -> bool:
        """Whether an archive job has written here."""
        return self.folder.exists(IDENTITY)

    def insist(self) -> None:
        """That it is an archive at all."""
        if not self.is_archive():
            raise JobError(f"{self.folder.path} is no archive of a queue: it has no {IDENTITY}")

    def published(self) -> list[Interval]:
        """The intervals that readers see."""
        return named(self.folder.names())

    def clean(self, archived_until: int) -> None:
        """Removes what runs that failed left behind.

        Where a rename is a copy (object stores), one that was broken off leaves parts in both places: what is published
        and not counted goes as well then, first, so that being broken off here leads back here.
        """
        for run in self.folder.names(STAGING):
            for interval in named(self.folder.names(STAGING, run)):
                if interval.until > archived_until:
                    self.folder.remove(interval.name)
        self.folder.remove(STAGING)

    @contextmanager
    def staged(self, interval: Interval) -> Iterator[str]:
        """Where to write an interval; removed where that fails."""
        try:
            yield self.folder.of(STAGING, self._run, interval.name)
        except BaseException:
            self._forget()
            raise

    def _forget(self) -> None:
        try:
            self.folder.remove(STAGING, self._run)
        except Exception:
            pass  # Spark is gone, or the file system: the next run removes it; what was wrong at first is worth telling

    def publish(self, interval: Interval) -> None:
        """From now on readers see what was staged of the interval."""
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
