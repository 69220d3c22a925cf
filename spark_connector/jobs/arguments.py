"""The command line of the jobs: one parser with help and examples."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

from spark_connector.jobs.archive.job import MARGIN_SECONDS, ROWS_PER_FILE, WAIT_SECONDS

PROGRAM = "python -m spark_connector.jobs"
_UNITS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_EXAMPLES = f"""\
examples (docs/spark-jobs.md has more):
  {PROGRAM} report --url mysql://root@127.0.0.1:3307/main
  {PROGRAM} archive --url mysql://root@127.0.0.1:3307/main --queue orders --path /archive/orders
  {PROGRAM} archive --help

Exit code 0: done; 1: could not be done, one line on stderr says why, and nothing is half done; 2: wrong usage.
"""
# Command line -> option of the connector.
CONNECTION = {
    "url": "url", "host": "host", "port": "port", "user": "user", "password_file": "passwordFile",
    "password_env": "passwordEnv", "database": "database", "ssl": "ssl", "ssl_ca": "sslCa",
    "connect_timeout": "connectTimeout", "query_timeout": "queryTimeout", "queue": "queue",
}  # fmt: skip


def seconds(text: str) -> float:
    """A duration: a number of seconds, or 500ms, 30s, 5m, 2h, 1d."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?", text.strip())
    if not match:
        raise argparse.ArgumentTypeError(f"a duration is a number of seconds, or 500ms, 30s, 5m, 2h, 1d, not {text!r}")
    return float(match[1]) * _UNITS[match[2] or ""]


def pair(text: str) -> tuple[str, str]:
    """name=value"""
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise argparse.ArgumentTypeError(f"expected name=value, not {text!r}")
    return name, value


def positive(text: str) -> int:
    """A whole number above 0."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, not {text!r}")
    return int(text)


def connection(args: argparse.Namespace) -> dict[str, str]:
    """The connector's options from the command line."""
    options = {option: getattr(args, name, None) for name, option in CONNECTION.items()}
    return {option: str(value) for option, value in options.items() if value is not None}


def parser() -> argparse.ArgumentParser:
    """The parser of all jobs."""
    command = argparse.ArgumentParser(
        PROGRAM, description="Jobs around queues, run by Spark.", epilog=_EXAMPLES, formatter_class=_Format
    )
    jobs = command.add_subparsers(dest="job", metavar="JOB", required=True)
    for add in (_archive, _report, _dead_letters, _replay, _enqueue):
        add(jobs)
    return command


class _Format(argparse.RawDescriptionHelpFormatter):
    """Shows paragraphs and examples unchanged."""


_Jobs = argparse._SubParsersAction  # argparse has no public name for it


def _job(jobs: _Jobs[argparse.ArgumentParser], name: str, short: str, long: str, queue: str) -> argparse.ArgumentParser:
    command = jobs.add_parser(name, help=short, description=f"{short}\n\n{long}", formatter_class=_Format)
    to = command.add_argument_group("connection to the proxy (the connector's options)")
    to.add_argument("--url", help="mysql://user@host:port/database; or its parts:")
    for part in ("host", "port", "user", "database"):
        to.add_argument(f"--{part}")
    to.add_argument("--password-file", metavar="FILE", help="a file that holds the password")
    to.add_argument("--password-env", metavar="NAME", help="an environment variable that holds the password")
    to.add_argument("--ssl", choices=("disabled", "required", "verify"))
    to.add_argument("--ssl-ca", metavar="FILE")
    to.add_argument("--connect-timeout", metavar="SECONDS")
    to.add_argument("--query-timeout", metavar="SECONDS")
    run = command.add_argument_group("Spark (spark-submit and an active session settle these themselves)")
    run.add_argument("--master", help="default local[*]")
    run.add_argument(
        "--conf", action="append", default=[], type=pair, metavar="NAME=VALUE", help="of Spark; repeatable"
    )
    run.add_argument("--verbose", action="store_true", help="with Spark's log, and the whole trace of an error")
    run.add_argument("--quiet", action="store_true", help="no progress")
    command.add_argument("--queue", metavar="NAME", required="optional" not in queue, help=queue)
    return command


def _archive(jobs: _Jobs[argparse.ArgumentParser]) -> None:
    command = _job(
        jobs, "archive", "Acked messages to Parquet, by day of their ack.",
        "Writes what was acked and is not archived yet, reads it back, compares it, makes it visible at once, and\n"
        "then lets the proxy purge it (option archive = 1 of the queue; the proxy deletes, this job never does).\n"
        "May be run at any time and as often as you like; a run that was killed is made good by the next.\n\n"
        "  spark.read.parquet(PATH)   sees each archived message once, with its `day` and `interval`",
        "the queue, which has the option archive = 1",
    )  # fmt: skip
    command.add_argument(
        "--path", required=True, metavar="FOLDER", help="of this queue's archive alone; made if missing"
    )
    command.add_argument("--margin", type=seconds, default=MARGIN_SECONDS, metavar="DURATION",
                      help="leave out what was acked this shortly ago (default 10m); longer than statements wait for "
                      "locks and than clients' clocks are wrong that set time_acked themselves")  # fmt: skip
    command.add_argument("--wait", type=seconds, default=WAIT_SECONDS, metavar="DURATION",
                      help="for open transactions that have acked (default 10m)")  # fmt: skip
    command.add_argument(
        "--rows-per-file", type=positive, default=ROWS_PER_FILE, metavar="N", help="about (default 100000)"
    )


