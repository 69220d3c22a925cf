"""What is used of PyMySQL's own attributes: in one module, and all of it there in the PyMySQL that is installed."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pymysql
from pymysql import _auth, connections, cursors
from pymysql.err import InterfaceError, OperationalError
from servers import ROOT

from mysql_client.driver import CONNECTION_LOST, error_number, error_text
from queuegate_celery import errors as celery_errors
from queuegate_worker import errors as worker_errors
from spark_connector.client.connection import to_connector_error
from spark_connector.errors import ConnectionFailed
from spark_connector.options import Address

DRIVER = ROOT / "mysql_client/driver.py"
USERS = ("engine", "spark_connector", "queuegate", "console", "queuegate_worker", "queuegate_celery")
"""Packages that have connections of PyMySQL's."""


def private_names(path: Path) -> set[str]:
    """Attributes with an underscore, of anything but the module's own objects; also by `getattr`."""
    tree = [*ast.walk(ast.parse(path.read_text()))]
    named = {
        node.attr
        for node in tree
        if isinstance(node, ast.Attribute)
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    }
    calls = (node for node in tree if isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr")
    named |= {str(call.args[1].value) for call in calls if isinstance(call.args[1], ast.Constant)}
    return {name for name in named if name.startswith("_") and not name.startswith("__")}


def names_of_pymysql() -> set[str]:
    """What its connections, cursors and results define, in a class or when they are made."""
    names = set()
    for module in (connections, cursors):
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                names.add(node.attr)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names.add(node.name)
    return names


def test_pymysql_has_what_the_driver_uses():
    missing = private_names(DRIVER) - names_of_pymysql()
    assert not missing, f"PyMySQL {pymysql.__version__} has no {', '.join(sorted(missing))}: see mysql_client/driver.py"
    wanted = ("scramble_native_password", "scramble_caching_sha2", "ed25519_password")
    missing = {name for name in wanted if not hasattr(_auth, name)}
    assert not missing, f"pymysql._auth has no {', '.join(sorted(missing))}: see engine/backend/password_proofs.py"
    public = {"unbuffered_active", "connection", "fields", "server_status", "server_capabilities", "encoding"}
    missing = public - names_of_pymysql()
    assert not missing, f"PyMySQL {pymysql.__version__} has no {', '.join(sorted(missing))}"


def test_nothing_else_uses_them():
    used = private_names(DRIVER)
    assert {"_sock", "_rfile", "_execute_command", "_read_packet", "_result", "_read_timeout"} <= used
    for path in (path for package in USERS for path in (ROOT / package).rglob("*.py")):
        also = used & private_names(path)
        assert not also, (
            f"{path.relative_to(ROOT)} uses {', '.join(sorted(also))}: that belongs to mysql_client/driver.py"
        )
        assert "pymysql._auth" not in path.read_text() and "pymysql import _" not in path.read_text(), path


NOT_LOST = (1047, 1064, 1146, 1205, 1213, 1290, 1317)


def test_every_client_knows_when_its_connection_is_lost():
    address = Address("h", 1, "u", "", "d")
    for lost, numbers in ((True, CONNECTION_LOST), (False, NOT_LOST)):
        for number in numbers:
            error = OperationalError(number, "x")
            assert worker_errors.connection_lost(error) == lost, number
            assert celery_errors.is_connection_lost(error) == lost, number
            assert isinstance(to_connector_error(error, address), ConnectionFailed) == lost, number


def test_errors_without_a_number_of_mysql():
    assert [error_number(error) for error in (OSError(32, "x"), OperationalError("x"), OperationalError())] == [0] * 3
    assert error_number(InterfaceError(0, ""), -1) == 0 and error_number(OperationalError(), -1) == -1
    assert error_text(OSError(32, "x")) == "[Errno 32] x" and error_text(OperationalError(2013, "x")) == "error 2013: x"
