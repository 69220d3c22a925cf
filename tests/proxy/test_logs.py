"""Log lines: fields, quoting, JSON, and that talkative libraries stay quiet."""

from __future__ import annotations

import io
import json
import logging
import time

import pytest

from proxy import logs
from proxy.config import Log, LogFormat, LogLevel


@pytest.fixture
def logged():
    """Configures logging to a buffer and restores it afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    quiet = {name: logging.getLogger(name).level for name in ("mysql_mimic", "sqlglot", "asyncio", "asyncio_pool")}
    buffer = io.StringIO()

    def configure(**settings):
        logs.configure(Log(**settings), buffer)
        return buffer

    yield configure
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, old in quiet.items():
        logging.getLogger(name).setLevel(old)


def test_key_value(logged):
    buffer = logged()
    logging.getLogger("proxy.app").info("listening on %s", "127.0.0.1:3307", extra={"backend": "sqlite", "empty": ""})
    line = buffer.getvalue()
    assert line.startswith("time=20")
    assert line.endswith('Z level=info logger=proxy.app msg="listening on 127.0.0.1:3307" backend=sqlite empty=""\n')


def test_one_record_is_one_line_whatever_is_in_it(logged):
    buffer = logged()
    logging.getLogger("x").warning('evil"\n level=error', extra={"peer": "a b\r\nc=d"})
    assert buffer.getvalue().count("\n") == 1
    assert r'msg="evil\"\n level=error" peer="a b\r\nc=d"' in buffer.getvalue()


def test_json(logged):
    buffer = logged(format=LogFormat.JSON)
    logging.getLogger("proxy").error("größe\n", extra={"n": 3, "odd": object})
    record = json.loads(buffer.getvalue())
    assert {key: record[key] for key in ("level", "logger", "msg", "n")} == {
        "level": "error", "logger": "proxy", "msg": "größe\n", "n": 3,
    }  # fmt: skip
    assert "odd" in record


def test_exceptions_are_a_field(logged):
    buffer = logged()
    try:
        raise ValueError("wrong")
    except ValueError:
        logging.getLogger("x").exception("failed")
    line = buffer.getvalue()
    assert line.count("\n") == 1
    assert "exception=" in line
    assert "ValueError: wrong" in line


def test_warnings_are_kept_with_their_fields(logged):
    logged(level=LogLevel.ERROR)
    log = logging.getLogger("queuegate.x")
    log.info("not kept")
    log.warning("first", extra={"peer": "a b"})
    assert logs.recent.newest() == [], "what is not logged is not kept"
    logged()
    log.warning("first of %d", 2, extra={"peer": "a b"})
    try:
        raise ValueError("wrong")
    except ValueError:
        log.exception("failed")
    second, first = logs.recent.newest()
    assert (first.level, first.logger, first.message, first.details) == (
        "warning", "queuegate.x", "first of 2", 'peer="a b"',
    )  # fmt: skip
    assert (second.level, second.message, second.details) == ("error", "failed", 'exception="ValueError: wrong"')
    assert abs(first.at_ns - time.time_ns()) < 60_000_000_000
    for n in range(logs.RECENT_MAX + 5):
        log.warning("x" * 5000 + str(n))
    kept = logs.recent.newest()
    assert len(kept) == logs.RECENT_MAX and all(len(record.message) == logs.RECORD_CHARACTERS for record in kept)


def test_level(logged):
    buffer = logged(level=LogLevel.WARNING)
    logging.getLogger("x").info("no")
    logging.getLogger("x").warning("yes")
    assert "msg=yes" in buffer.getvalue()
    assert "msg=no" not in buffer.getvalue()


def test_libraries_that_log_statements_are_kept_quiet_at_any_level(logged):
    buffer = logged(level=LogLevel.DEBUG)
    logging.getLogger("mysql_mimic.connection").debug("Received query: SELECT 'secret'")
    assert buffer.getvalue() == ""


def test_fields_of_a_record_cannot_be_overwritten(logged):
    buffer = logged()
    logging.getLogger("x").info("m", extra={"time": "t", "level": "l"})
    assert "level=info" in buffer.getvalue()
