"""Whether these tests can run at all."""

from __future__ import annotations

import importlib.metadata
import os

import pytest


def test_celery_is_there():
    try:
        importlib.metadata.version("celery"), importlib.metadata.version("kombu")
    except importlib.metadata.PackageNotFoundError as error:
        reason = f"{error.name} is not installed: the Celery transport is NOT tested"
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(reason)
        pytest.skip(reason)
