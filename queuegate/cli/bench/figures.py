"""The results of a benchmark: rates, latencies, and what was lost or came twice; as lines and as an object. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_PERCENTS = (50, 95, 99)
_BUSY = 0.9
"""From this share of a processor on a client may be what bounds a rate."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is asked for. `seconds`: of each part. `size`: bytes of a body. `rate`: messages a second, all together."""

    seconds: float
    producers: int
    consumers: int
    batch: int
    size: int
    rate: float


@dataclass(frozen=True, slots=True)
class ClientResult:
    """What one client has done in one part. Times are seconds of the machine's monotonic clock.

    `numbers`: of a producer, the messages that it committed; of a consumer, those that it received and acked, one for
    each delivery. `sent`, `done`: with messages one by one, when each was sent, and when its INSERT had returned or it
    was received. `first`, `last`: when the client began, and when its last statement had returned that did
    something. `busy`: its share of a processor. `waited_in_vain`: a consumer that ended because nothing came.
    """

    numbers: array[int]
    first: float
    last: float
    busy: float
    sent: array[float] = field(default_factory=lambda: array("d"))
    done: array[float] = field(default_factory=lambda: array("d"))
    waited_in_vain: bool = False


@dataclass(frozen=True, slots=True)
class Speed:
    """Messages in a time. `busiest`: the largest share of a processor that one of the clients used."""

    messages: int
    seconds: float
    busiest: float

    @property
    def per_second(self) -> float:
        """Messages a second; 0 where there were none."""
        return self.messages / self.seconds if self.messages and self.seconds > 0 else 0.0


@dataclass(frozen=True, slots=True)
class DeliveryErrors:
    """What was committed and did not arrive, and what arrived more than once."""

    lost: int
    twice: int

    def __add__(self, other: DeliveryErrors) -> DeliveryErrors:
        return DeliveryErrors(self.lost + other.lost, self.twice + other.twice)


@dataclass(frozen=True, slots=True)
class BenchResult:
    """All results of a benchmark. Latencies are in seconds, in no order. `left`: messages that there was no time
    for."""

    inserts: Speed
    receives: Speed
    left: int
    one_by_one: Speed
    from_commit: Sequence[float]
    from_send: Sequence[float]
    delivery_errors: DeliveryErrors


def speed(clients: Sequence[ClientResult]) -> Speed:
    """Of clients that worked at the same time."""
    messages = sum(len(client.numbers) for client in clients)
    first, last = min(client.first for client in clients), max(client.last for client in clients)
    return Speed(messages, last - first, max(client.busy for client in clients))


def delivery_errors(
    producers: Sequence[ClientResult], consumers: Sequence[ClientResult], unsettled: int
) -> DeliveryErrors:
    """Each message by its number. `unsettled`: messages in the table without an ack, after the end.

    They are not lost where the time was over. Where all consumers ended because nothing came, they should have come.
    """
    committed = {number for client in producers for number in client.numbers}
    deliveries = [number for client in consumers for number in client.numbers]
    arrived = set(deliveries)
    excused = 0 if all(client.waited_in_vain for client in consumers) else unsettled
    missing = len(committed - arrived)
    return DeliveryErrors(max(0, missing - excused), len(deliveries) - len(arrived))


def latencies(producers: Sequence[ClientResult], consumers: Sequence[ClientResult]) -> tuple[list[float], list[float]]:
    """Seconds from the return of the INSERT to the row at its receiver, and from the sending of the INSERT.

    A row may arrive before the INSERT has returned: the first is 0 then. Of a message that came twice the first time
    counts.
    """
    arrived: dict[int, float] = {}
    for client in consumers:
        for number, at in zip(client.numbers, client.done, strict=True):
            arrived[number] = min(at, arrived.get(number, at))
    from_commit, from_send = [], []
    for client in producers:
        for number, sent, committed in zip(client.numbers, client.sent, client.done, strict=True):
            if number in arrived:
                from_commit.append(max(0.0, arrived[number] - committed))
                from_send.append(arrived[number] - sent)
    return from_commit, from_send


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Of sorted values, the one that `percent` of them do not exceed (nearest rank)."""
    rank = -(-len(ordered) * percent // 100)
    return ordered[min(len(ordered), max(1, int(rank))) - 1]


def spread_ms(seconds: Sequence[float]) -> dict[str, float | None]:
    """p50, p95, p99 and max in milliseconds; None where nothing was measured."""
    ordered = sorted(seconds)
    names = [*(f"p{percent}" for percent in _PERCENTS), "max"]
    if not ordered:
        return dict.fromkeys(names)
    values = [*(percentile(ordered, percent) for percent in _PERCENTS), ordered[-1]]
    return {name: round(value * 1000, 3) for name, value in zip(names, values, strict=True)}


def result_object(result: BenchResult, load: Load, place: Mapping[str, str]) -> dict[str, Any]:
    """For JSON. The names are stable: programs read them."""
    return {
        **place,
        "options": {
            "seconds": load.seconds,
            "producers": load.producers,
            "consumers": load.consumers,
            "batch": load.batch,
            "size_bytes": load.size,
            "rate": load.rate,
        },
        "inserts": _speed_object(result.inserts),
        "receives": {**_speed_object(result.receives), "left": result.left},
        "latency": {
            **_speed_object(result.one_by_one),
            "commit_to_delivery_ms": spread_ms(result.from_commit),
            "send_to_delivery_ms": spread_ms(result.from_send),
        },
        "lost": result.delivery_errors.lost,
        "twice": result.delivery_errors.twice,
    }


def _speed_object(of: Speed) -> dict[str, Any]:
    return {
        "messages": of.messages,
        "seconds": round(of.seconds, 3),
        "per_second": round(of.per_second, 1),
        "busiest_client": round(of.busiest, 3),
    }


def result_lines(result: BenchResult, load: Load, place: Mapping[str, str]) -> list[str]:
    """For people."""
    clients = f"{_many(load.producers, 'producer')}, {_many(load.consumers, 'consumer')}"
    body = f"batches of {load.batch}, {_many(load.size, 'byte')}"
    lines = [f"{place['proxy']}, database {place['database']}: {clients}, {body}", ""]
    lines.append(_speed_line("inserted", result.inserts))
    left = f", {result.left} not received before the end" if result.left else ""
    lines.append(_speed_line("received and acked", result.receives) + left)
    lines.append("")
    for title, values in (("commit to delivery", result.from_commit), ("send to delivery", result.from_send)):
        spread = "  ".join(
            f"{name} {'-' if value is None else f'{value:.1f} ms'}" for name, value in spread_ms(values).items()
        )
        lines.append(f"{title:<20}{spread}")
    lines.append(f"{'':<20}{result.one_by_one.messages} messages one by one, {result.one_by_one.per_second:.1f}/s")
    lines += ["", f"{'lost':<20}{result.delivery_errors.lost}", f"{'came twice':<20}{result.delivery_errors.twice}"]
    bounded = [
        f"The {who} were busy themselves ({of.busiest:.0%} of a processor): {what} of them may show a higher rate."
        for who, what, of in (("producers", "more", result.inserts), ("consumers", "more", result.receives))
        if of.busiest >= _BUSY
    ]
    return [*lines, *([""] if bounded else []), *bounded]


def _speed_line(title: str, of: Speed) -> str:
    return f"{title:<20}{of.per_second:,.0f}/s  ({of.messages} in {of.seconds:.1f} s)"


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
