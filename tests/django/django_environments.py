"""Pythons with Django: this one with Django 5.2 and the backport of tasks, and environments with Django 6.

Those are made once, beside what other tests fetch, from PyPI by pip. Where Python 3.12 is missing, that is a skip at a
desk and a failure in CI.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from toolchains import cache, missing

HERE = Path(__file__).parent
PROJECT = HERE / "project"
ROOT = HERE.parents[1]
BACKPORT, DJANGO_6 = "the backport", "Django 6"
WHERE = [(BACKPORT, "embedded"), (DJANGO_6, "embedded"), (DJANGO_6, "mariadb")]
"""What is the backport's own has nothing to do with the server."""
REQUIREMENTS = ("django>=6,<7", "pymysql>=1.1,<2", "pytest>=8")
DRIVER = "mysqlclient>=2.2,<3"
BACKPORTS_CASES = "6.0"
"""The Django whose test cases are run against the backport, which is of its age."""
DATABASE_BACKEND = "0.13.0"
"""The django-tasks-db whose test cases are run."""
_SECONDS = 500


def python_with(django: str) -> str:
    """A Python that has it."""
    if django == DJANGO_6:
        return str(environment("3.12", REQUIREMENTS, DRIVER))
    for name in ("django", "django-tasks"):
        try:
            importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            missing(f"{name} is not installed (pip install '.[dev]')")
    return sys.executable


def python(version: str) -> str:
    """The interpreter of a version, such as 3.12."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    candidates = [shutil.which(f"python{version}"), *sorted(map(str, root.glob(f"versions/{version}.*/bin/python")))]
    for candidate in filter(None, candidates):
        done = subprocess.run([candidate, "-c", "import venv, ssl"], capture_output=True, timeout=60, check=False)
        if done.returncode == 0:
            return candidate
    return missing(f"Python {version} is not installed, which Django 6 needs")


def environment(version: str, requirements: Sequence[str], driver: str) -> Path:
    """The Python of an environment with these distributions. The driver is left out where it cannot be built."""
    name = hashlib.sha256("\n".join((*requirements, driver)).encode()).hexdigest()[:12]
    folder = cache() / f"django-{version}-{name}"
    with (cache() / "django.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "installed").exists():
            shutil.rmtree(folder, ignore_errors=True)
            subprocess.run([python(version), "-m", "venv", folder], check=True, timeout=_SECONDS)
            install = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            done = subprocess.run([*install, *requirements], timeout=_SECONDS, check=False)
            if done.returncode:
                missing("Django 6 could not be installed")
            subprocess.run([*install, driver], capture_output=True, timeout=_SECONDS, check=False)
            (folder / "installed").write_text("")
    return folder / "bin/python"


def cases_of(version: str) -> Path:
    """The folder `tests` of the source of this Django; its cases are run, and nothing of it is kept in the project."""
    return tests_of("django", version)


def database_cases() -> Path:
    """The file of cases in the source of django-tasks-db, which is used the same way."""
    return tests_of("django-tasks-db", DATABASE_BACKEND) / "tests.py"


def tests_of(name: str, version: str) -> Path:
    """The folder `tests` of the source of a distribution, which PyPI has."""
    folder, newer = cache() / f"{name}-source-{version}", environment("3.12", REQUIREMENTS, DRIVER)
    with (cache() / "django.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "fetched").exists():
            shutil.rmtree(folder, ignore_errors=True)
            # pip fetches what fits its own Python.
            command = [
                *(newer, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"),
                *("--no-binary", name, "--dest", folder, f"{name}=={version}"),
            ]
            done = subprocess.run(command, timeout=_SECONDS, capture_output=True, text=True, check=False)
            if done.returncode:
                missing(f"the source of {name} {version} could not be fetched ({done.stderr[-200:]})")
            (archive,) = folder.glob("*.tar.gz")
            shutil.unpack_archive(archive, folder, filter="data")
            (folder / "fetched").write_text("")
    (tests,) = folder.glob("*/tests")
    return tests


def variables(gate: object, **more: str) -> dict[str, str]:
    """Of the environment: where the project's database is, and where its modules are."""
    path = os.pathsep.join([str(PROJECT), str(ROOT)])
    place = {"QG_PORT": str(gate.port), "QG_DATABASE": gate.database}
    return {**os.environ, "PYTHONPATH": path, "DJANGO_SETTINGS_MODULE": "settings", **place, **more}
