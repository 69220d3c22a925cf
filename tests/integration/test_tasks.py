"""Tasks, by the command, with processes: what they promise when they fail, hang, are changed, or their parent dies."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import task_program as tasks
from servers import ROOT, free_port, wait_until
from slowness import scaled

from queuegate_worker import WorkerError, task
from queuegate_worker.tasks import task as task_module
from queuegate_worker.tasks.work import create

pytestmark = pytest.mark.long

HERE = Path(__file__).parent
WORK = [sys.executable, "-m", "queuegate_worker", "task_program"]


class Work:
    """The command, in a folder of its own."""

    def __init__(self, gate, folder):
        self.log = folder / "log"
        self.log.touch()
        self.folder = folder
        path = os.pathsep.join([str(ROOT), str(HERE)])
        url = f"mysql://root@127.0.0.1:{gate.port}/{gate.database}"
        self.environment = {**os.environ, "PYTHONPATH": path, "QUEUEGATE_URL": url}
        self.process = None

    def run(self, *options, command=WORK):
        return subprocess.run(
            [*command, *options], env=self.environment, cwd=self.folder, capture_output=True, text=True,
            timeout=scaled(60), check=False,
        )  # fmt: skip

    def start(self, *options, command=WORK):
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, *options], env=self.environment, cwd=self.folder, stdout=log, stderr=log
            )
        return self

    def children(self):
        return [
            int(pid) for pid in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        ]

    def end(self):
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(scaled(60))
        return self.log.read_text()


@pytest.fixture
def gate(new_gate):
    return new_gate().start()


@pytest.fixture
def work(gate, sql, tmp_path):
    sql("CREATE TABLE ran (word VARCHAR(40), attempt INT, pid INT)")
    running = Work(gate, tmp_path)
    made = running.run("--create")
    assert made.returncode == 0, made.stderr
    yield running
    running.end()


@pytest.fixture
def db(gate):
    with closing(gate.connect()) as connection:
        yield connection


def ran(sql, word):
    return sql.rows("SELECT attempt, pid FROM ran WHERE word = %s ORDER BY attempt", word)


def wait_ran(sql, work, word, count=1):
    def enough():
        assert work.process.poll() is None, work.log.read_text()
        rows = ran(sql, word)
        return rows if len(rows) >= count else None

    return wait_until(enough, 60, f"{word}: {work.log.read_text()}")


def test_what_tasks_need_is_created_once_and_shown(work, sql):
    again = work.run("--create")
    assert again.returncode == 0 and "CREATE QUEUE IF NOT EXISTS `mails`" in again.stdout, again.stderr
    assert {row[0] for row in sql.rows("SHOW QUEUES")} >= {"tasks", "mails"}
    assert sql.rows("SHOW SCHEDULES")[0][0] == "tick"
    nothing = work.run("--create", command=[sys.executable, "-m", "queuegate_worker", "json"])
    assert nothing.returncode == 2 and "json has no tasks" in nothing.stderr
    other = work.run("--create", command=[sys.executable, "-m", "queuegate_worker", "task_program:plain"])
    assert other.returncode == 2 and "module of the tasks" in other.stderr


@pytest.mark.parametrize("queues", [("mails",), ("mails", "tasks")])
def test_several_deployments_at_once_make_the_same(work, sql, queues, monkeypatch):
    """Also where they do not agree, and each makes the schedules anew."""
    url, failed = work.environment["QUEUEGATE_URL"], []
    monkeypatch.setattr(task_module, "_tasks", {})
    periodic = [task(every="5m", name=f"t{n}")(lambda: None) for n in range(8)]

    def deploy(queue):
        for _ in range(4):
            try:
                create(url, [replace(each, queue=queue) for each in periodic], lambda text: None)
            except WorkerError as error:
                failed.append(error)

    threads = [threading.Thread(target=deploy, args=(queues[n % len(queues)],)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert {f"t{n}" for n in range(8)} <= set(sql.column("SHOW SCHEDULES"))


def test_a_periodic_task_of_another_queue_is_moved_with_its_values(work, sql):
    def create(options):
        text = f'from queuegate_worker import task\n\n@task(name="it\'s `it`", {options})\ndef tick(): pass\n'
        module = f"moving{len([*work.folder.glob('moving*')])}"  # one name would have the code of the second before
        (work.folder / f"{module}.py").write_text(text)
        return work.run("--create", command=[sys.executable, "-m", "queuegate_worker", module])

    for options, queue, statements in (
        ("every='1h', queue='mails'", "mails", ["CREATE", "ALTER"]),
        ("every='2h', queue='mails'", "mails", ["CREATE", "ALTER"]),
        ("every='2h', queue='tasks'", "tasks", ["DROP", "CREATE", "ALTER"]),
        ("every='2h', queue='tasks', unique=True", "tasks", ["DROP", "CREATE", "ALTER"]),
        ("cron='0 2 * * *', queue='tasks', unique=True", "tasks", ["CREATE", "ALTER"]),
    ):
        made = create(options)
        assert made.returncode == 0, made.stderr
        assert re.findall(r"^(\w+) SCHEDULE", made.stdout, re.M) == statements
        assert sql.column("SELECT queue FROM queuegate.schedules WHERE schedule LIKE 'it%%'") == [queue]
    assert "`once`" in sql.row("SHOW CREATE SCHEDULE `it's ``it```")[1]
    sql("RUN SCHEDULE `it's ``it```")  # a message of its key waits
    for options in ("cron='0 2 * * *', queue='tasks'", "cron='0 2 * * *', queue='tasks', unique=True"):
        made = create(options)
        assert made.returncode == 0, made.stderr
    refused = create("cron='0 0 31 2 *', queue='mails'")
    assert refused.returncode == 1 and "DROP SCHEDULE" in refused.stdout and "is not understood" in refused.stderr
    assert "`once`" in sql.row("SHOW CREATE SCHEDULE `it's ``it```")[1]
    sql("DROP SCHEDULE `it's ``it```")
    sql("CREATE SCHEDULE `it's ``it``` ON mails EVERY '1h' (task, args) VALUES ('other', '{}')")
    other = create("every='1h', queue='mails'")
    assert other.returncode == 1 and "not of this task" in other.stderr
    assert "EVERY '1h'" in sql.row("SHOW CREATE SCHEDULE `it's ``it```")[1]


@pytest.mark.parametrize(
    "there",
    ["QUEUE other (n INT)", "TABLE other (id INT)", "TABLE other_results (id INT)",
     "QUEUE other (task TEXT, args JSON, traceparent TEXT, once TEXT)"],
)  # fmt: skip
def test_a_name_that_has_another_use_is_refused(work, sql, there):
    sql(f"CREATE {there}")
    text = "from queuegate_worker import task\n\n@task(queue='other', unique=True, keep_result=9)\ndef mail(): pass\n"
    (work.folder / "refused.py").write_text(text)
    made = work.run("--create", command=[sys.executable, "-m", "queuegate_worker", "refused"])
    assert made.returncode == 1 and "was there before, with other columns" in made.stderr, made.stderr


def test_tasks_run_in_processes_and_fail_as_they_should(work, sql, db):
    work.start("--processes", "2", "--concurrency", "2", "--queue", "tasks,mails")
    tasks.plain.using(connection=db).send("plain")
    tasks.fails.using(connection=db).send("fails")
    tasks.later.using(connection=db).send("later")
    assert [row[0] for row in wait_ran(sql, work, "plain")] == [1]
    assert [row[0] for row in wait_ran(sql, work, "later")] == [2]
    wait_until(lambda: sql.rows("SHOW TABLES LIKE 'mails_dead'"), 60, "the dead letters")
    wait_until(lambda: sql.rows("SELECT attempts FROM mails_dead"), 60, "the dead letter")
    assert ran(sql, "fails") == []  # rolled back
    assert sql.row("SELECT attempts, last_error FROM mails_dead") == (2, "ValueError: no fails")
    wait_ran(sql, work, "tick")
    assert len(work.children()) == 2
    log = work.end()
    assert work.process.returncode == 0, log
    assert (
        re.search(r"the handler failed for message \d+ of mails, attempt 1", log) and "receiving from mails" in log
    ), log


def test_a_task_over_its_time_limit_fails_and_its_process_is_replaced(work, sql, db):
    work.start("--queue", "tasks")
    tasks.hangs.using(connection=db).send("hangs")
    rows = wait_ran(sql, work, "hangs")
    assert [row[0] for row in rows] == [2]  # of the first attempt nothing is left
    sql("UPDATE tasks SET priority = priority")
    assert "ran over its time limit of 1 s" in sql.value(
        "SELECT failed_attempts FROM tasks WHERE args LIKE '%hangs%'"
    ), work.log.read_text()
    log = work.end()
    assert len(re.findall(r"process \d+ started", log)) == 2 and work.process.returncode == 0, log


def test_a_process_over_a_time_limit_is_replaced_whatever_its_other_tasks_do(work, sql, db):
    work.start("--queue", "tasks", "--concurrency", "2", "--grace", "1")
    tasks.waits_in_a_pool.using(connection=db).send("waits")
    started = work.folder / "started"
    wait_until(lambda: started.exists() and started.read_text(), 60, "the task that does not end")
    tasks.hangs.using(connection=db).send("hangs")
    assert wait_ran(sql, work, "hangs") and wait_ran(sql, work, "waits")
    wait_until(lambda: _is_gone(int(started.read_text())), 60, "the end of what the task has started")
    log = work.end()
    assert work.process.returncode == 0 and "is killed" not in log, log


def _is_gone(pid):
    """Also one that waits for its new parent to see its end."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_task_that_holds_the_interpreters_lock_is_ended_by_the_parent(work, sql, db):
    work.start("--queue", "tasks")
    tasks.holds_the_lock.using(connection=db).send("locked")
    assert wait_ran(sql, work, "locked")
    assert "is stuck in a task over its time limit" in work.end()


