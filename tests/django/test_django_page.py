"""docs/django.md word for word, from the built wheels in an empty environment; only the port differs."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import zipfile
from functools import partial

import pymysql
import pytest
from django_environments import DATABASE_BACKEND, DJANGO_6, HERE, ROOT, cache, python, python_with, variables
from servers import free_port, wait_until
from slowness import scaled
from toolchains import PROGRAMS, missing

from queuegate_django.options import options_of

sys.path.append(str(PROGRAMS))
steps = importlib.import_module("page_steps").steps
pytestmark = pytest.mark.long
PAGE = ROOT / "docs" / "django.md"
DISTRIBUTIONS = (ROOT, ROOT / "packaging/queuegate-worker", ROOT / "packaging/queuegate-django")
ORDERS = """
from django.db import models


class Order(models.Model):
    address = models.CharField(max_length=200)
"""
PLACED = """
{block}

place_order("ann@example.com")
try:
    with transaction.atomic():
        place_order("bob@example.com")
        raise KeyError
except KeyError:
    pass
print(list(Order.objects.values_list("address", flat=True)))
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheels")
    for distribution in DISTRIBUTIONS:
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
        subprocess.run(command, cwd=distribution, check=True, capture_output=True, timeout=100)
    return folder


class Reader:
    """Who follows the page in an empty folder."""

    def __init__(self, folder, version, wheels):
        self.folder, self.port, self.running = folder, free_port(), []
        commands = folder / "bin"
        commands.mkdir()
        (commands / "python3").symlink_to(python(version))
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
        self.environment = {**kept, "PATH": f"{commands}:{os.environ['PATH']}", "PIP_FIND_LINKS": str(wheels)}
        self.project = folder / "project"
        self.project.mkdir()

    def here(self, text):
        return text.replace("3307", str(self.port)).replace(
            "queuegate serve", f"queuegate serve --listen 127.0.0.1:{self.port}"
        )

    def shell(self, text, seconds=400):
        """What a block of the shell prints. From the first one on the environment is active."""
        active = ". .venv/bin/activate\n" if (self.project / ".venv/bin/activate").exists() else ""
        done = subprocess.run(
            ["bash", "-e", "-c", active + self.here(text)], cwd=self.project, env=self.environment,
            capture_output=True, text=True, timeout=scaled(seconds), check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
        return done.stdout

    def start(self, text):
        log = self.folder / f"log{len(self.running)}"
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-c", "exec " + self.here(text).strip()], cwd=self.project, env=self.environment,
                stdout=output, stderr=output,
            )  # fmt: skip
        process.log = log
        self.running.append(process)
        if "serve" in text:
            wait_until(lambda: "listening on" in log.read_text(), 60, f"the server: {log.read_text()}")

    def leave(self):
        codes = []
        for process in reversed(self.running):  # the worker before the server
            process.terminate()
            codes.append(process.wait(scaled(60)))
        assert codes == [0] * len(codes), "".join(process.log.read_text() for process in self.running)


def sentence_before(text):
    """The line of the page above a block."""
    return PAGE.read_text().partition(f"\n```python\n{text}")[0].rstrip().splitlines()[-1]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_the_page_word_for_word(tmp_path, wheels, version):
    reader, done = Reader(tmp_path, version, wheels), set()
    try:
        for step in steps(PAGE):
            if step.shown is not None:
                continue
            match step.language:
                case "sh" if step.background:
                    reader.start(step.text)
                case "sh":
                    printed = reader.shell(step.text)
                    assert step.printed is None or printed == step.printed
                    done.add(step.text)
                case "python":
                    write(reader, step.text)
                case "sql":
                    with pymysql.connect(host="127.0.0.1", port=reader.port, user="root", database="main") as client:
                        client.cursor().execute(
                            "INSERT INTO tasks_default (task_id, task, args, enqueued_at) VALUES "
                            "('x', 'orders.tasks.gone', '{\"args\": [], \"kwargs\": {}}', NOW(6))"
                        )
                        client.commit()
                        for statement in filter(str.strip, step.text.split(";")):
                            wait_until(lambda it=statement: answered(client, it), 30, statement)
    finally:
        reader.leave()
    for word in ("migrate", "test --settings", "--keepdb"):
        assert any(word in text for text in done)


def answered(client, statement):
    try:
        client.cursor().execute(statement)
    except pymysql.err.ProgrammingError:  # the dead-letter queue is created with the first dead letter
        return False
    return True


