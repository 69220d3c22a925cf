"""The image and the compose file, without docker: each file that they name is there, each setting exists."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pymysql
import pytest
import yaml
from dockerfile import stages
from pymysql.converters import escape_string
from servers import ROOT, Gate, MariaDb, Sql, wait_until

from console.settings import DEFAULT_LISTEN as CONSOLE
from proxy.config import load
from queuegate.command_line import parser

DOCKER, COMPOSE = ROOT / "packaging/docker", ROOT / "packaging/compose"
FILE: dict[str, Any] = yaml.safe_load((COMPOSE / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = FILE["services"]
PASSWORD = "it's a \\ secret"


def ignored(path: str) -> bool:
    """Whether the image's .dockerignore keeps it from docker: the last line that fits decides."""
    found = False
    for line in (DOCKER / "Dockerfile.dockerignore").read_text().splitlines():
        pattern = line.removeprefix("!")
        if line and not line.startswith("#") and (pattern == "*" or path == pattern or path.startswith(pattern + "/")):
            found = not line.startswith("!")
    return found


def test_what_is_copied_is_there_and_given_to_docker():
    building, image = stages(DOCKER / "Dockerfile")
    names = [name for stage in (building, image) for text in stage.all("COPY") for name in text.split()[:-1]]
    own = [name for name in names if not name.startswith(("--from", "/"))]
    assert len(own) >= 8
    for name in own:
        assert (ROOT / name).exists() and not ignored(name), name
    assert ignored(".git") and ignored("tests") and ignored("data")


