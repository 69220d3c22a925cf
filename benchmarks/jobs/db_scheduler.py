"""db-scheduler, a library for Java: its jars, its table, and `DbSchedulerJobs.java`, which enqueues and runs jobs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from toolchains import JARS, POOL_JARS, Jar, downloaded

from tests.servers import find_binary

SOURCE = Path(__file__).with_name("DbSchedulerJobs.java")
LIBRARY = Jar(
    "com.github.kagkarlsson", "db-scheduler", "16.12.0",
    "2238bdad70014c41a762dd215d500a57a0bf22138df7dace1faf5c82eaeed545",
)  # fmt: skip
DRIVER = next(jar for jar in JARS if jar.name == "mariadb-java-client")
JAVA_MIN = 17
COMPILE_SECONDS = 120
CREATE = (
    "CREATE TABLE scheduled_tasks (task_name VARCHAR(100) NOT NULL, task_instance VARCHAR(100) NOT NULL,"
    " task_data BLOB, execution_time DATETIME(6) NOT NULL, picked BOOLEAN NOT NULL, picked_by VARCHAR(50),"
    " last_success DATETIME(6), last_failure DATETIME(6), consecutive_failures INT, last_heartbeat DATETIME(6),"
    " version BIGINT NOT NULL, priority SMALLINT, PRIMARY KEY (task_name, task_instance),"
    " KEY execution_time_idx (execution_time), KEY last_heartbeat_idx (last_heartbeat),"
    " KEY priority_execution_time_idx (priority DESC, execution_time))"
)
"""With the columns and indexes that its documentation has for MariaDB."""


class Absent(Exception):
    """This machine lacks something that it needs; the message says what."""


def compiled(folder: Path) -> tuple[tuple[str, ...], str]:
    """The command that runs the program, compiled into this folder; and the versions of what it runs with."""
    compiler, machine = find_binary("javac"), find_binary("java")
    if compiler is None or machine is None:
        raise Absent(f"Java {JAVA_MIN} or newer is not installed (apt-get install default-jdk-headless)")
    version = _version(compiler)
    path = os.pathsep.join(map(str, [folder, *_jars()]))
    subprocess.run(
        [compiler, "-encoding", "UTF-8", "-cp", path, "-d", str(folder), str(SOURCE)],
        check=True, timeout=COMPILE_SECONDS,
    )  # fmt: skip
    versions = [f"{jar.name} {jar.version}" for jar in (DRIVER, *POOL_JARS[:1])]
    return (machine, "-cp", path, SOURCE.stem), ", ".join([LIBRARY.version, f"Java {version}", *versions])


def _version(compiler: str) -> str:
    """Of `javac 17.0.15` what is behind the name; before Java 9 it says so in another way."""
    words = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout.split()
    version = words[-1] if words else "8"
    if int(version.split(".")[0].split("-")[0]) < JAVA_MIN:
        raise Absent(f"Java {version} is too old, it needs {JAVA_MIN} or newer")
    return version


def _jars() -> list[Path]:
    try:
        return [downloaded(jar) for jar in (LIBRARY, DRIVER, *POOL_JARS)]
    except OSError as error:
        raise Absent(f"its jars cannot be fetched from Maven Central ({error})") from None
