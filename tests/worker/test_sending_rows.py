"""What a message that is sent becomes: columns, values, times, the statements; and which payloads are refused."""

from __future__ import annotations

import asyncio
import enum
import ipaddress
import pathlib
import sys
import uuid
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from types import SimpleNamespace
from typing import Annotated, Any, Literal, NewType

import pymysql
import pytest
from pydantic import AnyUrl, AwareDatetime, BaseModel, ConfigDict, Field, HttpUrl, SecretBytes, SecretStr, create_model
from typing_extensions import TypeAliasType

from queuegate_worker import Message, Queue, Reject, WorkerError
from queuegate_worker.sending import transport
from queuegate_worker.sending.connections import is_duplicate, run, run_async
from queuegate_worker.sending.models import Model, is_structured
from queuegate_worker.sending.rows import Due, as_value, current_traceparent, inserts


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Line:
    product: str
    price: Decimal


@dataclass
class Order:
    customer: int
    lines: list[Line]
    note: str | None = None
    day: date = date(2026, 1, 2)


class Mail(BaseModel):
    recipient: str
    size: Annotated[int, Field(gt=0)] = 1
    kind: Literal["text", "html"] = "text"
    headers: dict[str, str] = {}


def one(queue, row, due=None):
    (statement,) = inserts(queue, [row], Due() if due is None else due)
    return statement


def test_a_message_is_one_insert_with_its_values_bound():
    assert one("shop.orders", {"customer": 7, "note": "it's"}) == (
        "INSERT INTO `shop`.`orders` (`customer`, `note`) VALUES (%s, %s)", (7, "it's"),
    )  # fmt: skip
    assert one("q", {}) == ("INSERT INTO `q` () VALUES ()", ())
    assert one("`a.b`", {"odd`name": 1})[0] == "INSERT INTO `a.b` (`odd``name`) VALUES (%s)"


@pytest.mark.parametrize(
    ("delay", "shown"), [(0, "0ms"), (1.5, "1500ms"), (0.0001, "1ms"), (timedelta(minutes=2), "120000ms")]
)
def test_a_delay_is_in_whole_milliseconds_rounded_up(delay, shown):
    text, values = one("q", {"a": 1}, Due.of(delay, None))
    assert text.endswith(" VALUES (%s) DELAY %s") and values == (1, shown)


def test_a_time_is_exact_and_independent_of_the_session():
    at = datetime(2030, 12, 24, 18, 0, 0, 123456, tzinfo=timezone(timedelta(hours=1)))
    text, values = one("q", {"a": 1}, Due.of(None, at))
    assert text == "INSERT INTO `q` (`a`, `time_scheduled`) VALUES (%s, %s)"
    assert values == (1, 1924362000_123456_000)


@pytest.mark.parametrize(
    ("delay", "at", "problem"),
    [
        (-1, None, "0 to 315360000"), (float("nan"), None, "a number of seconds"), ("2h", None, "a number of seconds"),
        (True, None, "a number of seconds"), (1e12, None, "ten years"),
        (1, datetime(2030, 1, 1, tzinfo=UTC), "not both"),
        (None, datetime(2030, 1, 1), "without a time zone"), (None, "2030-01-01", "a datetime"),
        (None, date(2030, 1, 1), "a datetime"), (None, datetime(1999, 1, 1, tzinfo=UTC), "2000 to 2199"),
        (None, datetime(9999, 1, 1, tzinfo=UTC), "2000 to 2199"), (10**400, None, "ten years"),
        (None, datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))), "2000 to 2199"),
        (None, datetime(2200, 1, 1, tzinfo=UTC), "2000 to 2199"),
    ],
)  # fmt: skip
def test_times_that_are_none(delay, at, problem):
    with pytest.raises(WorkerError, match=problem):
        Due.of(delay, at)


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        (None, None), (True, True), (7, 7), ("x", "x"), (b"x", b"x"), (bytearray(b"x"), b"x"), (Colour.RED, "red"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"), (Decimal("1.10"), Decimal("1.10")),
        ([2**64 - 1, -(2**63), 1e30, str(2**64)], f'[{2**64 - 1},{-(2**63)},1e+30,"{2**64}"]'),
        ({"b": [1, "ä", None]}, '{"b":[1,"ä",null]}'), ([], "[]"), ((1, 2), "[1,2]"), ({3, 1}, "[1,3]"),
        ({"at": date(2026, 1, 2), "n": Decimal("1.5")}, '{"at":"2026-01-02","n":"1.5"}'),
        (Line("pen", Decimal(2)), '{"product":"pen","price":"2"}'),
        (Mail(recipient="ann"), '{"recipient":"ann","size":1,"kind":"text","headers":{}}'),
    ],
)  # fmt: skip
def test_values_as_drivers_take_them(value, sent):
    result = as_value("c", value)
    assert result == sent and type(result) is type(sent)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"), float("inf"), Decimal("NaN"), Decimal("sNaN"), {"a": float("nan")}, object(), {"a": {1j}},
        {"a": [2**64]}, [-(2**63) - 1], {"a": 10**400},
        10**400, "\udc80", {"a": "\ud800"}, datetime(2026, 7, 1, tzinfo=UTC), time(9, tzinfo=UTC),
    ],
)  # fmt: skip
def test_values_that_cannot_be_sent_are_named(value):
    with pytest.raises(WorkerError, match="'amount'"):
        as_value("amount", value)


