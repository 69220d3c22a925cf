"""Options: each checked, unknown ones refused, secrets never shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spark_connector import options
from spark_connector.errors import OptionError
from spark_connector.option_names import Use, allowed

LEAST = {"user": "root", "database": "main", "queue": "q"}


def refusal(given: dict[str, str], use: Use = Use.BATCH_READ) -> str:
    check = {
        Use.BATCH_READ: options.batch_read,
        Use.STREAM_READ: options.stream_read,
        Use.BATCH_WRITE: lambda given: options.write(given, use),
        Use.STREAM_WRITE: lambda given: options.write(given, use),
    }[use]
    with pytest.raises(OptionError) as caught:
        check({**LEAST, **given})
    text = str(caught.value)
    assert "secret" not in text and "\n" not in text
    return text


def test_least_and_defaults():
    found = options.batch_read(LEAST)
    assert (found.queue, found.num_partitions, found.fetch_size) == ("q", 4, 10_000)
    assert not found.include_acked and found.where is None and found.columns == ()
    at = found.address
    assert (at.host, at.port, at.user, at.password, at.database, at.ssl) == (
        "127.0.0.1", 3307, "root", "", "main", "disabled",
    )  # fmt: skip


@pytest.mark.parametrize("missing", LEAST)
def test_what_must_be_given(missing):
    with pytest.raises(OptionError, match=f"option {missing} is missing"):
        options.batch_read({key: value for key, value in LEAST.items() if key != missing})


@pytest.mark.parametrize("alias", ["path", "subscribe", "topic", "QUEUE"])
def test_names_of_the_queue(alias):
    rest = {key: value for key, value in LEAST.items() if key != "queue"}
    assert options.batch_read({**rest, alias: "q"}).queue == "q"
    assert "option queue is given twice" in refusal({alias: "other"})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"includeAked": "true"}, "unknown option 'includeAked' of spark.read: did you mean includeAcked?"),
        ({"frobnicate": "secret"}, "unknown option 'frobnicate' of spark.read: there are "),
        ({"leaseSeconds": "5"}, "unknown option 'leaseSeconds' of spark.read: it belongs to spark.readStream"),
        ({"writeMode": "direct"}, "it belongs to df.write and df.writeStream"),
        ({"includeAcked": "yes"}, "option includeAcked is true or false, not 'yes'"),
        ({"numPartitions": "0"}, "option numPartitions is a whole number from 1 to 10000, not 0"),
        ({"numPartitions": "1_0"}, "option numPartitions is a whole number, not '1_0'"),
        ({"numPartitions": "4.0"}, "option numPartitions is a whole number, not '4.0'"),
        ({"fetchsize": "-1"}, "option fetchsize is a whole number from 1 to 1000000, not -1"),
        ({"port": "70000"}, "option port is a whole number from 1 to 65535"),
        ({"queryTimeout": "nan"}, "option queryTimeout is a number of seconds from 1 to"),
        ({"connectTimeout": "0"}, "option connectTimeout is a number of seconds from 0.1 to"),
        ({"queue": "x" * 65}, "at most 64 characters"),
        ({"queue": " "}, "option queue is missing"),
        ({"host": ""}, "option host is a name or an address"),
        ({"host": "db/x"}, "option host is a name or an address"),
        ({"ssl": "on"}, "option ssl is one of disabled, required, verify, not 'on'"),
        ({"sslCa": "/ca.pem"}, "option sslCa needs ssl=verify"),
        ({"password": "secret", "passwordEnv": "X"}, "the password is given 2 times, by password and passwordEnv"),
        ({"passwordEnv": "QG_NOT_SET"}, "environment variable 'QG_NOT_SET', which is not set"),
        ({"passwordFile": "/nowhere/file"}, "option passwordFile names '/nowhere/file', which cannot be read"),
        ({"url": "jdbc:mysql://h/d"}, "a JDBC URL belongs to Spark's format jdbc"),
        ({"url": "mysql://u:secret@h:x/d"}, "its port is not a number"),
        ({"url": "mysql://u:sec/ret@h:1/d"}, "are written %40 %3A %2F"),
        ({"url": "mysql://u:12/ret@h:1/d"}, "are written %40 %3A %2F"),
        ({"url": "mysql://h:0/d"}, "its port is not 0"),
        ({"url": "mysql://h/d?ssl=1"}, "option url takes no parameters"),
        ({"url": "mysql://root:secret@h/main"}, "option user is given twice: once by itself and once in url"),
    ],
)  # fmt: skip
def test_refusals(given, words):
    assert words in refusal(given)


def test_a_group_prefix_fits_into_its_column():
    assert "option groupPrefix is 1 to 100 characters" in refusal({"groupPrefix": "x" * 101}, Use.STREAM_READ)


def test_url():
    rest = {"url": "mysql://us%40er:p%2Fw@example:3310/da%20ta", "queue": "q"}
    at = options.batch_read(rest).address
    assert (at.host, at.port, at.user, at.password, at.database) == ("example", 3310, "us@er", "p/w", "da ta")
    assert "option password is given twice" in refusal_of({**rest, "password": "other"})
    assert "the password is given 2 times" in refusal_of({**rest, "passwordEnv": "OTHER"})


def refusal_of(given: dict[str, str]) -> str:
    with pytest.raises(OptionError) as caught:
        options.batch_read(given)
    return str(caught.value)


def test_secrets(tmp_path, monkeypatch):
    file = tmp_path / "secret"
    file.write_text("pass word\n")
    monkeypatch.setenv("QG_SECRET", "from the environment")
    assert options.batch_read({**LEAST, "passwordFile": str(file)}).address.password == "pass word"
    assert options.batch_read({**LEAST, "passwordEnv": "QG_SECRET"}).address.password == "from the environment"
    shown = options.batch_read({**LEAST, "password": "secret"})
    assert "secret" not in repr(shown) + repr(shown.address) + f"{shown}"
    with pytest.raises(OptionError) as caught:
        options.batch_read({**LEAST, "password": "secret", "PassWord": "secret2"})
    assert "secret" not in str(caught.value)


def test_a_schema_takes_the_options_of_both_reads_and_no_others():
    mine = {**LEAST, "includeAcked": "true", "leaseSeconds": "30"}
    assert options.queue_address(mine).queue == "q"
    with pytest.raises(OptionError, match=r"'leasSeconds' of spark.read or spark.readStream: did you mean"):
        options.queue_address({**LEAST, "leasSeconds": "3"})
    with pytest.raises(OptionError, match=r"belongs to df.write"):
        options.queue_address({**LEAST, "batchsize": "3"})
    with pytest.raises(OptionError, match=r"name one queue or topic by queue or topic"):
        options.queue_address({**LEAST, "sourceColumn": "from"})


# --- the document

DOCUMENT = (Path(__file__).parents[2] / "docs/spark.md").read_text()
TABLE = DOCUMENT.split("## Options")[1].split("## ")[0]
CELLS = [
    [cell.strip().strip("`") for cell in row.split(" |")] for row in re.findall(r"^\| (`.*)$", TABLE, re.MULTILINE)
]
ROWS = [(name, default, use.replace("`", "")) for name, default, use, *_ in CELLS]
USES = {
    "all": set(Use),
    "reads": {Use.BATCH_READ, Use.STREAM_READ},
    "batch read": {Use.BATCH_READ},
    "stream read": {Use.STREAM_READ},
    "writes": {Use.BATCH_WRITE, Use.STREAM_WRITE},
    "batch write": {Use.BATCH_WRITE},
}


def test_the_document_has_all_options_and_no_others():
    documented = {name: USES[use.partition(",")[0].strip()] for name, _, use in ROWS}
    there: dict[str, set[Use]] = {}
    for use in Use:
        for name in allowed(use):
            there.setdefault(name, set()).add(use)
    assert documented == there


@pytest.mark.parametrize(("name", "default", "use"), [row for row in ROWS if row[1] and row[0] != "sslCa"])
def test_the_defaults_are_those_of_the_document(name, default, use):
    given = {**LEAST, "mode": "tail"} if "tail" in use else LEAST
    for each in USES[use.partition(",")[0].strip()]:
        check = {Use.BATCH_READ: options.batch_read, Use.STREAM_READ: options.stream_read}.get(each)
        if check is None:
            assert options.write({**LEAST, name: default}, each) == options.write(LEAST, each)
        elif "tail" not in use or each is Use.STREAM_READ:
            assert check({**given, name: default}) == check(given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"subscribe": "t, u", "topic": "v"}, "options queue and subscribe both say what to read"),
        (
            {"subscribe": "t,u", "subscribePattern": ".*"},
            "options subscribe and subscribePattern both say what to read",
        ),
        ({"subscribe": "t,,u"}, "names of queues or topics with commas between them, and one is empty"),
        ({"subscribe": "t,u,t"}, "option subscribe names 't' twice"),
        ({"subscribePattern": "t(*"}, "option subscribePattern is no regular expression: "),
        ({"subscribe": "t,u", "sourceColumn": " "}, "option sourceColumn is the name of a column"),
        ({"subscribe": "t,u", "startingOffsets": "5"}, "earliest, latest, or JSON with a bound for each"),
        ({"subscribe": "t,u", "startingOffsets": '{"t": {"0": 5}}'}, "for 't' it has {\"0\": 5}"),
        ({"subscribe": "t,u", "startingOffsets": '{"t": true}'}, "for 't' it has true"),
        ({"subscribe": "t,u", "endingOffsets": '{"t": -3}'}, "for 't' it has -3"),
        ({"subscribe": "t,u", "endingOffsets": "earliest"}, "endingOffsets is latest, or an offset"),
    ],
)
def test_several_that_make_no_sense(given, words):
    rest = {key: value for key, value in LEAST.items() if key != "queue"}
    with pytest.raises(OptionError) as caught:
        options.batch_read({**rest, **given})
    assert words in str(caught.value)


def test_rows_are_not_written_to_several_by_their_names():
    for use in (Use.BATCH_WRITE, Use.STREAM_WRITE):
        rest = {key: value for key, value in LEAST.items() if key != "queue"}
        with pytest.raises(OptionError, match=r"subscribe names several, 't,u': .* option routeColumn"):
            options.write({**rest, "subscribe": "t,u"}, use)
