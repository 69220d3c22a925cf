"""Words between workers: every report comes out as it went in, or less precise; frames survive any cut."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.model.assignment import Member
from engine.model.commit_report import CommitReport
from engine.model.queue import QueueName
from proxy.cluster import messages
from proxy.cluster.messages import (
    FrameError,
    Framer,
    MessageKind,
    encode,
    id_body,
    members_bodies,
    members_body,
    members_of,
    merged,
    portions,
    report_body,
    report_of,
)
from proxy.cluster.peers import _id_requests
from proxy.cluster.questions import Questions

names = st.builds(QueueName, st.text(max_size=8), st.text(max_size=8))
ids = st.one_of(st.integers(-(1 << 63), 1 << 64), st.text(max_size=20), st.binary(max_size=20))
reports = st.builds(
    CommitReport,
    touched=st.frozensets(names, max_size=4),
    settled=st.dictionaries(names, st.lists(ids, max_size=10).map(tuple), max_size=4),
    uncertain=st.frozensets(names, max_size=4),
    changed=st.dictionaries(names, st.lists(ids, max_size=10).map(tuple), max_size=4),
    rejected=st.frozensets(names, max_size=4),
    overdue=st.frozensets(names, max_size=4),
)


def through(report: CommitReport) -> CommitReport:
    """As it comes out at another worker."""
    (frame,) = Framer().feed(encode(MessageKind.COMMITS, report_body(report)))
    assert frame.kind == MessageKind.COMMITS
    return report_of(frame.body)


@pytest.mark.parametrize("id_", ["é" * 203, "\U0001f600" * 255, b"\xff" * 3000, 1])
def test_requests_about_any_ids_fit_into_a_message(id_):
    ids = [id_] * 250
    starts = []
    for start, wanted in _id_requests(ids):
        encode(MessageKind.ASK, [1 << 60, "holders", ["d" * 64, "q" * 64, wanted]])
        assert wanted == [id_body(id_) for id_ in ids[start : start + len(wanted)]]
        starts += range(start, start + len(wanted))
    assert starts == list(range(250))
    assert list(_id_requests([])) == []


def test_more_members_than_fit_into_a_message_are_left_out():
    members = tuple(Member(f"{'x' * 40}.{number}", False) for number in range(3000))
    queue = QueueName("d", "q")
    bodies = [members_body(queue, members), *members_bodies({queue: members, QueueName("d", "other"): members[:1]})]
    for body in bodies:
        encode(MessageKind.MEMBERS, body)
    sent, _ = members_of(bodies[0])
    assert sent[queue] == members[: len(sent[queue])] and len(sent[queue]) > 900


async def test_a_question_that_cannot_be_sent_is_not_kept():
    questions = Questions("others")

    def send(body: object) -> None:
        raise ValueError(body)

    with pytest.raises(ValueError):
        await questions.query("holders", None, [1], send)
    assert len(questions) == 0


@given(reports)
def test_reports_arrive_as_they_were_told(report):
    assert through(report) == report


def test_text_that_is_no_text_arrives():
    """Names and ids that were not valid in the client's character set are carried as surrogates."""
    report = CommitReport(settled={QueueName("d", "q\udcff"): ("\udc80", "a")})
    assert through(report) == report


@pytest.mark.parametrize("ids", [tuple(range(10_000)), tuple("x" * 200 + str(n) for n in range(100)), (b"y" * 60_000,)])
def test_more_ids_than_a_word_holds_make_the_queue_uncertain(ids):
    big, small = QueueName("d", "big"), QueueName("d", "small")
    told = through(CommitReport(touched=frozenset((big,)), settled={small: (1, 2), big: ids}))
    assert told == CommitReport(touched=frozenset((big,)), settled={small: (1, 2)}, uncertain=frozenset((big,)))


def test_a_word_of_a_worker_that_knows_fewer_kinds_is_understood():
    assert report_of({"t": [["d", "q"]], "s": [], "u": []}) == CommitReport(touched=frozenset((QueueName("d", "q"),)))


@given(st.lists(reports, min_size=1, max_size=4))
def test_reports_told_together_say_what_they_said_alone(told):
    together = merged(told)
    assert together.touched == {name for report in told for name in report.touched}
    assert together.uncertain == {name for report in told for name in report.uncertain}
    assert together.rejected == {name for report in told for name in report.rejected}
    for kind in ("settled", "changed"):
        expected: dict[QueueName, list] = {}
        for report in told:
            for name, named in getattr(report, kind).items():
                expected.setdefault(name, []).extend(named)
        assert {name: list(named) for name, named in getattr(together, kind).items()} == expected


@given(st.lists(st.tuples(st.sampled_from(MessageKind), st.text(max_size=50)), max_size=6), st.data())
def test_frames_survive_any_cut(sent, data):
    stream = b"".join(encode(kind, text) for kind, text in sent)
    framer, received = Framer(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        received += framer.feed(stream[:size])
        stream = stream[size:]
    assert [(frame.kind, frame.body) for frame in received] == sent


def test_the_header_is_that_of_earlier_versions():
    assert encode(MessageKind.LOST) == bytes.fromhex("04000000 01 03 0000 ffff") + b"null"


def test_a_word_of_another_version_is_passed_over(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(messages, "VERSION", 2)
        later = encode(MessageKind.KILL, ["in another form"])
    received = list(Framer().feed(later + encode(MessageKind.LOST)))
    assert [frame.kind for frame in received] == [MessageKind.LOST]


def test_a_word_that_is_too_large_is_not_sent_and_not_taken():
    with pytest.raises(ValueError, match="bytes"):
        encode(MessageKind.ANSWER, "x" * messages.BODY_MAX_BYTES)
    with pytest.raises(FrameError):
        list(Framer().feed(b"\xff\xff\xff\x7f" + bytes(20)))


SENSELESS = [
    None,
    [],
    {},
    {"t": 1},
    {"t": [], "s": [["d", "q", [None]]], "u": []},
    {"t": [["d"]], "s": [], "u": []},
]


@pytest.mark.parametrize("body", SENSELESS, ids=str)
def test_a_body_that_is_no_report_is_refused(body):
    with pytest.raises((ValueError, KeyError, TypeError)):
        report_of(body)


def test_a_long_answer_goes_in_portions_that_fit():
    items = [["x" * (n % 7000), n] for n in range(500)]
    lists = list(portions(items))
    assert [item for portion in lists for item in portion] == items
    assert all(len(json.dumps([1, portion, True])) <= messages.BODY_MAX_BYTES for portion in lists)
    assert list(portions([])) == [[]]
