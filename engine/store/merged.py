"""What the shards of a queue have answered, put together. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from engine.model.errors import BackendError
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import MessageId
from engine.store.base import Claim, PollResult, Position, ScanResult
from engine.store.census import Census, RangeCount

FailedParts = Sequence[tuple[BackendError, Sequence[MessageId]]]

_RETRY_NS = NS_PER_SECOND  # until the next poll while a shard is left out


def merged_polls(
    polls: Sequence[PollResult], limit: int, *, incomplete: bool, ahead: Sequence[PollResult] = ()
) -> PollResult:
    """The poll of a queue from those of its shards; at least one. `incomplete`: some shards did not answer. `ahead`: of
    further shards, from the poll before; there may be more right behind what they have.

    The clocks of shards may differ: the time of the result is that of the shard where a message falls due next. Of what
    is `ahead` it is taken from the latest, since time has gone by.
    """
    ends = [poll.keys[-1] for poll in ahead if poll.more]
    now_ns = max(poll.now_ns for poll in (*polls, *ahead))
    waits = [(poll.next_due_ns - poll.now_ns, poll.now_ns) for poll in polls if poll.next_due_ns is not None]
    waits += [(poll.next_due_ns - now_ns, now_ns) for poll in ahead if poll.next_due_ns is not None]
    if incomplete:
        waits.append((_RETRY_NS, now_ns))
    wait_ns, now_ns = min(waits, default=(0, now_ns))
    polls = [*polls, *ahead]
    keys = sorted(key for poll in polls for key in poll.keys)
    count = min(limit, bisect_right(keys, min(ends)) if ends else limit)
    more = len(keys) > count or any(poll.more for poll in polls)
    return PollResult(now_ns, tuple(keys[:count]), now_ns + wait_ns if waits else None, more)


def read_ahead(polls: Mapping[str, PollResult], used: Collection[MessageId], shards: int) -> dict[str, PollResult]:
    """What each of these shards has returned beyond the messages that are used now, where that is half of it or more.
    Of so many `shards` that answer, at least one is left out, so that the next poll reads the database's time."""
    left = {}
    for shard, poll in polls.items():
        keys = tuple(key for key in poll.keys if key.id not in used)
        if keys and 2 * len(keys) >= len(poll.keys):
            left[shard] = replace(poll, keys=keys)
    if len(left) == shards:
        del left[min(left, key=lambda shard: len(left[shard].keys))]
    return left


def merged_scans(scans: Sequence[ScanResult], limit: int, *, incomplete: bool) -> ScanResult:
    """One step of a scan from those of its shards, all from the same position on. It ends where the first of them does;
    what others have found beyond that is found again by the next step."""
    poll = merged_polls([scanned.poll for scanned in scans], limit, incomplete=incomplete)
    places = {id_: place for scanned in scans for id_, place in scanned.places.items()}
    keys = sorted((key for scanned in scans for key in scanned.poll.keys), key=lambda key: _order(places[key.id]))
    end = min((scanned.position for scanned in scans if scanned.position is not None), key=_order, default=None)
    if end is not None:
        keys = [key for key in keys if _order(places[key.id]) <= _order(end)]
    if len(keys) > limit:
        keys, end = keys[:limit], places[keys[limit - 1].id]
    ordered = tuple(sorted(keys, key=lambda key: (key.priority, key.due_ns)))
    return ScanResult(replace(poll, keys=ordered, more=end is not None), end, places, incomplete)


def _order(position: Position) -> tuple[tuple[bool, int], tuple[bool, int], tuple[bool, Any]]:
    """For comparing: what has no value comes first."""
    priority, due_ns, id_ = position.priority, position.due_ns, position.id
    return (priority is not None, priority or 0), (due_ns is not None, due_ns or 0), (id_ is not None, id_ or 0)


def merged_claims(claims: Sequence[Claim], failed: FailedParts = ()) -> Claim:
    """One claim from those of its shards; at least one. `failed`: see Claim."""
    messages = tuple(message for claim in claims for message in claim.messages)
    rejected = tuple(id_ for claim in claims for id_ in claim.rejected)
    deferred = tuple(id_ for _, ids in failed if len(ids) > 1 for id_ in ids)
    now_of = {message.id: claim.now_ns for claim in claims for message in claim.messages}
    now_ns = max(claim.now_ns for claim in claims)
    return Claim(now_ns, messages, deferred, rejected=rejected, failed=tuple(failed), now_of=now_of)


def merged_census(parts: Sequence[Census], *, incomplete: bool) -> Census:
    """The census of a queue from those of its shards; at least one. `incomplete`: there are at least so many."""
    return Census(
        ready=sum(part.ready for part in parts),
        scheduled=sum(part.scheduled for part in parts),
        retrying=sum(part.retrying for part in parts),
        in_flight=sum(part.in_flight for part in parts),
        parked=sum(part.parked for part in parts),
        acked=sum(part.acked for part in parts),
        oldest_ready_age=max((age for part in parts if (age := part.oldest_ready_age) is not None), default=None),
        bounded=incomplete or any(part.bounded for part in parts),
    )


def merged_range(parts: Sequence[RangeCount], *, incomplete: bool) -> RangeCount:
    """As merged_census, of one range."""
    return RangeCount(
        parts[0].key_range,
        ready=sum(part.ready for part in parts),
        later=sum(part.later for part in parts),
        in_flight=sum(part.in_flight for part in parts),
        oldest_ready_age=max((age for part in parts if (age := part.oldest_ready_age) is not None), default=None),
        bounded=incomplete or any(part.bounded for part in parts),
    )
