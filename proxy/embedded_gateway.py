"""The embedded backend's side of the composition. To be completed with its session and accounts."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from engine.clock import Clock
from engine.errors import NotSupported
from engine.sql_store import SqlMessageStore
from proxy.config import Config
from proxy.gateway import Gateway
from proxy.registry import ConnectionRegistry


@contextlib.asynccontextmanager
async def embedded_backend(
    config: Config, clock: Clock, registry: ConnectionRegistry
) -> AsyncIterator[tuple[SqlMessageStore, Gateway]]:
    raise NotSupported("embedded backend not wired yet")
    yield
