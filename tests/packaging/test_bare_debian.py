"""On a bare Debian: the .deb installs, serves, is removed; all four wheels install and serve; the image's steps run.

One Debian for all, in this order: the package comes first, as it brings its own Python. Run by `make test-packages`.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest
from bare_debian import BareDebian, bare_debian
from dockerfile import Stage, stages
from one_message import one_message
from servers import ROOT, free_port, wait_until

pytestmark = [
    pytest.mark.skipif(
        not os.environ.get("QUEUEGATE_TEST_PACKAGES"),
        reason="installing on a bare Debian is NOT tested here: `make test-packages` does",
    ),
    pytest.mark.timeout(600),
]
FOLDERS = (ROOT, *(ROOT / f"packaging/queuegate-{name}" for name in ("spark", "worker", "celery")))
UNPRIVILEGED = "10001:10001"


@pytest.fixture(scope="module")
def debian() -> Iterator[BareDebian]:
    with bare_debian() as made:
        yield made


@pytest.fixture(scope="module")
def package(debian: BareDebian) -> str:
    """Its path on the bare Debian."""
    command = [sys.executable, "packaging/debian/build.py", debian.path("/var/tmp")]
    built = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=250, check=True)
    return f"/var/tmp/{Path(built.stdout.strip()).name}"


@pytest.fixture(scope="module")
def python(debian: BareDebian) -> None:
    """Debian's Python with pip, under the name that it has in Python's images."""
    debian.install("python3-venv", "python3-pip")
    debian.path("/usr/local/bin/python").symlink_to("/usr/bin/python3")


def test_the_package_installs_and_serves(debian, package):
    said = debian.install(package)
    assert "systemctl enable --now queuegate" in said
    assert debian.run("queuegate", "--version").startswith("queuegate 0.")
    assert debian.run("queuegate", "check-config", "--config", "/etc/queuegate/config.yaml") == "OK\n"
    who = debian.run("getent", "passwd", "queuegate").split(":")
    assert who[5:7] == ["/var/lib/queuegate", "/usr/sbin/nologin\n"]
    config = debian.path("/etc/queuegate/config.yaml").stat()
    assert (stat.S_IMODE(config.st_mode), config.st_uid, config.st_gid) == (0o640, 0, int(who[3]))
    assert debian.path("/usr/lib/systemd/system/queuegate.service").exists()
    assert debian.path("/usr/share/man/man1/queuegate.1.gz").exists()
    serve = ["queuegate", "serve", "--config", "/etc/queuegate/config.yaml", "--listen", f"127.0.0.1:{free_port()}"]
    with debian.serving(*serve, user="queuegate:queuegate", cwd="/var/lib/queuegate") as port:
        one_message(port)
    assert debian.path("/var/lib/queuegate/queue.db").stat().st_uid == int(who[2])


def test_an_upgrade_keeps_the_configuration_that_was_changed(debian, package):
    config = debian.path("/etc/queuegate/config.yaml")
    config.write_text(changed := config.read_text().replace("workers: 1", "workers: 1 # ours"))
    config.chmod(0o600)
    debian.install("--reinstall", package)
    assert config.read_text() == changed
    assert stat.S_IMODE(config.stat().st_mode) == 0o600  # as the administrator has it


def test_a_purge_keeps_messages_unless_that_is_asked_for(debian, package):
    assert "messages are kept in /var/lib/queuegate" in debian.run("dpkg", "--purge", "queuegate")
    assert not debian.path("/etc/queuegate").exists() and not debian.path("/opt/queuegate").exists()
    assert debian.path("/var/lib/queuegate/queue.db").exists()
    debian.install(package)
    debian.path("/var/lib/queuegate/remove-with-purge").touch()
    debian.run("dpkg", "--purge", "queuegate")
    assert not debian.path("/var/lib/queuegate").exists()


def test_all_wheels_install_and_work(debian, python):
    wheels = debian.path("/var/tmp/wheels")
    for folder in FOLDERS:
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", wheels]
        subprocess.run(command, cwd=folder, check=True, timeout=100)
    inside = [f"/var/tmp/wheels/{wheel.name}" for wheel in sorted(wheels.iterdir())]
    assert len(inside) == 5
    debian.run("python3", "-m", "venv", "/srv/venv")
    debian.run(
        "/srv/venv/bin/pip", "install", "--quiet", *inside, "kombu", "numpy", "pyarrow"
    )  # as Celery and Spark do
    assert debian.path("/srv/venv/share/man/man1/queuegate.1").exists()
    debian.run("install", "-d", "-o", "10001", "-g", "10001", "/srv/data")
    debian.path("/srv/data/jobs.py").write_text("def handle(message):\n    print('handled', message.n)\n")
    serve = ["/srv/venv/bin/queuegate", "serve", "--listen", f"127.0.0.1:{free_port()}"]
    with debian.serving(*serve, user=UNPRIVILEGED, cwd="/srv/data") as port:
        one_message(port)
        with pymysql.connect(host="127.0.0.1", port=port, user="root", database="main", autocommit=True) as client:
            client.cursor().execute("INSERT INTO q (n) VALUES (8)")
        work = ["/srv/venv/bin/queuegate", "work", "jobs:handle", "--queue", "q", "--drain"]
        url = {"QUEUEGATE_URL": f"mysql://root@127.0.0.1:{port}/main"}
        assert "handled 8\n" in debian.run(*work, cwd="/srv/data", environment=url)
        program = f"""
