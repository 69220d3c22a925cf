"""The programs of the documentation in languages that are not Python, as a reader builds and starts them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import toolchains
from servers import Gate


@dataclass(frozen=True)
class Ready:
    """A program that is built: its command and environment, the exit code of an end by SIGTERM."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    ended: int = 0


def node(text: str, folder: Path, gate: Gate) -> Ready:
    (folder / "program.js").write_text(text)
    made = toolchains.node(folder)
    url = f"mysql://root@127.0.0.1:{gate.port}/{gate.database}"
    return Ready((made.command[0], str(folder / "program.js")), {**made.environment, "QUEUEGATE_URL": url})


def go(text: str, folder: Path, gate: Gate) -> Ready:
    compiler = toolchains.tool("go", "golang-go")
    (folder / "main.go").write_text(text)
    for name in ("go.mod", "go.sum"):
        shutil.copy(toolchains.PROGRAMS / "go" / name, folder)
    settings = {**os.environ, "GOFLAGS": "-mod=readonly -buildvcs=false", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
    toolchains._fetch([compiler, "mod", "download"], folder, settings)
    toolchains._run([compiler, "build", "-o", "program", "."], "it does not compile", 400, folder, settings)
    return Ready((str(folder / "program"),), {"QUEUEGATE_URL": f"root@tcp(127.0.0.1:{gate.port})/{gate.database}"})


def java(text: str, folder: Path, gate: Gate) -> Ready:
    compiler, machine = (toolchains.tool(name, "default-jdk-headless") for name in ("javac", "java"))
    (name,) = re.findall(r"^public class (\w+)", text, re.MULTILINE)
    source = folder / f"{name}.java"
    source.write_text(text)
    path = os.pathsep.join([str(folder), *map(str, toolchains.jdbc_drivers())])
    toolchains._run([compiler, "-cp", path, "-d", str(folder), str(source)], "it does not compile", 400)
    url = f"jdbc:mysql://127.0.0.1:{gate.port}/{gate.database}?user=root"
    return Ready((machine, "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", path, name), {"QUEUEGATE_URL": url}, 143)


def php(text: str, folder: Path, gate: Gate) -> Ready:
    (folder / "program.php").write_text(text)
    url = f"mysql:host=127.0.0.1;port={gate.port};dbname={gate.database};charset=utf8mb4"
    machine = toolchains.php(folder).command[0]
    modules = subprocess.run([machine, "-m"], capture_output=True, text=True, timeout=60, check=True).stdout.split()
    if "pcntl" not in modules:
        toolchains.missing("PHP has no pcntl (Debian: php-cli)")
    return Ready((machine, str(folder / "program.php")), {"QUEUEGATE_URL": url})


Build = Callable[[str, Path, Gate], Ready]
"""Makes a program of its text, in a folder of its own, for a proxy."""
