"""Reactive clients of Java: r2dbc-mysql, with parameters in the text and prepared, and Vert.x's client.

Neither takes a variable of another type than a server's, or waits for a packet that a server does not wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import toolchains
from servers import Gate
from transcripts import DONE, QUEUE_STORY, Address, Transcripts, address_of, assert_same

# The first test fetches the drivers, compiles the program and runs it twice.
pytestmark = [pytest.mark.timeout(600), pytest.mark.long]

CLIENTS = ("r2dbc", "r2dbc-prepared", "vertx")
SECRET = "s3cret: ü"


@pytest.fixture(scope="session")
def transcripts() -> Transcripts:
    return Transcripts()


@pytest.fixture
def lines(transcripts, tmp_path_factory) -> Callable[[str, Address, str], list[str]]:
    """What a client prints in a section, at an address."""

    def run(client: str, address: Address, section: str) -> list[str]:
        transcripts.program("reactive", lambda: toolchains.reactive(tmp_path_factory.mktemp("reactive")))
        return transcripts.sections("reactive", (client,), address, (section,))[section]

    return run


@pytest.fixture(scope="module", params=["embedded", "proxy_accounts"])
def own_accounts(request, tmp_path_factory) -> Iterator[Gate]:
    """A gate whose accounts are its own, one with a password and one without."""
    users = [{"name": "root", "password": ""}, {"name": "app", "password": SECRET}]
    directory = tmp_path_factory.mktemp("reactive_accounts")
    if request.param == "embedded":
        gate = Gate(f"sqlite:///{directory}/queue.db", directory, users=users)
    else:
        url = request.getfixturevalue("mariadb").fresh_database("reactive")
        gate = Gate(url, directory, database="reactive", auth="proxy", users=users)
    gate.start()
    yield gate
    gate.stop()


@pytest.mark.parametrize("client", CLIENTS)
def test_ordinary_sql_is_as_without_the_proxy(lines, mariadb, gate, client):
    assert_same(lines(client, address_of(mariadb), "ordinary"), lines(client, address_of(gate), "ordinary"))


@pytest.mark.parametrize("client", CLIENTS)
def test_a_queue_in_plain_sql(lines, gate, client):
    assert lines(client, address_of(gate), "queue") == QUEUE_STORY


@pytest.mark.parametrize("client", CLIENTS)
def test_a_login_with_a_password_without_and_with_a_wrong_one(lines, own_accounts, client):
    root = address_of(own_accounts)
    assert lines(client, root, "login") == ["row | 1", DONE]
    assert lines(client, replace(root, user=f"app:{SECRET}"), "login") == ["row | 1", DONE]
    for account in ("app:wrong", "root:wrong", "app"):
        told = lines(client, replace(root, user=account), "login")
        assert told[:2] == ["refused 1045 28000", DONE]  # r2dbc-mysql logs that the server hangs up then, too
