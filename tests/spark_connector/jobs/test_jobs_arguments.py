"""The command line of the jobs: what it accepts, what it refuses and how, and that its options are the connector's."""

from __future__ import annotations

import io

import pytest

from spark_connector.jobs.arguments import CONNECTION, connection, parse, parser
from spark_connector.jobs.commands import main
from spark_connector.options import batch_read

URL = "mysql://root@127.0.0.1:3307/main"
ARCHIVE = ["archive", "--url", URL, "--queue", "orders", "--path", "/a"]
JOBS = ("archive", "report", "dead-letters", "replay", "enqueue")


def test_durations():
    assert parse(ARCHIVE).margin == 600
    assert [parse([*ARCHIVE, "--margin", d]).margin for d in ("0", "90", "500ms", "30s", "5m", "2h", "1d")] == [
        0, 90, 0.5, 30, 300, 7200, 86400,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["fly"],
        ["archive"],
        [*ARCHIVE, "--margin", "soon"],
        [*ARCHIVE, "--rows-per-file", "0"],
        [*ARCHIVE, "--purge"],
        ["report", "--url", URL, "--archive", "/a"],
        ["report", "--url", URL, "--queue", "q", "--only-archive"],
        ["report", "--url", URL, "--format", "parquet"],
        ["enqueue", "--url", URL, "--queue", "q", "--input", "/x", "--option", "header"],
        ["replay", "--url", URL, "--queue", "q", "--archive", "/x"],
        ["replay", "--url", URL, "--queue", "q", "--run", "r"],
        ["replay", "--url", URL, "--queue", "q", "--run", "r", "--archive", "/x", "--from-topic", "t"],
    ],
    ids=" ".join,
)
def test_wrong_usage_ends_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        parse(arguments)
    assert ended.value.code == 2
    assert "error:" in capsys.readouterr().err


@pytest.mark.parametrize("job", JOBS)
def test_every_job_explains_itself_and_every_argument(job, capsys):
    with pytest.raises(SystemExit) as ended:
        parse([job, "--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert "--url" in said
    assert len(said.splitlines()) > 30


def test_the_connection_is_given_as_the_connector_wants_it(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("hunter2\n")
    given = parse(
        ["archive", "--host", "h", "--port", "3310", "--user", "u", "--password-file", str(secret), "--database", "d",
         "--ssl", "required", "--connect-timeout", "3", "--query-timeout", "60", "--queue", "q", "--path", "/a"]
    )  # fmt: skip
    address = batch_read(connection(given)).address
    assert (address.host, address.port, address.user, address.password) == ("h", 3310, "u", "hunter2")
    assert (address.database, address.ssl, address.connect_timeout, address.query_timeout) == ("d", "required", 3, 60)


def test_every_option_of_a_connection_can_be_given():
    from spark_connector import option_names

    taken = {"password"}  # the command line is seen by others
    assert set(CONNECTION.values()) == set(option_names.CONNECTION) - taken


def test_there_is_no_way_to_give_a_password_that_others_see():
    assert "--password " not in parser().format_help()
    with pytest.raises(SystemExit):
        parse([*ARCHIVE, "--password", "x"])


def test_a_proxy_that_is_down_is_one_line_and_1(capsys):
    code = main(["archive", "--url", "mysql://root@127.0.0.1:1/main", "--queue", "q", "--path", "/nowhere"])
    said = capsys.readouterr()
    assert code == 1
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith("archive: user 'root' cannot connect to 127.0.0.1:1/main")


def test_an_option_that_is_wrong_is_one_line_and_1(capsys):
    assert main(["report", "--url", "jdbc:mysql://127.0.0.1/main"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_progress_is_a_line_at_a_time_where_nobody_watches():
    from spark_connector.jobs.console import Console

    to, times = io.StringIO(), iter([100.0, 102.0])
    with Console(to, lambda: next(times)).phase("writing", 500) as phase:
        phase.count = 500
    assert to.getvalue() == "writing: 500 messages in 2.0 s (250/s)\n"


def test_a_phase_that_fails_is_not_said_to_be_done():
    from spark_connector.jobs.console import Console

    to = io.StringIO()
    with pytest.raises(ZeroDivisionError), Console(to).phase("writing"):
        raise ZeroDivisionError
    assert to.getvalue() == ""


def test_a_phase_says_how_far_it_is():
    from spark_connector.jobs.console import Phase

    phase = Phase("writing", 1000, "messages")
    phase.live, phase.tasks = lambda: 400, lambda: (2, 5)
    assert phase.line(4.0, False) == "writing: 400 of 1,000 messages task 2 of 5, 4 s (100/s)"