def test_a_process_that_is_killed_is_replaced_and_loses_nothing(work, sql, db):
    work.start("--processes", "2", "--queue", "tasks")
    wait_until(lambda: len(work.children()) == 2, 60, "two processes")
    first = set(work.children())
    os.kill(min(first), signal.SIGKILL)
    tasks.plain.using(connection=db).send("after")
    assert wait_ran(sql, work, "after")
    wait_until(lambda: len(work.children()) == 2 and set(work.children()) != first, 60, "another process")
    assert "ended by signal 9" in work.end()


def test_a_message_of_an_unknown_task_waits_uncounted(work, sql):
    work.start("--queue", "tasks")
    sql("INSERT INTO tasks (task, args) VALUES ('app.new', '{}')")
    wait_until(lambda: "no task 'app.new'" in work.log.read_text(), 60, "the message")
    waits = "SELECT time_next > (UNIX_TIMESTAMP() + 5) * 1000000000 FROM tasks WHERE task = 'app.new' AND epoch = 0"
    wait_until(lambda: sql.rows(waits) and sql.value(waits), 60, "the message to be given back")
    work.end()


def test_children_end_with_their_parent(work, sql, db):
    work.start("--queue", "tasks")
    wait_until(lambda: "receiving from tasks" in work.log.read_text(), 60, "the worker")
    (child,) = work.children()
    work.process.kill()
    work.process.wait()
    wait_until(lambda: not Path(f"/proc/{child}").exists(), 60, "the child's end")


