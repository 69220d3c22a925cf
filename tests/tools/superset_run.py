"""Apache Superset on queues: databases, datasets on a queue and on queuegate.queues, chart data, on both backends.

    python tests/tools/superset_run.py                   # or `make superset`

Sets Superset up once, in an environment of its own in `.superset/` (or QUEUEGATE_SUPERSET): about 1 GB, some minutes.
Then starts a gate on each backend and runs superset_steps.py in that environment. Prints one line for each chart; exit
code 1 where one has not the rows of the queue.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from servers import ROOT, Gate, MariaDb, Sql, wait_until

HOME = Path(os.environ.get("QUEUEGATE_SUPERSET") or ROOT / ".superset")
# What Superset 6.1.0 needs beside what it asks for: newer marshmallow and flask-caching break it.
PACKAGES = ("apache-superset==6.1.0", "pymysql", "marshmallow<4", "rich", "cachetools", "flask-caching==2.3.1")
CONFIG = """
import pymysql

pymysql.install_as_MySQLdb()
SECRET_KEY = "only-for-this-run-0123456789abcdef0123456789"
SQLALCHEMY_DATABASE_URI = "sqlite:///{folder}/superset.db"
WTF_CSRF_ENABLED = False
TALISMAN_ENABLED = False
"""
ADMIN = ("--username", "admin", "--firstname", "A", "--lastname", "B", "--email", "admin@example.com")


def installed() -> Path:
    """The directory of Superset's programs, after an installation where there is none that was finished."""
    programs, stamp = HOME / "venv" / "bin", HOME / "installed"
    wanted = "\n".join(PACKAGES)
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"Setting up Superset in {HOME}: about 1 GB, once, some minutes.", flush=True)
        venv.create(HOME / "venv", with_pip=True)
        pip = [programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *PACKAGES], check=True)
        stamp.write_text(wanted)
    return programs


@contextlib.contextmanager
def superset(programs: Path) -> Iterator[dict[str, str]]:
    """A fresh Superset with its account; yields the environment to run it in."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "superset_config.py"
        config.write_text(CONFIG.format(folder=folder))
        own = {"SUPERSET_CONFIG_PATH": str(config), "SUPERSET_HOME": folder, "FLASK_APP": "superset"}
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | own
        log = Path(folder) / "log"
        for step in (("db", "upgrade"), ("fab", "create-admin", *ADMIN, "--password", "admin"), ("init",)):
            with log.open("wb") as output:
                done = subprocess.run([programs / "superset", *step], env=environment, stdout=output, stderr=output)
            if done.returncode:
                raise SystemExit(f"superset {' '.join(step[:2])} failed:\n{log.read_text()[-4000:]}")
        yield environment


def fill(gate: Gate) -> None:
    """A queue with three messages, counted."""
    with gate.connect() as connection:
        sql = Sql(connection)
        sql("CREATE QUEUE letters (body VARCHAR(100))")
        sql("INSERT INTO letters (body) VALUES ('one'), ('two'), ('two')")
        counted = "SELECT ready FROM queuegate.queues WHERE queue = 'letters'"
        wait_until(lambda: sql.value(counted) == 3, what="the count of the messages")


def main() -> int:
    """Both backends, in one run of Superset."""
    programs = installed()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = MariaDb()
        stack.callback(server.remove)
        server.install()
        server.start()
        server.prepare()
        places = {}
        for name, url in (("embedded", f"sqlite:///{folder}/queue.db"), ("mariadb", server.url())):
            (folder / name).mkdir()
            gate = Gate(url, folder / name)
            stack.callback(gate.stop)
            gate.start()
            fill(gate)
            places[name] = {"port": gate.port, "database": gate.database}
        environment = stack.enter_context(superset(programs))
        steps = [programs / "python", Path(__file__).with_name("superset_steps.py"), json.dumps(places)]
        done = subprocess.run(steps, env=environment, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            print(done.stderr[-6000:], file=sys.stderr)
        return 1 if done.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
