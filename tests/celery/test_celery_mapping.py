"""Messages as rows, and what their options mean: no network, no clock."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace

import amqp.exceptions
import kombu
import pymysql
import pytest
from over import over

from queuegate_celery.errors import Unavailable, to_amqp_error
from queuegate_celery.exchanges import matches
from queuegate_celery.messages import (
    COLUMNS,
    NS,
    TIME_NS_MAX,
    delivered,
    incoming,
    outgoing,
    queue_priority,
    scheduled_ns,
)
from queuegate_celery.mysql_client.driver import escaped, quoted
from queuegate_celery.queues import Queues
from queuegate_celery.settings import Address, SettingError, Settings, address_of

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
NOW_NS = int(NOW.timestamp()) * NS
ADDRESS = Address("host", 3307, "app", "secret", "shop")


@over(
    [(None, 50), (0, 50), (1, 49), (9, 41), (10, 41), (255, 41), (-1, 50), ("5", 45), ("high", 50), (float("inf"), 50)],
)
def test_a_higher_priority_is_a_lower_number(case):
    priority, column = case
    assert queue_priority(priority) == column


@over(
    [
        (NOW + timedelta(seconds=1.5), 1.5),
        ((NOW + timedelta(hours=1)).astimezone(timezone(timedelta(hours=5, minutes=30))), 3600),
        (NOW + timedelta(microseconds=1), 0.000001),
    ],
)
def test_an_eta_is_a_time_of_the_queue(case):
    eta, after_seconds = case
    assert scheduled_ns(eta.isoformat(), NOW_NS) == NOW_NS + round(after_seconds * 1_000_000) * 1000


@over(
    [None, "", "soon", 17, NOW.isoformat(), "2020-01-01T00:00:00+00:00", "2099-01-01T00:00:00", "2026-13-01"],
)
def test_what_is_no_eta_or_has_no_offset_or_is_past_begins_now(eta):
    assert scheduled_ns(eta, NOW_NS) is None


def test_an_eta_beyond_all_times_is_kept_below_what_a_queue_sets_aside():
    assert scheduled_ns("9999-12-31T23:59:59+00:00", NOW_NS) == TIME_NS_MAX < 9223372036854775806


def test_a_row_holds_all_of_a_message():
    message = {
        "body": "größe",
        "content-type": "text/plain",
        "content-encoding": "utf-8",
        "headers": {"task": "shop.pay", "id": "a" * 300, "deep": {"n": [1, None]}, "at": NOW},
        "properties": {"priority": 4, "expiration": "1500", "reply_to": "r"},
    }
    row = outgoing(message, "x", "k", NOW_NS)
    named = dict(zip(COLUMNS, row.values, strict=True))
    assert (named["task"], len(named["task_id"]), named["body"]) == ("shop.pay", 255, "größe".encode())
    assert (row.priority, row.scheduled_ns, named["time_expires"]) == (46, None, NOW_NS + 1_500_000_000)
    wire = [
        None if value is None else value if isinstance(value, bytes) else str(value).encode() for value in row.values
    ]
    back = incoming([b"7", b"2", *wire])
    assert (back.id, back.attempt, back.exchange, back.routing_key, back.body) == (7, 2, "x", "k", "größe".encode())
    assert back.headers == message["headers"] and back.properties == message["properties"]
    assert not back.expired(NOW_NS) and back.expired(NOW_NS + 1_500_000_000)
    given = delivered(back, None, 3, "c")
    assert given.delivery_info == {
        "exchange": "x", "routing_key": "k", "redelivered": True, "consumer_tag": "c", "priority": 4,
    }  # fmt: skip
    assert given.delivery_tag == 3


@over([("1500", NOW_NS + 1_500_000_000), ("1e300", TIME_NS_MAX), ("nan", None), ("inf", None), ("soon", None)])
def test_an_expiration_is_a_time_or_refused(case):
    expiration, expires = case
    message = {"body": "", "content-type": None, "content-encoding": None, "headers": {}}
    message["properties"] = {"expiration": expiration}
    if expires is None:
        with pytest.raises(amqp.exceptions.PreconditionFailed, match=expiration):
            outgoing(message, "x", "k", NOW_NS)
    else:
        assert outgoing(message, "x", "k", NOW_NS).values[-1] == expires


@over(
    [
        ("direct", "a", "a", True), ("direct", "a", "a.b", False), ("direct", "*", "a", False),
        ("fanout", "a", "b", True),
        ("topic", "a.*", "a.b", True), ("topic", "a.*", "a", False), ("topic", "a.*", "a.b.c", False),
        ("topic", "a.#", "a", True), ("topic", "a.#", "a.b.c", True), ("topic", "#", "", True),
        ("topic", "#", "a.b", True),
        ("topic", "#.b", "b", True), ("topic", "#.b", "a.b", True), ("topic", "#.b", "a.c", False),
        ("topic", "a.#.z", "a.z", True), ("topic", "a.#.z", "a.b.c.z", True), ("topic", "a.#.z", "a.b.c", False),
        ("topic", "*.#.*", "a", False), ("topic", "*.#.*", "a.b", True), ("topic", "a.b", "a.b", True),
        ("topic", "a.b", "axb", False), ("topic", "a+.(b)", "a+.(b)", True),
    ],
)  # fmt: skip
def test_routing_is_that_of_amqp(case):
    kind, binding, key, fits = case
    assert matches(kind, binding, key) is fits


def test_a_pattern_of_many_wildcards_costs_little():
    assert not matches("topic", ".".join(["#", "a"] * 100), ".".join(["a"] * 199 + ["b"]))


def test_an_unknown_type_of_exchange_is_refused():
    with pytest.raises(ValueError, match="headers"):
        matches("headers", "", "")


def test_names_cannot_leave_their_quotes():
    assert quoted("a`b", "c") == "`a``b`.`c`"
    assert escaped("100%s`") == "`100%%s```"


def client(**given):
    return SimpleNamespace(**{
        "hostname": None, "port": None, "userid": None, "password": None, "virtual_host": "shop", "ssl": False,
        "connect_timeout": 4, **given,
    })  # fmt: skip


def test_an_address_is_what_the_url_says():
    assert address_of(client()) == Address("localhost", 3307, "root", "", "shop", 4.0)
    given = address_of(client(hostname="h", port=3, userid="u", password=lambda: "p", ssl=True))
    assert (given.host, given.port, given.user, given.password) == ("h", 3, "u", "p")
    assert isinstance(given.tls, ssl.SSLContext) and given.tls.verify_mode == ssl.CERT_REQUIRED
    assert "p" not in repr(Address("h", 3, "u", "password", "d")).replace("port", "").replace("Address", "").split("=")
    named = address_of(client(ssl={"ca_certs": "ca.pem", "certfile": "c.pem", "cert_reqs": ssl.CERT_NONE}))
    assert named.tls == {"ca": "ca.pem", "cert": "c.pem", "verify_mode": False, "check_hostname": False}
    two = kombu.Connection("queuegate://u@a:1/shop;queuegate://u@b/shop")
    assert address_of(two).proxies == {("a", 1), ("b", 3307)}
    for nothing in (None, "", "/"):
        with pytest.raises(SettingError, match="names no database"):
            address_of(client(virtual_host=nothing))


@over(
    [
        ({"lease": 1}, "lease"),
        ({"lease": "1m"}, "lease"),
        *(({"socket_timeout": seconds}, "socket_timeout") for seconds in (0, float("nan"), float("inf"), 1e10)),
        ({"queue_options": "x"}, "queue_options"),
    ],
)
def test_options_that_cannot_be_are_named(case):
    options, word = case
    with pytest.raises(SettingError, match=word):
        Settings.of(options)


def test_a_queue_is_made_with_what_its_arguments_and_the_options_say():
    queues = Queues(None, Settings.of({"lease": 90, "queue_options": {"purge_after": "2h"}, "max_retries": 3}))  # type: ignore[arg-type]
    made = queues.options("q", {"x-max-priority": 9, "x-queue-type": "quorum", "x-delivery-limit": 7, "max_rate": 5})
    assert made == {"ack_wait": "90s", "min_backoff": "1s", "purge_after": "2h", "max_attempts": 7, "max_rate": 5}
    for name in ("x-message-ttl", "x-max-length", "x-dead-letter-exchange", "x-unheard-of", "x-delivery-limit"):
        with pytest.raises(amqp.exceptions.PreconditionFailed, match=name):
            queues.options("q", {name: "many"})
    assert Settings.of({"queue_prefix": None}).queue_prefix == ""


@over(
    [
        (2013, amqp.exceptions.RecoverableConnectionError, "the connection to host:3307/shop"),
        (1053, amqp.exceptions.RecoverableConnectionError, "1053"),
        (1045, amqp.exceptions.IrrecoverableConnectionError, "user 'app' is not let in"),
        (1049, amqp.exceptions.IrrecoverableConnectionError, "names the database"),
        (1142, amqp.exceptions.AccessRefused, "Grant user 'app'"),
        (1146, amqp.exceptions.NotFound, "declared"),
        (1347, amqp.exceptions.PreconditionFailed, "queue_prefix"),
        (1064, amqp.exceptions.ChannelError, "1064"),
        (1235, amqp.exceptions.ChannelError, "1235"),
        (1406, amqp.exceptions.ChannelError, "1406"),
        (4025, amqp.exceptions.ChannelError, "4025"),
        *((code, Unavailable, str(code)) for code in (1020, 1047, 1105, 1176, 1205, 1213, 1290, 1836, 3100)),
    ],
)
def test_errors_are_those_that_kombu_knows(case):
    number, kind, words = case
    error = to_amqp_error(pymysql.err.OperationalError(number, "said"), ADDRESS)
    assert isinstance(error, kind) and words in str(error) and "secret" not in str(error)


def test_a_socket_that_fails_is_a_connection_that_was_lost():
    assert isinstance(to_amqp_error(ConnectionResetError("x"), ADDRESS), amqp.exceptions.RecoverableConnectionError)