def test_children_end_with_a_parent_that_died_while_they_began(work, sql, db):
    pipe = work.folder / "imports"
    os.mkfifo(pipe)
    work.start("--queue", "tasks")
    held = wait_until(lambda: _held(pipe), 60, "the import")
    (child,) = work.children()
    work.process.kill()
    work.process.wait()
    os.close(held)
    wait_until(lambda: _is_gone(child), 60, "the child's end")


def _held(pipe):
    """The writing end of a pipe that a process reads, or None."""
    try:
        return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return None


def test_a_unique_task_waits_once_and_its_result_is_stored(work, sql, db):
    unique = tasks.answers.using(connection=db)
    number = unique.send("x")
    assert number is not None and unique.send("x") is None and unique.send("y") is not None
    work.start("--queue", "tasks")
    wait_until(lambda: len(sql.rows("SELECT 1 FROM tasks_results")) == 2, 60, f"results: {work.log.read_text()}")
    assert json.loads(sql.value("SELECT result FROM tasks_results WHERE id = %s", str(number))) == {"word": "x"}
    wait_until(lambda: unique.send("x") is not None, 60, "the key to be free")
    work.end()


def test_the_health_page_says_whether_all_receive(work, sql, gate):
    port = free_port()
    work.start("--health", f"127.0.0.1:{port}", "--queue", "tasks,mails")

    def page(path="/healthz"):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)
        except OSError:
            return 0, {}

    wait_until(lambda: page()[0] == 200, 60, "health")
    (process,) = page()[1]["processes"]
    assert process["queues"] == {"tasks": "receiving", "mails": "receiving"} and process["pid"] in work.children()
    assert page("/other")[0] == 404
    gate.terminate()
    wait_until(lambda: page()[0] == 503, 60, "the page to say that nothing is received")
    gate.start()
    wait_until(lambda: page()[0] == 200, 90, "health again")
    work.end()


