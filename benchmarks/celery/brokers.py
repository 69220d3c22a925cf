"""Who takes part: a name, a broker URL, and how durable a published task is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.others import DURABLE_REDIS, RABBITMQ, others
from benchmarks.places import PLACES


@dataclass(frozen=True, slots=True)
class Broker:
    """One that runs."""

    name: str
    url: str
    durability: str


@dataclass(frozen=True, slots=True)
class Field:
    """All that this machine has, their versions for the report's head, and who is absent and why."""

    brokers: tuple[Broker, ...]
    versions: dict[str, str]
    absent: tuple[str, ...]


@contextlib.contextmanager
def brokers() -> Iterator[Field]:
    """Starts them."""
    with contextlib.ExitStack() as stack:
        found = []
        for name, start in PLACES.items():
            place = stack.enter_context(start())
            url = f"queuegate://root@127.0.0.1:{place.gate.port}/{place.gate.database}"
            found.append(Broker(f"queuegate, {name}", url, place.durability))
        rest = stack.enter_context(
            others({
                RABBITMQ: lambda server: Broker(
                    "RabbitMQ", f"amqp://guest:guest@127.0.0.1:{server.port}//", "persistent, confirmed"
                ),
                DURABLE_REDIS: lambda server: Broker(
                    "Redis", f"redis://127.0.0.1:{server.port}/0", "append-only file, flush per command"
                ),
            })
        )  # fmt: skip
        yield Field((*found, *rest.found), dict(rest.versions), tuple(rest.absent))
