"""The worker's words: addresses, names, statements, pauses, what a handler's signature says, command lines."""

from __future__ import annotations

import functools
from unittest.mock import AsyncMock, MagicMock, Mock

import pymysql
import pytest

from proxy.errors import BackendLost
from queuegate_worker import Message, Reject, Retry, Worker, WorkerError, task
from queuegate_worker.address import Address, address_of
from queuegate_worker.backoff import Backoff
from queuegate_worker.command import import_object, main
from queuegate_worker.errors import BACKEND_LOST, connection_lost, permanent, reason_of
from queuegate_worker.handlers import handler_of
from queuegate_worker.receiver import columns_to_select
from queuegate_worker.statements import Statements, ack_wait_of, quoted


def test_a_url_is_read():
    read = address_of("mysql://app:p%40ss%2Fword@db.example.com:3308/shop?ssl_ca=/ca.pem", {})
    assert (read.host, read.port, read.user, read.password, read.database) == (
        "db.example.com", 3308, "app", "p@ss/word", "shop",
    )  # fmt: skip
    assert read.arguments()["ssl_verify_identity"] is True and read.arguments()["password"] == b"p@ss/word"
    assert address_of("mysql://localhost", {}) == Address(host="localhost")
    assert address_of("mysql://[::1]:3307/x", {}).host == "::1"
    assert address_of("mysql://app@h/x", {"MYSQL_PWD": "from there"}).password == "from there"
    assert address_of("mysql://app:@h/x", {"MYSQL_PWD": "from there"}).password == ""


def test_bytes_that_are_no_utf_8_are_refused():
    for wrong in ({"user": "caf\udce9"}, {"database": "caf\udce9"}):
        with pytest.raises(WorkerError, match="UTF-8"):
            address_of(wrong, {})
    with pytest.raises(WorkerError, match="no name of a queue"):
        Worker({}, "caf\udce9")


def test_a_password_is_shown_nowhere():
    read = address_of("mysql://app:s3cret@h/x", {})
    assert address_of("mysql://app:s3cret@h/x?ssl_ca=/etc/a@b.pem", {}).options == {"ssl_ca": "/etc/a@b.pem"}
    assert "s3cret" not in f"{read} {read!r} {Worker(read, 'q')!r}" and str(read) == "app@h:3307/x"
    for url in (
        "mysql://app:s3cret@h:port/x", "http://app:s3cret@h/x", "mysql://app:s3cret@h/x?s3cret=1#s3cret", "s3cret",
        "mysql://app:s3#cret@h/x", "mysql://app:s3/cret@h/x", "mysql://app:s3cret@[h/x", "mysql://app:x[s3cret@h/x", "mysql://app:x?s3cret=1@h/x",
        "mysql://app:x@y?s3cret=1@h/x", "mysql://app:12?s3cret@h/x", "mysql://app:x?ssl_ca=s3cret@h/x",
    ):  # fmt: skip
        with pytest.raises(WorkerError) as refused:
            address_of(url, {})
        assert "s3" not in str(refused.value) and "mysql://USER:PASSWORD@HOST:PORT/DATABASE" in str(refused.value)


def test_unknown_options_are_refused():
    with pytest.raises(WorkerError, match="known are unix_socket, ssl_ca"):
        address_of("mysql://h/x?timeout=3", {})
    with pytest.raises(WorkerError, match="autocommit"):
        address_of({"host": "h", "autocommit": False}, {})
    assert address_of({"host": "h", "read_timeout": 3}, {}).arguments()["read_timeout"] == 3


def test_arguments_that_cannot_be_those_of_a_connection_are_refused():
    for change, problem in (
        ({"port": "3307"}, "port of the address is '3307'"), ({"port": 65536}, "port"), ({"port": True}, "port"),
        ({"hots": 1, "pasword": "s3cret"}, "pymysql.connect has no arguments hots, pasword"),
        ({"host": "a..b"}, "host of the address"), ({"host": "a" * 64}, "host of the address"), ({"host": 1}, "host"),
        ({"user": b"root"}, "user of the address is a bytes"), ({"password": 7}, "password of the address is a int"),
        ({"database": 7}, "database"),
    ):  # fmt: skip
        with pytest.raises(WorkerError, match=problem):
            Worker({"host": "h", **change}, "q")
    with pytest.raises(WorkerError, match="host of the address"):
        Worker("mysql://app:s3cret@a..b/x", "q")