def test_a_changed_program_is_loaded_again(work, sql, db):
    program = work.folder / "changing.py"
    text = "from queuegate_worker import task\n\n@task(name='change', takes_context=True)\ndef change(context):\n" \
           "    context.transaction.execute(\"INSERT INTO ran VALUES ('{}', 1, 1)\")\n"  # fmt: skip
    program.write_text(text.format("before"))
    work.start("--autoreload", command=[sys.executable, "-m", "queuegate_worker", "changing"])
    sql("INSERT INTO tasks (task, args) VALUES ('change', '{\"args\": [], \"kwargs\": {}}')")
    wait_ran(sql, work, "before")
    program.write_text("this is no Python")
    wait_until(lambda: "waiting for a change of the program" in work.log.read_text(), 60, "the mistake")
    program.write_text(text.format("after"))
    sql("INSERT INTO tasks (task, args) VALUES ('change', '{\"args\": [], \"kwargs\": {}}')")
    wait_ran(sql, work, "after")
    work.end()


@pytest.mark.parametrize(
    ("options", "code", "problem"),
    [
        (["--processes", "0"], 2, "--processes is 0"), (["--health", "9001"], 2, "HOST:PORT"),
        (["--batch", "5"], 2, "one message"), (["--queue", "a,,b"], 2, "--queue"), (["-p"], 2, "MYSQL_PWD"),
        (["--queue", "missing"], 1, "--create makes it"), (["--health", "127.0.0.1:PORT"], 2, "Address already in use"),
    ],
)  # fmt: skip
def test_mistakes_end_the_command_with_a_reason(work, gate, options, code, problem):
    ended = work.run(*(option.replace("PORT", str(gate.port)) for option in options))
    assert ended.returncode == code and problem in ended.stderr, ended.stderr


def test_a_handler_outlives_the_grace_time_in_no_process(work, sql):
    sql("CREATE QUEUE plain_queue (n INT)")
    sql("INSERT INTO plain_queue (n) VALUES (1)")
    work.start("--queue", "plain_queue", "--grace", "0.2", command=[*WORK[:-1], "task_program:handles_in_a_pool"])
    wait_until((work.folder / "started").exists, 60, "the handler")
    assert "the grace time is over" in work.end() and work.process.returncode == 1


def test_a_drained_worker_ends(work, sql, db):
    tasks.plain.using(connection=db).send("drained")
    ended = work.run("--drain", "--queue", "mails,tasks", "--processes", "2")
    assert ended.returncode == 0 and len(ran(sql, "drained")) == 1, ended.stderr