def test_what_the_wheel_is_made_of_is_copied():
    (building, _) = stages(DOCKER / "Dockerfile")
    copied = {name for text in building.all("COPY") for name in text.split()[:-1]}
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())
    built = wheel["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert {*built["only-include"], "pyproject.toml", "README.md", "LICENSE"} <= copied
    for name in built["shared-data"]:
        assert any(Path(name).is_relative_to(each) for each in copied)


def test_what_links_lead_to_is_copied_too():
    """docker copies a link as a link: what it leads to has to be there."""
    copied = [ROOT / name for text in stages(DOCKER / "Dockerfile")[0].all("COPY") for name in text.split()[:-1]]
    links = [path for folder in copied if folder.is_dir() for path in folder.rglob("*") if path.is_symlink()]
    assert links
    for link in links:
        target = link.resolve()
        assert any(target.is_relative_to(each) for each in copied), f"{link} leads to {target}"


def test_the_image_runs_without_privileges_and_ends_by_sigterm():
    (_, image) = stages(DOCKER / "Dockerfile")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", image.one("USER"))
    assert image.one("STOPSIGNAL") == "SIGTERM" and image.one("VOLUME") == "/data"
    ports = {load(DOCKER / "config.yaml", environment={"QUEUEGATE_PASSWORD_ROOT": "x"}).listen.port}
    assert ports | {9307, CONSOLE.port} == set(map(int, image.one("EXPOSE").split()))
    steps = [name for name, _ in image.steps]
    assert not {"RUN", "COPY"} & set(steps[steps.index("USER") :]), "nothing is added by the account that serves"
    labels = image.one("LABEL")
    for label in ("title", "description", "licenses", "version", "revision"):
        assert f"org.opencontainers.image.{label}=" in labels


def test_the_image_does_not_start_without_a_password():
    done = subprocess.run(
        [sys.executable, "-m", "queuegate", "check-config", "--config", DOCKER / "config.yaml"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert "QUEUEGATE_PASSWORD_ROOT is not set" in done.stderr


@pytest.mark.timeout(900)
def test_docker_builds_it_and_it_is_healthy():
    docker = next((name for name in ("docker", "podman") if shutil.which(name)), None)
    if docker is None or subprocess.run([docker, "info"], capture_output=True, check=False, timeout=60).returncode:
        pytest.skip("docker cannot run here: tests/packaging/test_bare_debian.py runs the image's steps in its place")
    tag = "queuegate:test"
    subprocess.run([docker, "build", "-q", "-f", DOCKER / "Dockerfile", "-t", tag, ROOT], check=True, timeout=600)
    options = ["--rm", "--detach", "--read-only", "--env=QUEUEGATE_PASSWORD_ROOT=pw", "--health-interval=1s"]
    started = subprocess.run([docker, "run", *options, tag], capture_output=True, text=True, check=True, timeout=120)
    name = started.stdout.strip()
    try:
        show = [docker, "inspect", "--format", "{{.State.Health.Status}}", name]
        wait_until(
            lambda: subprocess.run(show, capture_output=True, text=True, check=True).stdout.strip() == "healthy",
            120,
            "the container to be healthy",
        )
    finally:
        subprocess.run([docker, "stop", name], check=True, timeout=60, capture_output=True)


# --- the compose file


def variables() -> set[str]:
    return set(re.findall(r"\$\{(\w+)", (COMPOSE / "compose.yaml").read_text()))


def test_every_variable_is_demanded_and_in_the_example():
    assert not re.search(r"\$\{\w+\}", (COMPOSE / "compose.yaml").read_text()), "a variable without :? may be empty"
    example = (COMPOSE / ".env.example").read_text()
    assert variables() == set(re.findall(r"(?m)^(\w+)=$", example))


def test_services_depend_on_services_that_tell_their_health():
    _, image = stages(DOCKER / "Dockerfile")
    built = {service["image"] for service in SERVICES.values() if "build" in service}
    for service in SERVICES.values():
        for name, how in service.get("depends_on", {}).items():
            assert how == {"condition": "service_healthy"}
            assert "healthcheck" in SERVICES[name] or ("build" in SERVICES[name] and image.one("HEALTHCHECK"))
        assert re.search(r":[\w.]+$", service["image"]) or service["image"] in built, "an image has a version"
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), "published for this machine alone"


def test_every_mounted_file_is_there():
    for service in SERVICES.values():
        for volume in service.get("volumes", []):
            source, target, *_ = volume.split(":")
            assert target.startswith("/")
            if not source.startswith("."):
                assert source in FILE["volumes"]
            else:
                assert (COMPOSE / source).resolve().exists(), source
    build = SERVICES["queuegate"]["build"]
    assert (COMPOSE / build["context"]).resolve() == ROOT and (ROOT / build["dockerfile"]).exists()


def test_the_console_is_for_this_machine_and_finds_the_proxy():
    """It listens on the machine's own loopback address, and connects to what the proxy publishes there."""
    service = SERVICES["console"]
    assert service["network_mode"] == "host" and "ports" not in service
    assert service["image"] == SERVICES["queuegate"]["image"]
    options = parser().parse_args(service["command"])
    assert options.listen == str(CONSOLE) and CONSOLE.loopback
    published = SERVICES["queuegate"]["ports"]
    metrics = urlsplit(options.metrics_url)
    assert {f"{options.host}:{port}:{port}" for port in (options.port, metrics.port)} == set(published)
    assert metrics.path == "/counters"
    assert f":{CONSOLE.port}/login" in service["healthcheck"]["test"][-1]
    assert service["depends_on"] == {"queuegate": {"condition": "service_healthy"}}


def test_prometheus_and_grafana_find_each_other_by_the_names_of_the_compose_file():
    """tests/monitoring has promtool check the configuration."""
    path = ROOT / "packaging/prometheus/prometheus.yml"
    targets = [
        target
        for job in yaml.safe_load(path.read_text())["scrape_configs"]
        for group in job.get("static_configs", [])
        for target in group["targets"]
    ]
    assert targets == ["queuegate:9307"] and "queuegate" in SERVICES
    provisioning = ROOT / "packaging/grafana/provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources/prometheus.yml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090" and "prometheus" in SERVICES
    (provider,) = yaml.safe_load((provisioning / "dashboards/queuegate.yml").read_text())["providers"]
    mounts = [volume.split(":")[:2] for volume in SERVICES["grafana"]["volumes"]]
    assert ["../grafana/dashboards", provider["options"]["path"]] in mounts


def test_the_databases_accounts_are_enough(own_mariadb: MariaDb, tmp_path: Path) -> None:
    """The script that makes them runs as the image runs it; the proxy serves with the compose file's own settings."""
    server = own_mariadb
    with server.connect(database=None) as connection:
        sql = Sql(connection)
        sql("CREATE DATABASE shop")
        sql(f"CREATE USER app@'%' IDENTIFIED BY '{escape_string(PASSWORD)}'")  # as MARIADB_USER does
        sql("GRANT ALL ON shop.* TO app@'%'")
        for statement in accounts_script().split(";\n"):
            sql(statement)
    config = yaml.safe_load((COMPOSE / "config.yaml").read_text())
    config = {name: value for name, value in config.items() if name not in ("listen", "backend", "admin", "log")}
    gate = Gate(f"mysql://queuegate:x@127.0.0.1:{server.port}/shop", tmp_path, database="shop", **config)
    secret = quote(PASSWORD, safe="")
    gate.start({"QUEUEGATE_BACKEND": f"mysql://queuegate:{secret}@127.0.0.1:{server.port}/shop"})
    try:
        with gate.connect(user="app", password=PASSWORD) as client:
            sql = Sql(client)
            sql("CREATE QUEUE orders (n INT)")
            sql("INSERT INTO orders (n) VALUES (7)")
            assert sql.rows("SELECT n FROM STREAM orders LIMIT 1 WAIT 20") == [(7,)]
    finally:
        gate.stop()
    with pytest.raises(pymysql.OperationalError):
        gate.connect(user="app", password=PASSWORD)


def test_the_databases_account_has_what_the_pages_grant() -> None:
    """Each place that makes queuegate's own account gives it the rights that docs/security.md lists."""
    (row,) = re.findall(r"^\| queuegate itself.*$", (ROOT / "docs/security.md").read_text(), re.MULTILINE)
    demanded = set(re.findall(r"`([A-Z, ]+)`", row))
    assert len(demanded) == 2
    texts = {path.name: path.read_text() for path in (ROOT / "docs").glob("*.md")}
    texts["accounts.sh"] = accounts_script() + ";"
    makers = set()
    for name, text in texts.items():
        for _, account in re.findall(r"^GRANT ([A-Z, ]+ LOCK TABLES) ON \S+ TO (\S+?);", text, re.MULTILINE):
            given = re.findall(rf"^GRANT ([A-Z, ]+) ON \S+ TO {re.escape(account)}", text, re.MULTILINE)
            assert set(given) == demanded, f"{name}: {account}"
            makers.add(name)
            makers.add(name)


def accounts_script() -> str:
    """The statements that it sends; the image sources it, and has the function docker_process_sql."""
    path = COMPOSE / "accounts.sh"
    assert not os.access(path, os.X_OK), "the image would run it in a process without its functions"
    done = subprocess.run(
        ["bash", "-euc", f'docker_process_sql() {{ cat; }}; . "{path}"'],
        env={**os.environ, "QUEUEGATE_DATABASE_PASSWORD": PASSWORD},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return done.stdout.strip().removesuffix(";")


@pytest.mark.parametrize("folder", ["docker", "compose", "kubernetes"])
def test_the_configurations_are_valid(folder):
    environment = {"QUEUEGATE_PASSWORD_ROOT": "x"}
    config = load(ROOT / "packaging" / folder / "config.yaml", environment=environment)
    assert config.listen.port == 3307 and config.admin.listen is not None and config.admin.listen.port == 9307