def _report(jobs: _Jobs[argparse.ArgumentParser]) -> None:
    command = _job(
        jobs, "report", "Counts, latencies, attempts, rates and failures; queues by backlog.",
        "Without --queue: the queues and consumer groups of the database. With it, that queue in detail,\n"
        "from its table, and from its archive as well where --archive names it (nothing counts twice).",
        "the queue or topic to look at closely (optional)",
    )  # fmt: skip
    command.add_argument("--archive", metavar="FOLDER", help="the queue's archive")
    command.add_argument("--only-archive", action="store_true", help="leave the queue's table out")
    command.add_argument("--per", choices=("auto", "minute", "hour", "day"), default="auto", help="what rates are per")
    command.add_argument("--format", choices=("table", "json", "csv", "parquet"), default="table")
    command.add_argument("--output", metavar="FILE", help="where to write it instead of stdout; parquet needs it")
    command.add_argument(
        "--html", metavar="FILE", help="write a page with plots as well, one file that needs nothing else"
    )


def _dead_letters(jobs: _Jobs[argparse.ArgumentParser]) -> None:
    command = _job(
        jobs, "dead-letters", "What is in a dead-letter queue, why, and what to do about it.",
        "By last and first error, attempts and age, with the common values and JSON shapes of each column, and a\n"
        "REDRIVE or SELECT for each kind of error. Nothing is changed.",
        "the dead-letter queue, or the queue that it belongs to",
    )  # fmt: skip
    command.add_argument("--export", metavar="FOLDER", help="copy the dead letters there, as Parquet; must not exist")
    command.add_argument("--format", choices=("table", "json"), default="table")


def _replay(jobs: _Jobs[argparse.ArgumentParser]) -> None:
    command = _job(
        jobs, "replay", "Messages of an archive or a topic again, as new messages of a queue or a topic.",
        "Their content, with new ids and times, due now; all of them or none. A second run of the same --run adds\n"
        "nothing, whatever it chooses. Begin with --dry-run.",
        "the queue or topic that gets them",
    )  # fmt: skip
    command.add_argument("--archive", metavar="FOLDER", help="an archive, or Parquet with such columns; or")
    command.add_argument("--from-topic", metavar="NAME", help="a topic of the same database")
    command.add_argument("--run", required=True, metavar="NAME", help="of this replay: the same name never adds twice")
    command.add_argument("--from-day", metavar="YYYY-MM-DD", help="first day of acks, UTC; of a topic, of writing")
    command.add_argument("--to-day", metavar="YYYY-MM-DD", help="last day of them")
    command.add_argument("--where", metavar="SQL", help="Spark's SQL on the archive's columns: \"customer = 'ann'\"")
    command.add_argument("--drop-missing", action="store_true", help="leave out columns that the queue has not")
    command.add_argument("--dry-run", action="store_true", help="count, by day; write nothing")
    _writing(command, "the queue's own (of text; gets replay-NAME-ID)")


def _enqueue(jobs: _Jobs[argparse.ArgumentParser]) -> None:
    command = _job(
        jobs, "enqueue", "Rows of files as messages of a queue.",
        "Columns go by name. All rows or none: nothing is visible before all is. A malformed line of CSV or JSON ends\n"
        "the job (--option mode=DROPMALFORMED passes over it).",
        "the queue or topic that gets them",
    )  # fmt: skip
    command.add_argument("--input", required=True, metavar="PATH", help="file or folder, as Spark reads it")
    command.add_argument("--format", choices=("parquet", "csv", "json", "orc"), default="parquet")
    command.add_argument("--option", action="append", default=[], type=pair, metavar="NAME=VALUE",
                      help="of Spark's reader, as header=true; repeatable")  # fmt: skip
    command.add_argument("--run", metavar="NAME", help="of this enqueueing: the same name never adds twice")
    _writing(command, "none: every row is a message")


def _writing(command: argparse.ArgumentParser, key: str) -> None:
    command.add_argument("--select", action="append", default=[], metavar="EXPR",
                      help="'expression AS column' in Spark's SQL, instead of the columns; repeatable")  # fmt: skip
    command.add_argument("--key-column", metavar="NAME",
                      help=f"unique in the queue: rows whose key is there are passed over (default {key})")  # fmt: skip


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parses the command line. Exits with 2 if it is wrong."""
    command = parser()
    args = command.parse_args(arguments)
    if args.job == "replay" and (args.archive is None) == (args.from_topic is None):
        command.error("replay takes its messages from one of --archive FOLDER and --from-topic NAME")
    if args.job == "report":
        if args.format == "parquet" and not args.output:
            command.error("--format parquet needs --output FILE")
        if (args.archive or args.only_archive) and not args.queue:
            command.error("--archive and --only-archive need --queue: an archive is one queue's")
        if args.only_archive and not args.archive:
            command.error("--only-archive needs --archive FOLDER")
    return args
