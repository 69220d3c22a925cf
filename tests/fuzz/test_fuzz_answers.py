"""Properties of what follows a server's answers: the same however they are cut up; MalformedAnswer is the worst."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from random import Random

import fuzz_paths  # noqa: F401
import fuzz_wire as w
from fuzz_corpus import load_all
from fuzz_results import MORE, Answers, recorded
from fuzz_sql import statement
from hypothesis import given, settings
from hypothesis import strategies as st

from mysql_client.packets import MalformedAnswer
from mysql_wire.answer_walker import SHAPES, AnswerWalker, Shape
from mysql_wire.outcome import Outcome
from mysql_wire.reframer import Reframer
from mysql_wire.whole_answer import WholeAnswers

RECORDED = sorted(recorded(load_all("mariadb")).items())
SEEDS = st.integers(0, 1 << 48)
FLAGS = (w.DEPRECATE_EOF, w.SESSION_TRACK, w.CACHE_METADATA, w.EXTENDED_METADATA, w.OPTIONAL_METADATA, w.PROGRESS)
CAPABILITIES = st.sets(st.sampled_from(FLAGS)).map(lambda flags: sum(flags) | w.PROTOCOL_41)


@dataclass(frozen=True)
class Answer:
    """A command, and the bytes that a server answers."""

    command: int
    capabilities: int
    data: bytes


def answer(seed: int, capabilities: int) -> Answer:
    """One that was recorded, or one that is made up as the fuzzer's server makes them."""
    random = Random(seed)
    if random.random() < 0.4:
        (flags, payload), packets = random.choice(RECORDED)
        return Answer(payload[0], flags, framed(packets))
    server = Answers({})
    server.capabilities = capabilities | (w.MULTI_STATEMENTS if random.random() < 0.5 else 0)
    text = "; ".join(statement(random).replace("LOCAL", "") for _ in range(random.choice((1, 1, 3)))).encode()
    payload = random.choice((b"\x03", b"\x03", b"\x16")) + text
    packets = server.to(payload)
    if payload[0] == w.PREPARE and packets[0][:1] == b"\0" and random.random() < 0.5:
        payload = b"\x17\1\0\0\0" + random.choice((b"\0", b"\1")) + b"\1\0\0\0"
        packets = server.to(payload)
    return Answer(payload[0], capabilities, framed(packets))


def framed(packets: list[bytes]) -> bytes:
    return b"".join(w.framed(packet, n & 0xFF) for n, packet in enumerate(packets, 1))


def spoilt(given: Answer, random: Random) -> Answer:
    data = bytearray(given.data)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(data))
        match random.randrange(4):
            case 0:
                data[at] ^= 1 << random.randrange(8)
            case 1:
                data[at:at] = random.choice((b"\xfe", b"\xff", b"\0", b"\xfb", random.randbytes(5)))
            case 2:
                del data[at : at + random.randint(1, 9)]
            case _:
                data[at : at + 1] = random.choice((b"\0", b"\xfe", b"\xff", b"\xfc"))
        data = data or bytearray(b"\0")
    return Answer(given.command, given.capabilities, bytes(data))


Walked = tuple[str, int, Outcome | None, int]
"""How a walk ended: "done", "more", "file" or "error"; bytes used; what the end said; the last sequence id."""


def walk(given: Answer, cuts: list[int]) -> Walked:
    walker = AnswerWalker(given.capabilities)
    walker.begin(given.command)
    edges = sorted({0, len(given.data), *(cut % (len(given.data) + 1) for cut in cuts)})
    used = 0
    try:
        for start, end in pairwise(edges):
            used += walker.feed(given.data[start:end])
            if walker.done:
                return "done", used, walker.outcome, walker.last_sequence
            if walker.wants_client_data:
                return "file", used, None, walker.last_sequence
    except MalformedAnswer:
        return "error", 0, None, 0
    return "more", used, None, 0


CUTS = st.lists(st.integers(0, 1 << 20), max_size=20)