def test_arguments_that_are_none_are_not_given():
    nothing = dict.fromkeys(("host", "port", "user", "password", "database"))
    assert address_of(nothing, {}) == Address()
    for password in (b"", b"p\xc3\xa4ss", b"\xff"):
        assert address_of({"password": password}, {}).arguments()["password"] == password


@pytest.mark.parametrize(
    ("name", "sql"),
    [("q", "`q`"), ("shop.q", "`shop`.`q`"), ("`a.b`", "`a.b`"), ("x.`a``b`", "`x`.`a``b`"), ("50%", "`50%%`")],
)
def test_names_of_queues(name, sql):
    assert quoted(name) == sql


@pytest.mark.parametrize("name", ["", "a.b.c", ".a", "a.", "`a", "a`b", "``", "`a`b"])
def test_what_is_no_name(name):
    with pytest.raises(WorkerError, match="no name of a queue"):
        quoted(name)


def messages(*epochs):
    return [Message("q", number, epoch) for number, epoch in enumerate(epochs, 1)]


def test_statements_name_deliveries():
    made = Statements("q", "me", 1000)
    assert list(made.ack(messages(1))) == [("ACK `q` WHERE id = %s AND epoch = %s", (1, 1))]
    assert list(made.nack(messages(1, 1, 2), "no", 0.5)) == [
        ("NACK `q` WHERE id IN (%s, %s) AND epoch = %s DELAY %s REASON %s", (1, 2, 1, "500ms", "no")),
        ("NACK `q` WHERE id = %s AND epoch = %s DELAY %s REASON %s", (3, 2, "500ms", "no")),
    ]
    assert next(made.nack(messages(1), "no", None))[0].endswith("epoch = %s REASON %s")
    assert list(made.renew(messages(4), 2.0001)) == [
        ("RENEW `q` WHERE id = %s AND epoch = %s FOR %s", (1, 4, "2001ms"))
    ]
    assert [len(values) - 1 for _, values in made.release(messages(*[1] * 1200))] == [500, 500, 200]
    assert list(made.ack([])) == []


def test_a_poll_has_its_bounds():
    sql, values = Statements("q", "me", 1000, "connection", 30.0).poll(["id", "a b%", "epoch"], 7, 30.0)
    assert sql == (
        "SELECT `id`, `a b%%`, `epoch` FROM STREAM `q` LIMIT %s WAIT %s"
        " WITH (lease = %s, prefetch = %s, consumer = %s, ack_wait = %s)"
    )
    assert values == (7, "30000ms", "connection", 1000, "me", "30000ms")
    assert "NOWAIT WITH" in Statements("q", "me", 1000).poll(["id"], 7, 0)[0]
    sql, values = Statements("q", "me", 1000, key_range="-80").poll(["id"], 7, 0)
    assert sql.endswith(", consumer = %s, key_range = %s)") and values[-1] == "-80"


def test_the_queues_ack_wait():
    text = "CREATE QUEUE `q` (\n  `ack_wait = '9s'` int\n) WITH ({}, min_backoff = '1s')"
    assert ack_wait_of(text.format("ack_wait = '30s'")) == 30
    assert ack_wait_of(text.format("ack_wait = '500ms'")) == 0.5
    assert ack_wait_of(text.format("prefetch = 7, ack_wait = '1.5m'")) == 90
    assert ack_wait_of(text.format("prefetch = 7")) is None


def test_pauses_double_up_to_half_a_minute_and_begin_anew():
    backoff = Backoff(chance=lambda: 1.0)
    assert [backoff.next_seconds() for _ in range(11)] == pytest.approx(
        [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30]
    )
    backoff.succeeded()
    assert backoff.next_seconds() == 0.1
    assert Backoff(chance=lambda: 0.0).next_seconds() == 0.05