def test_a_value_that_contains_itself_is_refused():
    loop: list = []
    loop.append(loop)
    with pytest.raises(WorkerError, match="JSON"):
        as_value("c", loop)


def test_many_messages_take_few_statements():
    statements = [*inserts("q", [{"n": number} for number in range(1001)])]
    assert [len(values) for _, values in statements] == [500, 500, 1]
    assert statements[2][0] == "INSERT INTO `q` (`n`) VALUES (%s)"
    large = [*inserts("q", [{"body": "x" * 200_000}] * 3)]
    assert [text.count("%s") for text, _ in large] == [1, 1, 1]
    with_delay = [*inserts("q", [{"n": number} for number in range(501)], Due(delay=1))]
    assert [values[-1] for _, values in with_delay] == ["1000ms", "1000ms"]


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([{"a": 1}, {"b": 1}], "same columns"), ([{"a": 1}, {}], "same columns"), ([{"50%": 1}], "percent"),
        ([{"": 1}], "no name of a column"), ([{7: 1}], "no name of a column"), ([{"\ud800": 1}], "no text of Unicode"),
    ],
)  # fmt: skip
def test_rows_that_are_refused(rows, problem):
    with pytest.raises(WorkerError, match=problem):
        [*inserts("q", rows)]


def test_names_of_queues_that_are_refused():
    with pytest.raises(WorkerError, match="no name of a queue"):
        Queue("a.b.c")
    with pytest.raises(WorkerError, match="percent"):
        [*inserts("50%", [{"a": 1}])]
    with pytest.raises(WorkerError, match="at most about 500000 bytes"):
        [*inserts("q", [{"body": "x" * 300_000}], Due(delay=1))]


def test_the_current_span_is_sent_along(monkeypatch):
    monkeypatch.delitem(sys.modules, "opentelemetry.trace", raising=False)
    assert current_traceparent() is None
    context = SimpleNamespace(is_valid=True, trace_id=0xAB, span_id=0xCD, trace_flags=1)
    span = SimpleNamespace(get_span_context=lambda: context)
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", SimpleNamespace(get_current_span=lambda: span))
    assert current_traceparent() == f"00-{'0' * 30}ab-{'0' * 14}cd-01"
    context.is_valid = False
    assert current_traceparent() is None


def test_a_dataclass_is_checked_in_both_directions():
    model = Model(Order)
    sent = model.columns(Order(7, [Line("pen", Decimal("1.50"))]))
    assert sent == {
        "customer": 7, "lines": '[{"product":"pen","price":"1.50"}]', "note": None, "day": date(2026, 1, 2),
    }  # fmt: skip
    assert model.load({**sent, "priority": 50}) == Order(7, [Line("pen", Decimal("1.50"))])
    assert model.columns({"customer": "8", "lines": []})["customer"] == 8
    for wrong in ({"customer": "x", "lines": []}, {"customer": 1}, {"customer": 1, "lines": [{"product": 1}]}):
        with pytest.raises(WorkerError, match="this is no Order: "):
            model.columns(wrong)
    broken = Order(7, [])
    broken.customer = "seven"  # type: ignore[assignment]
    with pytest.raises(WorkerError, match="customer: "):
        model.columns(broken)


def test_a_message_that_does_not_fit_is_rejected_without_its_values():
    model = Model(Order)
    for columns in ({"customer": "s3cret", "lines": "[]"}, {"customer": 1, "lines": "{s3cret"}, {"lines": "[]"}):
        with pytest.raises(Reject) as rejected:
            model.load(columns)
        assert "s3cret" not in str(rejected.value) and "Order" in str(rejected.value)


def test_a_pydantic_model_with_constraints():
    queue = Queue("mails", Mail)
    assert queue.load(Message("mails", 1, 1, {"recipient": "ann", "headers": '{"a": "b"}'})).headers == {"a": "b"}
    with pytest.raises(WorkerError, match="size: "):
        queue.send(recipient="ann", size=0, connection=None)


