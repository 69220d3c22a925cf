"""A private Prometheus for tests: its programs found, its rules with shorter times, its answers as plain values."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from servers import ROOT, find_binary, free_port, wait_until
from slowness import scaled

FOLDER = ROOT / "packaging/prometheus"
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_AGE = re.compile(r"((?:age|overdue)_seconds\)?\)? > )(\d+)")


def program(name: str) -> str:
    """Where a program of Prometheus is. Missing: a skip at a desk, a failure in CI."""
    found = find_binary(name)
    if found is None:
        reason = f"{name} is not installed (prometheus): the alerts and the dashboard are NOT tested"
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def rules(name: str) -> list[dict[str, Any]]:
    """The rules of a file of ours."""
    text = (FOLDER / name).read_text()
    return [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


def faster(text: str, factor: float) -> str:
    """A file of rules whose times, `for:`, ranges and ages alike, are so many times shorter."""

    def shorter(match: re.Match[str]) -> str:
        return f"{match[1]}{int(int(match[2]) * _SECONDS[match[3]] * 1000 / factor)}ms{match[4]}"

    def younger(match: re.Match[str]) -> str:
        return f"{match[1]}{int(match[2]) / factor:g}"

    text = re.sub(r"(for: )(\d+)([smhd])(\n)", shorter, text)
    return _AGE.sub(younger, re.sub(r"(\[)(\d+)([smhd])(\])", shorter, text))


class Prometheus:
    """A server that has our rules, and scrapes the admin ports of proxies."""

    def __init__(self, url: str) -> None:
        self._url = url

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """The labels and the value of each series now; those that are no number are left out."""
        question = urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(f"{self._url}/api/v1/query?{question}", timeout=20) as response:
                answer = json.load(response)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{expression}: {error.read().decode()}") from error
        series = [(one["metric"], float(one["value"][1])) for one in answer["data"]["result"]]
        return [(labels, value) for labels, value in series if not math.isnan(value)]

    def firing(self, *, ever: bool = False) -> set[tuple[str, str]]:
        """The alerts that fire, or have fired: name, and the queue or the instance that each is about."""
        selector = 'ALERTS{alertstate="firing"}'
        found = self.query(f"last_over_time({selector}[1h])" if ever else selector)
        return {(labels["alertname"], labels.get("queue") or labels.get("instance", "")) for labels, _ in found}

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._url}/-/ready", timeout=5) as response:
                return bool(response.status == 200)
        except OSError:
            return False


@contextlib.contextmanager
def running(directory: Path, targets: list[str], factor: float, seconds: float) -> Iterator[Prometheus]:
    """Such a server, with our files, and their times so many times shorter. It scrapes in intervals of so many seconds,
    and waits as long for an answer."""
    binary = program("prometheus")
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    interval = f"{seconds * 1000:.0f}ms"
    config["global"] = {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": "500ms"}
    config["scrape_configs"][0]["static_configs"] = [{"targets": targets}]
    for name in config["rule_files"]:
        (directory / name).write_text(faster((FOLDER / name).read_text(), factor))
    (directory / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = free_port()
    command = [
        binary, f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/data",
        f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
    ]  # fmt: skip
    with (directory / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        server = Prometheus(f"http://127.0.0.1:{port}")

        def ready() -> bool:
            assert process.poll() is None, (directory / "prometheus.log").read_text()
            return server.ready()

        wait_until(ready, 60, "Prometheus to start")
        yield server
    finally:
        process.terminate()
        try:
            process.wait(scaled(20))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
