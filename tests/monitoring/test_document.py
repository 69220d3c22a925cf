"""docs/monitoring.md is complete: every metric of the page with its labels, and every alert with what to do."""

from __future__ import annotations

import itertools
import json
import re

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from prometheus_server import FOLDER, rules
from servers import ROOT

from engine.background.surveyor import Survey
from engine.delivery.metrics import DELAY_BOUNDS, QueueMetrics
from engine.history.writer import HistoryState
from engine.model.options import QueueOptions
from engine.model.queue import QueueCatalog, QueueName, QueueSpec, QueueStatus
from engine.model.topics import GroupLag, TopicExtent
from engine.store.census import Census
from engine.topics.gauges import Gauges
from proxy.admin.metrics_page import Facts, ProxyFacts, lines
from proxy.cluster.reports import WorkerReport

TEXT = (ROOT / "docs/monitoring.md").read_text()
DASHBOARD = (ROOT / "packaging/grafana/dashboards/queuegate.json").read_text()
METRIC = re.compile(r"\bqueuegate_\w+")
SUFFIX = re.compile(r"_(bucket|sum|count)$")
A_QUEUE, A_TOPIC = QueueName("shop", "orders"), QueueName("shop", "log")
A_GROUP = QueueSpec(QueueName("shop", "log_group_g"), QueueOptions(topic="log", consumer_group="g"), (), ("id",))


def section(title: str) -> str:
    """The text below a heading, up to the next one of its level or above."""
    level = title.partition(" ")[0]
    found = re.search(rf"(?ms)^{re.escape(title)}\n(.*?)(?=^#{{2,{len(level)}}} |\Z)", TEXT)
    assert found, f"docs/monitoring.md has no {title}"
    return found[1]


def table(text: str) -> list[list[str]]:
    """The cells of the rows of the first table, without its head."""
    lines = itertools.takewhile(lambda line: line.startswith("|"), text[text.index("\n|") + 1 :].splitlines())
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines][2:]


def full_page() -> str:
    """The page of a proxy that has something of everything."""
    status = [QueueStatus(name, 1, 0, 0, {}, (0,) * (len(DELAY_BOUNDS) + 1), 0.0) for name in (A_QUEUE, A_GROUP.name)]
    queues = {A_QUEUE: QueueSpec(A_QUEUE, QueueOptions(), (), ("id",)), A_GROUP.name: A_GROUP}
    return "".join(
        lines(
            Facts(
                [WorkerReport(0, 1, 1, 1, 0.5, status, {"shop": 0})],
                dict.fromkeys(queues, Survey(Census(ready=1))),
                QueueCatalog(1, queues),
                "1.2",
                gauges=Gauges({A_TOPIC: TopicExtent(3, 9, 6, 100, 2)}, {A_GROUP.name: GroupLag(4, 5, False, 1)}),
                histories={A_TOPIC: HistoryState()},
                proxy=ProxyFacts(True, True, 1000, certificate_expires=1.8e9),
                uncovered={A_QUEUE: 3},
            )
        )
    )


def told() -> dict[str, set[str]]:
    """The metrics of the page, each with its labels; a histogram once."""
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(full_page()):
        for sample in family.samples:
            name = SUFFIX.sub("", sample.name) if family.type == "histogram" else sample.name
            found.setdefault(name, set()).update(set(sample.labels) - {"le"})
    return found


def counters() -> set[str]:
    """Those of the table of counters, and what the engine did."""
    names = {name for row in table(section("## Counters")) for name in re.findall(r"`(\w+)`", row[0])}
    (row,) = [row for row in table(section("## Metrics")) if "<counter>" in row[0]]
    return names | set(re.findall(r"`(\w+)`", row[2]))


def documented() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for names, labels, _ in table(section("## Metrics")):
        for name in re.findall(r"`(queuegate_[\w<>]+)`", names):
            all_of_it = [name.replace("<counter>", counter) for counter in counters()] if "<" in name else [name]
            for one in all_of_it:
                assert one not in found, f"{one} has two rows"
                found[one] = set(labels.split(", ")) - {""}
    return found


def test_every_metric_is_documented_with_its_labels():
    assert len(told()) > 50
    assert documented() == told()


def test_every_counter_is_documented():
    assert counters() == set(QueueMetrics().snapshot())


def test_the_number_of_series_is_as_documented():
    samples = [
        sample
        for family in text_string_to_metric_families(full_page())
        for sample in family.samples
        if sample.labels.get("queue") == A_QUEUE.table
    ]
    of_workers = sum("worker" in sample.labels for sample in samples)
    text = f"For each proxy a queue has {of_workers} series of each worker and {len(samples) - of_workers} more"
    assert text in section("## Prometheus and Grafana")


@pytest.mark.parametrize("name", ["alerts.yml", "recording.yml", "queuegate.json"])
def test_what_is_asked_for_is_a_metric_of_the_page(name):
    expressions = (
        [rule["expr"] for rule in rules(name)]
        if name.endswith(".yml")
        else [target["expr"] for panel in json.loads(DASHBOARD)["panels"] for target in panel.get("targets", ())]
    )
    used = {SUFFIX.sub("", metric) for expression in expressions for metric in METRIC.findall(expression)}
    assert used and used <= set(told())


def test_every_alert_has_a_section_that_says_what_to_do():
    text = section("## Alerts")
    titles = re.findall(r"(?m)^### (.*)$", text)
    assert titles == [rule["alert"] for rule in rules("alerts.yml")]
    for title in titles:
        meaning, _, steps = section(f"### {title}").partition("\n1. ")
        assert len(meaning.strip()) > 40 and steps.count(". ") >= 2, title


def test_the_table_of_alerts_is_theirs():
    rows = [row[:2] for row in table(section("## Alerts"))]
    expected = [(rule["alert"], rule["labels"]["severity"]) for rule in rules("alerts.yml")]
    assert rows == [[f"[{name}](#{name.lower()})", severity] for name, severity in expected]


def test_what_may_be_dropped_is_used_as_the_file_says():
    """prometheus.yml shows which metrics may be dropped, and names the one panel that has them."""
    text = (FOLDER / "prometheus.yml").read_text()
    example = yaml.safe_load("\n".join(re.findall(r"(?m)^    # ((?:metric_relabel|  ).*)$", text)))
    dropped = re.compile(example["metric_relabel_configs"][0]["regex"])
    assert sum(bool(dropped.fullmatch(name)) for name in told()) == 5
    assert not any(dropped.search(rule["expr"]) for name in ("alerts.yml", "recording.yml") for rule in rules(name))
    panels = [
        panel["title"]
        for panel in json.loads(DASHBOARD)["panels"]
        if any(dropped.search(target["expr"]) for target in panel.get("targets", ()))
    ]
    assert [f'"{title}"' for title in panels] == re.findall(r'"[^"]+"', text[text.index("No alert needs them") :])[:1]