def test_classes_that_are_no_models():
    class Aliased(BaseModel):
        user_id: int = Field(alias="customer")

    for refused, problem in ((int, "neither"), (Aliased, "alias"), ("Order", "no class")):
        with pytest.raises(WorkerError, match=problem):
            Model(refused)


def test_pydantic_is_asked_for_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydantic", None)
    with pytest.raises(WorkerError, match="pip install"):
        Model(Order)


UserId = NewType("UserId", str)
Name = TypeAliasType("Name", str)  # type: ignore[valid-type]
BERLIN = timezone(timedelta(hours=2))


def of(annotation, **config):
    """A class with one field of this type."""
    return create_model("Payload", __config__=ConfigDict(**config), field=(annotation, ...))


@pytest.mark.parametrize(
    ("annotation", "value", "stored", "read"),
    [
        (UserId, "ann", "ann", "ann"), (Name, "123", "123", "123"), (UserId | None, None, None, None),
        (HttpUrl, HttpUrl("http://x.y/"), "http://x.y/", "http://x.y/"), (pathlib.Path, pathlib.Path("/a"), "/a", "/a"),
        (ipaddress.IPv4Address, ipaddress.IPv4Address("10.0.0.1"), "10.0.0.1", "10.0.0.1"),
        (SecretStr, SecretStr("s3"), "s3", "s3"), (SecretBytes, SecretBytes(b"s3"), b"s3", b"s3"),
        (time, time(9, 30, 0, 5), time(9, 30, 0, 5), timedelta(hours=9, minutes=30, microseconds=5)),
        (time | None, time(0), time(0), timedelta(0)),
        (timedelta, timedelta(hours=-30), timedelta(hours=-30), timedelta(hours=-30)),
        (AwareDatetime, datetime(2026, 7, 1, 12, tzinfo=BERLIN), datetime(2026, 7, 1, 10), datetime(2026, 7, 1, 10)),
        (AwareDatetime | None, datetime(2026, 7, 1, tzinfo=UTC), datetime(2026, 7, 1), datetime(2026, 7, 1)),
        (datetime, datetime(2026, 7, 1, 12), datetime(2026, 7, 1, 12), datetime(2026, 7, 1, 12)),
        (Decimal, Decimal("1.10"), Decimal("1.10"), Decimal("1.10")), (bytes, b"\xff", b"\xff", b"\xff"),
        (bool, True, True, 1),
        (uuid.UUID, uuid.UUID(int=1), uuid.UUID(int=1), str(uuid.UUID(int=1))), (Colour, Colour.RED, Colour.RED, "red"),
        (Literal["a", 1], "a", "a", "a"), (Annotated[int, Field(gt=0)], 7, 7, 7), (float | None, 0.1, 0.1, 0.1),
        (list[date], [date(2026, 1, 2)], '["2026-01-02"]', '["2026-01-02"]'), (list[bytes], [b"a"], '["a"]', '["a"]'),
        (list[HttpUrl] | None, [HttpUrl("http://x.y/")], '["http://x.y/"]', '["http://x.y/"]'),
        (dict[int, timedelta], {1: timedelta(days=2)}, '{"1":"P2D"}', '{"1": "P2D"}'),
        (Line | None, Line("pen", Decimal(2)), '{"product":"pen","price":"2"}', '{"price":2,"product":"pen"}'),
        (str | list[str], "ann", '"ann"', '"ann"'), (Any, "ann", '"ann"', '"ann"'),
    ],
)  # fmt: skip
@pytest.mark.parametrize("strict", [False, True])
def test_a_typed_value_comes_out_as_it_went_in(annotation, value, stored, read, strict):
    model = Model(of(annotation, strict=strict))
    for sent in (value, "2026-07-01T12:00:00+02:00") if not strict and stored == datetime(2026, 7, 1, 10) else (value,):
        assert model.columns({"field": sent}) == {"field": stored}
    assert model.load({"field": read}).field == value


@pytest.mark.parametrize(
    ("annotation", "text", "loaded"),
    [(UserId, "123", "123"), (AnyUrl, "http://x.y/", AnyUrl("http://x.y/")), (str | list[str], "ann", "ann")],
)
def test_what_other_programs_insert_is_read(annotation, text, loaded):
    assert Model(of(annotation)).load({"field": text}).field == loaded


@dataclass
class Weight:
    grams: float | None


