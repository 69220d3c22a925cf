"""Flyway with a baseline, and Hibernate with hbm2ddl=update over a mapped queue, on both backends.

    python tests/tools/schema_tools.py                   # make schema-tools

Needs a JDK of 17 or newer and Maven, which fetches the libraries (20 MB) from Maven Central into its own cache. Prints
what the program in `java/` prints; exit code 1 where that is not what is expected.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from servers import Gate, MariaDb

HERE = Path(__file__).resolve().parent
FETCH_SECONDS, RUN_SECONDS = 600, 180
EXPECTED = """\
migrations 1, then 0
1 << Flyway Baseline >> Baseline
2 invoices Success
message 1 hello to_be_fired
customers 1
message 2 hello to_be_fired
customers 2
received 1 hello
received 2 hello
done
"""


def build(folder: Path) -> list[str]:
    """The command that runs the program, without the port."""
    project = folder / "java"
    shutil.copytree(HERE / "java", project)
    subprocess.run(
        ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=libraries"],
        cwd=project, check=True, timeout=FETCH_SECONDS,
    )  # fmt: skip
    subprocess.run(
        ["javac", "-d", "classes", "-cp", "libraries/*", "SchemaTools.java"],
        cwd=project,
        check=True,
        timeout=RUN_SECONDS,
    )
    return ["java", "-cp", f"{project}:{project / 'classes'}:{project / 'libraries'}/*", "SchemaTools"]


def check(gate: Gate, command: list[str]) -> bool:
    """One run through this gate."""
    done = subprocess.run(
        [*command, str(gate.port)], capture_output=True, text=True, timeout=RUN_SECONDS, check=False
    )  # fmt: skip
    print(done.stdout)
    if done.stdout != EXPECTED:
        print(f"expected:\n{EXPECTED}\n{done.stderr[-6000:]}")
    return done.stdout == EXPECTED


def main() -> int:
    """Both backends."""
    right = True
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        command = build(folder)
        server = MariaDb()
        try:
            server.install()
            server.start()
            server.prepare()
            for name, url in (("embedded", f"sqlite:///{folder}/queue.db"), ("mariadb", server.url())):
                (folder / name).mkdir()
                gate = Gate(url, folder / name).start()
                try:
                    print(f"== {name}")
                    right = check(gate, command) and right
                finally:
                    gate.stop()
        finally:
            server.remove()
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
