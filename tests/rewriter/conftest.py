"""The catalog that the rewriter's tests plan against."""

from __future__ import annotations

import pytest
from rewriter_catalog import CATALOG

from engine.model.queue import QueueCatalog
from rewriter.planner import Planner
from rewriter.scan.scanner import StatementScanner


@pytest.fixture
def catalog() -> QueueCatalog:
    return CATALOG


@pytest.fixture
def planner() -> Planner:
    return Planner(CATALOG)


@pytest.fixture
def scanner() -> StatementScanner:
    return StatementScanner(CATALOG)