@given(SEEDS, CAPABILITIES, CUTS)
@settings(max_examples=300, deadline=None)
def test_an_answer_ends_where_it_ends(seed: int, capabilities: int, cuts: list[int]) -> None:
    given = answer(seed, capabilities)
    ended, used, outcome, last = walk(given, cuts)
    packets, rest = w.packets_of(given.data)
    assert (ended, used, rest) == ("done", len(given.data), b""), given
    assert outcome is not None
    assert outcome.ok == (packets[-1].payload[:1] != b"\xff" or (given.command == w.PREPARE and len(packets) > 1))
    assert last == packets[-1].seq or given.command == w.PREPARE


@given(SEEDS, CAPABILITIES, CUTS)
@settings(max_examples=600, deadline=None)
def test_nonsense_is_nonsense_however_it_is_cut(seed: int, capabilities: int, cuts: list[int]) -> None:
    given = spoilt(answer(seed, capabilities), Random(seed))
    whole = walk(given, [])
    assert walk(given, cuts) == whole, given
    assert walk(given, list(range(len(given.data)))[:3000]) == whole, given


ANSWERED = sorted(command for command, shape in SHAPES.items() if shape is not Shape.NOTHING)


@given(st.sampled_from(ANSWERED), CAPABILITIES, st.binary(max_size=60), CUTS)
@settings(max_examples=300, deadline=None)
def test_junk_is_walked_or_refused(command: int, capabilities: int, data: bytes, cuts: list[int]) -> None:
    junk = Answer(command, capabilities, data)
    if data and walk(junk, [])[0] != "error":
        assert walk(junk, cuts) == walk(junk, [])


@given(st.lists(st.tuples(SEEDS, st.booleans()), min_size=1, max_size=4), CAPABILITIES)
@settings(max_examples=400, deadline=None)
def test_a_whole_answer_is_recognised_only_where_the_walk_agrees(wanted: list[tuple[int, bool]], flags: int) -> None:
    """With a memory of what came before, as one connection has it, and of spoilt answers too."""
    recognisers: dict[int, WholeAnswers] = {}
    for seed, spoil in wanted:
        given = answer(seed, flags)
        given = spoilt(given, Random(seed)) if spoil else given
        if given.command != w.QUERY:
            continue
        for again in range(2):
            recogniser = recognisers.setdefault(given.capabilities, WholeAnswers(given.capabilities))
            found = recogniser.recognise(given.data)
            if found is not None:
                ended, used, outcome, _ = walk(given, [])
                if spoil and ended == "error":
                    continue  # its definitions make no sense, which are stepped over; its end is where it is
                assert (ended, used) == ("done", len(given.data)), (given, again)
                assert outcome is not None and (outcome.status, outcome.affected_rows, outcome.errno) == (
                    found.status,
                    found.affected_rows,
                    found.errno,
                )


@given(SEEDS, CAPABILITIES, CUTS, st.integers(0, 255), st.booleans())
@settings(max_examples=300, deadline=None)
def test_an_answer_in_the_middle_of_a_longer_one(
    seed: int, capabilities: int, cuts: list[int], first: int, more: bool
) -> None:
    """Renumbered, and nothing else changed but the flag that says that more follows; however it is cut."""
    given = answer(seed, capabilities)
    more = more and given.command != w.PREPARE  # nothing ever follows a prepared statement's description
    _, _, outcome, _ = walk(given, [])
    assert outcome is not None
    edges = sorted({0, len(given.data), *(cut % (len(given.data) + 1) for cut in cuts)})
    told = []
    for borders in ([0, len(given.data)], edges):
        reframer = Reframer(first, more=more and outcome.ok, capabilities=given.capabilities)
        out = b""
        for start, end in pairwise(borders):
            out += reframer.feed(given.data[start:end], ended=end == len(given.data) and outcome.ok)
        told.append(out)
    assert told[0] == told[1]
    before, after = w.packets_of(given.data)[0], w.packets_of(told[0])[0]
    assert [packet.seq for packet in after] == [(first + n) & 0xFF for n in range(len(before))]
    for old, new in zip(before, after, strict=True):
        if old.payload != new.payload:
            # An OK or EOF packet, in which one bit was set.
            differences = [a ^ b for a, b in zip(old.payload, new.payload, strict=True) if a != b]
            assert more and outcome.ok and differences == [MORE] and old.payload[0] in (0x00, 0xFE)