def test_what_a_signature_says():
    assert not handler_of(lambda message: None, batches=False).transactional
    assert handler_of(lambda message, transaction: None, batches=False).transactional
    assert not handler_of(lambda message, extra=1: None, batches=False).transactional
    assert not handler_of(print, batches=False).transactional

    class Callable:
        async def __call__(self, message, transaction):
            pass

    made = handler_of(Callable(), batches=True)
    assert made.asynchronous and made.transactional and made.batches

    def generates(message):
        yield

    with pytest.raises(WorkerError, match="runs nothing of it"):
        handler_of(generates, batches=False)
    for wrong in (lambda: None, lambda a, b, c: None, lambda message, *, other: None, 7):
        with pytest.raises(WorkerError, match="a handler takes the message"):
            handler_of(wrong, batches=False)


def with_session(function):
    """A decorator that fills the second argument."""

    @functools.wraps(function)
    def around(message):
        return function(message, "session")

    return around


def passing_on(function):
    @functools.wraps(function)
    def around(*args, **kwargs):
        return function(*args, **kwargs)

    return around


class Booker:
    def __init__(self, message=None):
        pass

    @passing_on
    def book(self, message, transaction):
        pass


def test_how_a_handler_below_a_decorator_is_called():
    def handle(message, transaction):
        pass

    def with_default(message, transaction=None):
        pass

    for one in (with_session(handle), passing_on(with_session(handle)), functools.partial(handle, None)):
        assert not handler_of(one, batches=False).transactional
    own = passing_on(passing_on(handle))
    for two in (own, functools.partial(own), Booker().book, with_default, functools.lru_cache(handle)):
        assert handler_of(two, batches=False).transactional


def test_a_mock_is_a_handler():
    assert not handler_of(Mock(), batches=False).transactional
    assert not handler_of(MagicMock(), batches=False).asynchronous
    assert handler_of(AsyncMock(), batches=False).asynchronous


def test_what_is_no_handler_although_it_can_be_called():
    def bare(*args):
        pass

    def by_name(message, *, transaction=None):
        pass

    named = task(name="test_what_is_no_handler")(lambda customer: None)
    for wrong, problem in (
        (Booker, "is a class"), (dict, "is a class"), (bare, r"functools\.wraps"), (named, "is a task: .* module"),
        (by_name, "second argument"), (max, "a handler takes the message"),
    ):  # fmt: skip
        with pytest.raises(WorkerError, match=problem):
            handler_of(wrong, batches=False)


class Unreadable(Exception):
    def __str__(self):
        return self.args[0]


def test_reasons_are_what_the_server_keeps():
    assert reason_of(ValueError("x")) == "ValueError: x" and reason_of(KeyError()) == "KeyError"
    assert reason_of(Reject("bad")) == "bad" and reason_of(Retry("later", delay=3)) == "later"
    assert len(reason_of(ValueError("x" * 5000))) == 1000
    reason_of(ValueError("\ud800")).encode()
    assert reason_of(Unreadable()) == "Unreadable: its text cannot be read: IndexError"
    for delay in (-1, 1e9):
        with pytest.raises(ValueError, match="ten years"):
            Retry(delay=delay)


def test_which_errors_end_what():
    assert permanent(pymysql.err.OperationalError(1045, "denied"), "q").args[0].startswith("q: ERROR 1045: denied")
    for number in (1205, 1213, 2013, 1040, 1218, 1053):
        assert permanent(pymysql.err.OperationalError(number, "x"), "q") is None
    assert connection_lost(pymysql.err.OperationalError(2006, "x")) and connection_lost(OSError())
    assert connection_lost(pymysql.err.InterfaceError(0, ""))
    assert not connection_lost(pymysql.err.OperationalError(1213, "deadlock")) and not connection_lost(ValueError())
    assert BackendLost("reset").message == f"{BACKEND_LOST}reset"


def test_a_message_is_a_frozen_value():
    message = Message("q", 7, 2, {"payload": "x", "id_of": 3})
    assert (message.payload, message["payload"], message.id_of, list(message)) == ("x", "x", 3, ["payload", "id_of"])
    assert message == Message("q", 7, 2, {"payload": "x", "id_of": 3})
    with pytest.raises(AttributeError, match="no column 'nope'"):
        _ = message.nope
    with pytest.raises(AttributeError):
        message.id = 8
    with pytest.raises(TypeError):
        message.columns["payload"] = "y"