@pytest.mark.parametrize(
    ("annotation", "value", "problem"),
    [
        (list[float], [float("nan")], "JSON has no number nan"),
        (list[Weight], [Weight(float("inf"))], "no number inf"),
        (list[bytes], [b"\xff"], "utf-8"), (list[SecretStr], [SecretStr("s3")], "asterisks"),
        (AwareDatetime, datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))), "out of range"),
        (list[str], ["\ud800"], "surrogates"), (list[int], [2**64], "send it as text"),
    ],
)  # fmt: skip
def test_typed_values_that_would_be_changed_are_refused(annotation, value, problem):
    with pytest.raises(WorkerError, match=f"Payload cannot be sent: field: .*{problem}"):
        Model(of(annotation)).columns({"field": value})


def test_what_could_not_be_read_again_is_refused():
    class Pair(enum.Enum):
        LEFT = (1, 2)  # an array in JSON, which is no value of it

    with pytest.raises(WorkerError, match="could not be read again: field: "):
        Model(of(Pair)).columns({"field": Pair.LEFT})


def test_a_time_with_a_zone_needs_a_field_that_says_so():
    queue = Queue("q", of(datetime))
    with pytest.raises(WorkerError, match=r"'field' is a time with a zone.*UTC"):
        queue.send(field=datetime(2026, 7, 1, tzinfo=UTC), connection=object())


def test_a_secret_inside_an_untyped_value_is_refused():
    class Login(BaseModel):
        password: SecretStr

    with pytest.raises(WorkerError, match="asterisks"):
        as_value("login", {"of": Login(password=SecretStr("s3"))})


def test_a_name_that_is_no_field_is_refused():
    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        customer: int

    for model, wrong in (
        (Mail, {"recipient": "ann", "sise": 2}),
        (Open, {"customer": 1, "notes": "x"}),
        (Open, Open(customer=1, notes="x")),  # type: ignore[call-arg]
    ):
        with pytest.raises(WorkerError, match=r"has no field '(sise|notes)'"):
            Model(model).columns(wrong)


@pytest.mark.parametrize(
    ("annotation", "structured"),
    [
        (int, False), (str | None, False), (Literal["a"], False), (Annotated[int, "x"], False), (Colour, False),
        (list[int], True), (dict, True), (Order, True), (Mail | None, True), (Annotated[list[int], "x"], True),
        (UserId, False), (Name | None, False), (TypeAliasType("Names", list[str]), True),
    ],
)  # fmt: skip
def test_which_fields_are_json(annotation, structured):
    assert is_structured(annotation) is structured


@pytest.mark.parametrize("connection", [None, 7, "mysql://root@h/x", object(), dict, lambda: None])
def test_what_is_no_connection(connection):
    with pytest.raises(WorkerError, match="is no connection; give a connection of PyMySQL"):
        run(connection, "DO 0", ())


class FakeConnection:
    """Counts its cursors."""

    cursors = 0

    def cursor(self):
        FakeConnection.cursors += 1
        raise AssertionError


def test_a_function_that_makes_connections_is_refused():
    with pytest.raises(WorkerError, match="another connection each time"):
        run(FakeConnection, "DO 0", ())
    with pytest.raises(WorkerError, match="another connection each time"):
        asyncio.run(run_async(lambda: FakeConnection(), "DO 0", ()))


def test_all_rows_are_checked_before_the_first_is_sent():
    rows = [{"n": 1.0}] * 700 + [{"n": float("nan")}]
    FakeConnection.cursors = 0
    with transport.replaced_by(transport.Database()):
        with pytest.raises(WorkerError, match="no such number"):
            Queue("q").send_many(rows, connection=FakeConnection())
        with pytest.raises(WorkerError, match="no such number"):
            asyncio.run(Queue("q").send_many_async(rows, connection=FakeConnection()))
    assert FakeConnection.cursors == 0


def test_without_a_connection_an_address_is_needed(monkeypatch):
    monkeypatch.delenv("QUEUEGATE_URL", raising=False)
    with pytest.raises(WorkerError, match="QUEUEGATE_URL"):
        Queue("q").send(a=1)
    with pytest.raises(WorkerError, match="one payload or as columns"):
        Queue("q").send({"a": 1}, b=2)
    with pytest.raises(WorkerError, match="a mapping of columns"):
        Queue("q").send([1])  # type: ignore[arg-type]
    assert Queue("q").send_many([]) == 0


@dataclass
class Wrapped(Exception):
    orig: Exception = field(default_factory=lambda: pymysql.err.IntegrityError(1062, "Duplicate entry"))


def test_a_duplicate_is_known_whoever_raises_it():
    connector = Exception("1062 (23000): Duplicate entry")
    connector.errno = 1062  # type: ignore[attr-defined]
    assert all(map(is_duplicate, (pymysql.err.IntegrityError(1062, "x"), Wrapped(), connector)))
    assert not any(map(is_duplicate, (pymysql.err.OperationalError(1213, "x"), ValueError(), KeyError("1062"))))
