"""What the tests of the Celery transport share: connections of Kombu's, and workers as processes of their own.

They need Celery and Kombu. Where these are missing the whole folder is skipped, loudly; with CI=true that is a failure.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from celery_workers import Shop, Worker, url_of
from servers import Gate, Sql


def _missing() -> str:
    # Not find_spec("celery"): this folder has that name, and lies in a folder of sys.path.
    try:
        importlib.metadata.version("celery"), importlib.metadata.version("kombu")
    except importlib.metadata.PackageNotFoundError as error:
        return f"{error.name} is not installed (pip install '.[dev]'): the Celery transport is NOT tested"
    return ""


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """The modules import Kombu; without it they are not read, and `test_celery_is_there` says so."""
    module = collection_path.suffix == ".py" and collection_path.name != "test_celery_there.py"
    return True if module and _missing() else None


@pytest.fixture(scope="module", autouse=True)
def no_broadcasts_left(places: Any) -> Iterator[None]:
    """The topic of broadcasts goes, with the groups of its readers: the gates are other tests' as well."""
    yield
    from queuegate_celery.sources import BROADCASTS

    for gate in places.gates:
        sql = Sql(gate.connect())
        if sql.rows(f"SHOW TOPICS LIKE '{BROADCASTS}'"):
            for row in sql.rows(f"SHOW GROUPS ON {BROADCASTS}"):
                sql(f"DROP GROUP `{row[2]}` ON {BROADCASTS}")
            sql(f"DROP TOPIC {BROADCASTS}")
        sql.close()


@pytest.fixture
def broker(gate: Gate) -> Iterator[Callable[..., Any]]:
    """Makes Kombu connections; all are closed at the end."""
    import kombu

    import queuegate_celery  # noqa: F401

    with contextlib.ExitStack() as all_of_them:

        def make(**options: Any) -> kombu.Connection:
            connection = kombu.Connection(options.pop("url", None) or url_of(gate), transport_options=options)
            all_of_them.callback(connection.release)
            return connection

        yield make


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    """Starts workers; what is left of them at the end is killed."""
    with contextlib.ExitStack() as workers:

        def start(gate: Gate, *arguments: str, **environment: str) -> Worker:
            made = Worker(gate, tmp_path, *arguments, **environment)
            workers.callback(made.kill)
            return made

        yield start


@pytest.fixture
def shops() -> Iterator[Callable[..., Shop]]:
    with contextlib.ExitStack() as all_of_them:

        def make(gate: Gate, **options: Any) -> Shop:
            shop = Shop(gate, **options)
            all_of_them.callback(shop.close)
            return shop

        yield make