@pytest.mark.parametrize(
    "options",
    [
        *({"concurrency": 0}, {"batch": 100_000}, {"ack_wait": 0.01}, {"ack_wait": "soon"}, {"lease": "x"}),
        *({"grace": -1}, {"concurrency": 1.5}, {"batch": 1.5}, {"batch": 0}, {"batch": True}, {"consumer": 5}),
        *({"key_range": 80}, {"queue": None}, {"address": 3307}),
    ],
)
def test_options_have_bounds(options):
    with pytest.raises(WorkerError, match=next(iter(options))):
        Worker(**{"address": "mysql://h/x", "queue": "q", **options})


def test_a_handler_is_found_by_its_name(tmp_path, monkeypatch):
    (tmp_path / "mine_ok.py").write_text("class C:\n    def f(m): pass\ng = C.f\n")
    (tmp_path / "mine_broken.py").write_text("import no_such_library\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert import_object("mine_ok:g") is import_object("mine_ok:C.f")
    for name, words in (
        ("mine_ok", "module:function"), (":g", "module:function"), ("mine_ok:h", "has no 'h'"),
        ("mine_not_there:g", "there is no module 'mine_not_there'"), ("mine_ok.sub:g", "there is no module"),
        ("mine_ok.py:g", "without '.py'"),
    ):  # fmt: skip
        with pytest.raises(WorkerError, match=words):
            import_object(name)
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        import_object("mine_broken:g")


def test_mistakes_in_the_command_line_are_exit_code_2(capsys, monkeypatch):
    monkeypatch.setattr("sys.path", list(__import__("sys").path))
    assert main(["no.such:thing", "--queue", "q"]) == 2
    assert capsys.readouterr().err.startswith("queuegate-work: there is no module 'no'")
    assert main(["builtins:print", "--queue", "a.b.c"]) == 2
    capsys.readouterr()
    assert main(["builtins:print"]) == 2 and "give --queue" in capsys.readouterr().err


def test_a_function_is_shown_by_its_name():
    def three(one, two, three):
        """No handler."""

    with pytest.raises(WorkerError, match=r"three takes \(one, two, three\)") as refused:
        handler_of(three, batches=False)
    assert " at 0x" not in str(refused.value)


def test_deliveries_with_tokens_are_named_by_them():
    made = Statements("q", "me", 10)
    alike = [Message("q", number, number, lease_token=77) for number in (1, 2)]
    assert list(made.ack(alike)) == [("ACK `q` WHERE id IN (%s, %s) AND lease_token = %s", (1, 2, 77))]
    assert [values for _, values in made.renew([*alike, Message("q", 3, 1, lease_token=78)], 2)] == [
        (1, 2, 77, "2000ms"),
        (3, 78, "2000ms"),
    ]
    assert made.acked(alike[0])[1] == (1, 77)
    assert columns_to_select(["id", "n"], tokens=True) == ["id", "n", "epoch", "lease_token"]
    assert columns_to_select(["id", "epoch"], tokens=False) == ["id", "epoch"]


def test_a_message_acks_its_own_delivery_by_its_token():
    class Cursor:
        rowcount = 1

        def execute(self, query, args=None):
            self.sent = (query, args)

    cursor = Cursor()
    Message("q", 7, 2, ack_statement="ACK q", lease_token=77).ack(cursor)
    assert cursor.sent == ("ACK q", (7, 77))
    Message("q", 7, 2, ack_statement="ACK q").ack(cursor)
    assert cursor.sent == ("ACK q", (7, 2))
    Message("q", 7, 2, ack_statement="ACK q").nack(cursor, "busy")
    assert cursor.sent == ("NACK q REASON %s", (7, 2, "busy"))
    Message("q", 7, 2, ack_statement="ACK q", lease_token=77).reject(cursor, "bad")
    assert cursor.sent == ("REJECT q REASON %s", (7, 77, "bad"))