from kombu import Connection
import queuegate_celery, spark_connector.client.connection, spark_connector.writing.sinks
with Connection("queuegate://root@127.0.0.1:{port}/main") as broker:
    line = broker.SimpleQueue("tasks")
    line.put("done")
    print(line.get(timeout=20).payload)
    line.close()
"""
        assert debian.run("/srv/venv/bin/python", "-c", program).endswith("done\n")


def test_the_images_steps_run_and_it_serves_from_a_read_only_file_system(debian, python):
    building, image = stages(ROOT / "packaging/docker/Dockerfile")
    source = building.one("WORKDIR")
    debian.run("mkdir", "-p", source)
    debian.run(
        "sh", "-c", "! getent passwd queuegate || deluser --quiet queuegate"
    )  # the package's, which a purge keeps
    build(debian, building, source)
    build(debian, image, "/")
    assert not debian.path("/opt/queuegate/bin/pip").exists()
    environment = {"PATH": f"{image.environment['PATH']}:{debian.environment['PATH']}", "QUEUEGATE_PASSWORD_ROOT": "pw"}
    console = f"127.0.0.1:{free_port()}"  # as in a pod, whose loopback address is forwarded to
    command = [
        *image.words("ENTRYPOINT"),
        *image.words("CMD"),
        "--listen",
        f"127.0.0.1:{free_port()}",
        "--console",
        console,
    ]
    writable = [image.one("VOLUME")]
    with debian.serving(
        *command, user=image.one("USER"), cwd=writable[0], environment=environment, writable=writable
    ) as port:
        one_message(port, "pw")
        wait_until(lambda: status(f"http://{console}/login") == 200, 60, "the console")
        debian.run(*image.words("HEALTHCHECK"), environment=environment)
    with pytest.raises(AssertionError, match="Connection refused"):
        debian.run(*image.words("HEALTHCHECK"), environment=environment)


def status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return int(answer.status)
    except OSError:
        return 0


def build(debian: BareDebian, stage: Stage, folder: str) -> None:
    """Its steps that make files, as docker runs them, but that a stage's files are all in one tree."""
    for instruction, text in stage.steps:
        if instruction == "RUN":
            debian.run("sh", "-c", text, cwd=folder)
        elif instruction == "COPY" and not text.startswith("--from="):
            *sources, target = text.split()
            for name in sources:
                place = debian.path(os.path.join(folder, target, Path(name).name if target.endswith("/") else ""))
                if (ROOT / name).is_dir():
                    shutil.copytree(ROOT / name, place, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    place.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(ROOT / name, str(place).rstrip("/"))