def write(reader, text):
    """A block of Python: into the file that the page names, or run in the project."""
    before = sentence_before(text)
    named = re.search(r"`([\w/]+\.py)`", before)
    if named:
        file = reader.project / named[1]
        with file.open("a" if "to the end of" in before else "w") as output:
            output.write("\n" + reader.here(text))
    elif "place_order" in text:
        (reader.project / "orders/models.py").write_text(ORDERS)
        reader.shell("python manage.py makemigrations orders && python manage.py migrate")
        (reader.project / "place.py").write_text(PLACED.format(block=text))
        printed = reader.shell("python manage.py shell --no-imports < place.py")
        assert printed.endswith("['ann@example.com']\n"), printed
    else:
        names = {}
        exec(text, names)
        settings = names["TASKS"]["default"]
        assert options_of("default", settings["OPTIONS"], settings["QUEUES"]).max_attempts == 3


DJ_QUEUE = "dj-queue==0.14.2"
APP = """
from django.tasks import task


@task
def send_digest(period):
    return period


@task
def deliver_email(kind):
    return kind


@task
def process_item(item):
    return item
"""
"""Tasks that the examples of its README name and do not show."""


def readme(requirement):
    """The Python blocks in the description of a distribution, which pip fetches from PyPI."""
    folder = cache() / requirement.replace("==", "-")
    if not list(folder.glob("*.whl")):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        versions = ["--python-version", "3.12", "--dest", folder, requirement]
        if subprocess.run([*command, *versions], capture_output=True, timeout=200, check=False).returncode:
            missing(f"{requirement} could not be fetched")
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith("METADATA"))
        return re.findall(r"^```python\n(.*?)^```", archive.read(name).decode(), re.MULTILINE | re.DOTALL)


def block_with(blocks, *words):
    return next(block for block in blocks if all(word in block for word in words))


def manage(environment, *arguments):
    """What a command of the project prints."""
    done = subprocess.run(
        [python_with(DJANGO_6), HERE / "project/manage.py", *arguments], env=environment, capture_output=True,
        text=True, timeout=scaled(100), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_examples_of_dj_queue(new_gate, tmp_path):
    """Its README, with the settings of the page's table: a task, run_after, priorities, queues, many at once."""
    blocks = readme(DJ_QUEUE)
    gate = new_gate().start()
    app = tmp_path / "myapp"
    app.mkdir()
    (app / "__init__.py").touch()
    (app / "tasks.py").write_text(block_with(blocks, "def add(a, b)") + APP)
    program = "\n".join(
        block_with(blocks, *words)
        for words in (("add.enqueue(3, 7)",), ("run_after=future",), ("priority=10", "queue_name"), ("enqueue_all",))
    )
    result = block_with(blocks, "fresh_result.return_value")
    environment = variables(gate, QG_QUEUES='["default", "email"]')
    environment["PYTHONPATH"] += f":{tmp_path}"

    run = partial(manage, environment)
    run("migrate")
    run("shell", "--no-imports", "-c", program + "\nopen(r'" + str(tmp_path / "id") + "', 'w').write(task_result.id)")
    run("queuegate_worker", "--drain")
    shown = f"from types import SimpleNamespace\ntask_result = SimpleNamespace(id={(tmp_path / 'id').read_text()!r})\n"
    assert run("shell", "--no-imports", "-c", shown + result) == "SUCCESSFUL\n10\n"
    count = (
        "from queuegate_django.models import StoredResult as S; print(sorted(S.objects.values_list('task', 'status')))"
    )
    ended = run("shell", "--no-imports", "-c", count)
    assert ended.count("process_item") == 5 and ended.count("deliver_email") == 2 and "send_digest" not in ended


README_SETTINGS = """
from settings import DATABASES

SECRET_KEY = "of no use to anybody"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
{blocks}
INSTALLED_APPS += ["myapp"]
"""


def test_the_settings_of_django_tasks_db(new_gate, tmp_path):
    """Its README with the changes of the page's table; a task that waits in its queue then runs."""
    blocks = readme(f"django-tasks-db=={DATABASE_BACKEND}")
    own = "\n".join(block_with(blocks, word) for word in ("INSTALLED_APPS", '"QUEUES"'))
    for theirs, ours in (
        ('"django_tasks_db"', '"queuegate_django"'),
        ("django_tasks_db.DatabaseBackend", "queuegate_django.backend.QueuegateBackend"),
    ):
        assert theirs in own
        own = own.replace(theirs, ours)
    app = tmp_path / "myapp"
    app.mkdir()
    (app / "__init__.py").touch()
    (app / "tasks.py").write_text(APP)
    (tmp_path / "own_settings.py").write_text(README_SETTINGS.format(blocks=own))
    environment = variables(new_gate().start(), DJANGO_SETTINGS_MODULE="own_settings")
    environment["PYTHONPATH"] += f":{tmp_path}"

    run = partial(manage, environment)
    run("migrate")
    enqueue = "from myapp.tasks import process_item; print(process_item.enqueue('a book').id)"
    key = run("shell", "--no-imports", "-c", enqueue).strip()
    run("queuegate_worker", "--drain")
    read = f"from myapp.tasks import process_item; print(process_item.get_result({key!r}).return_value)"
    assert run("shell", "--no-imports", "-c", read) == "a book\n"
