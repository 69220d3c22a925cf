"""The alerts on synthetic series, by promtool: each fires where it should, and not in the case beside it.

A case says how the series run, a value a minute in Prometheus' notation, which alerts fire in the end, and nothing else
fires. `steady` is a proxy and a queue without any trouble; each case changes or adds series.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import prometheus_server
import pytest
import yaml
from prometheus_server import FOLDER, program, rules
from servers import ROOT

pytestmark = pytest.mark.long

MINUTES = 90
PROXY = 'job="queuegate",instance="a:9307"'
QUEUE = f'{PROXY},database="shop",queue="orders"'
COUNTED = f'{QUEUE},worker="0"'
GROUP = f'{PROXY},database="shop",topic="log",group="g"'
AGE, SENT = f"queuegate_queue_oldest_ready_age_seconds{{{QUEUE}}}", f"queuegate_queue_sent_total{{{COUNTED}}}"
AGAIN, DEAD = f"queuegate_queue_redelivered_total{{{COUNTED}}}", f"queuegate_queue_dead_lettered_total{{{COUNTED}}}"
RECEIVERS, PAUSED = f"queuegate_queue_receivers{{{COUNTED}}}", f"queuegate_queue_paused{{{QUEUE}}}"
BURIAL, STALLS = f"queuegate_queue_is_dead_letter_queue{{{QUEUE}}}", f"queuegate_queue_stalls_total{{{COUNTED}}}"
HELD, LAG = f"queuegate_queue_alarms{{{COUNTED}}}", f"queuegate_group_oldest_unread_age_seconds{{{GROUP}}}"
IN_FLIGHT = f'queuegate_queue_messages{{{QUEUE},state="in_flight"}}'
UNCOVERED = f"queuegate_queue_uncovered{{{QUEUE}}}"
HISTORY = f'queuegate_topic_history_failing{{{PROXY},database="shop",topic="log"}}'
OVERDUE = f'queuegate_schedule_overdue_seconds{{{PROXY},database="shop"}}'
UP, DATABASE, READY = f"up{{{PROXY}}}", f"queuegate_database_up{{{PROXY}}}", f"queuegate_ready{{{PROXY}}}"
MISSING, DEATHS = f"queuegate_workers_missing{{{PROXY}}}", f"queuegate_worker_restarts_total{{{PROXY}}}"
LOGINS = f"queuegate_login_failures_total{{{PROXY}}}"
CLIENTS = f'queuegate_connections{{{PROXY},worker="0"}}'
MORE_CLIENTS = f'queuegate_connections{{{PROXY},worker="1"}}'
LIMIT, EXPIRY = (
    f"queuegate_connections_limit{{{PROXY}}}",
    f"queuegate_tls_certificate_expiry_timestamp_seconds{{{PROXY}}}",
)


def always(value: float) -> str:
    return f"{value:g}x{MINUTES}"


def late(before: float, after: float, last: int) -> str:
    """So at first, and so in the last minutes."""
    return f"{before:g}x{MINUTES - last} {after:g}x{last - 1}"


STEADY = {
    AGE: always(0), SENT: f"0+60x{MINUTES}", AGAIN: always(0), DEAD: always(0), RECEIVERS: always(1),
    PAUSED: always(0), BURIAL: always(0), STALLS: always(0), HELD: always(0), LAG: always(0), HISTORY: always(0),
    OVERDUE: always(0), UP: always(1), DATABASE: always(1), READY: always(1), MISSING: always(0), DEATHS: always(0),
    LOGINS: always(0), CLIENTS: always(10), MORE_CLIENTS: always(10), LIMIT: always(100), EXPIRY: always(30 * 86400),
}  # fmt: skip
UNSERVED = {AGE: f"0+60x{MINUTES}", SENT: always(7), RECEIVERS: always(0)}

# What it is about, what is not as ever, and the alerts of it.
CASES: list[tuple[str, dict[str, str], set[str]]] = [
    ("nothing is wrong", {}, set()),
    ("nobody receives", UNSERVED, {"QueueNotServed"}),
    ("nobody ever received, and the counters are not there", {AGE: always(900), SENT: "", RECEIVERS: ""},
     {"QueueNotServed"}),
    ("nobody receives dead letters", UNSERVED | {BURIAL: always(1)}, set()),
    ("the queue is paused", UNSERVED | {PAUSED: always(1)}, set()),
    ("nobody has received for some minutes only", {AGE: late(0, 100, 4), SENT: always(7), RECEIVERS: always(0)}, set()),
    ("a worker polls, and no scrape sees its stream", {AGE: always(90), RECEIVERS: always(0)}, set()),
    ("nobody receives at this proxy, but at another", UNSERVED | {AGE: always(90),
     'queuegate_queue_receivers{job="queuegate",instance="b:9307",database="shop",queue="orders",worker="0"}':
     always(1)}, set()),
    ("nobody receives from the same queue of another database server", UNSERVED | {AGE: always(90),
     'queuegate_queue_receivers{job="queuegate-2",instance="b:9307",database="shop",queue="orders",worker="0"}':
     always(1)}, {"QueueNotServed"}),
    ("all slots of a worker are in use", UNSERVED | {RECEIVERS: always(1), IN_FLIGHT: always(4)}, {"QueueFallsBehind"}),
    ("what is in flight is held by a client of a proxy that has ended", UNSERVED | {IN_FLIGHT: always(4)}, set()),
    ("a receiver holds messages and does nothing", {SENT: always(7), IN_FLIGHT: always(2)}, set()),
    ("the leases of a dead receiver run out", {SENT: f"0+4x{MINUTES}", AGAIN: f"0+4x{MINUTES}", IN_FLIGHT: always(2)},
     {"MessagesFailAgainAndAgain"}),
    ("nobody receives a part of the ring", {UNCOVERED: late(0, 4, 15)}, {"KeyRangeNotServed"}),
    ("nobody receives a part of the ring, and it is late", {UNCOVERED: always(4), AGE: always(900)},
     {"KeyRangeNotServed"}),
    ("nobody received a part of the ring for a moment", {UNCOVERED: late(0, 4, 8)}, set()),
    ("a part of the ring waits in a paused queue", {UNCOVERED: always(4), PAUSED: always(1)}, set()),
    ("receivers are too slow", {AGE: always(301)}, {"QueueFallsBehind"}),
    ("receivers hold what they have, and nothing is sent", {AGE: always(301), SENT: always(7)}, {"QueueFallsBehind"}),
    ("receivers are just quick enough", {AGE: always(299)}, set()),
    ("the queue is late, and was paused", {AGE: always(301), PAUSED: always(1)}, set()),
    ("messages are given up", {DEAD: late(0, 3, 5)}, {"DeadLettersGrow"}),
    ("dead letters of some time ago", {DEAD: late(0, 3, 20)}, set()),
    ("a fifth of the deliveries is repeated", {AGAIN: f"0+12x{MINUTES}"}, {"MessagesFailAgainAndAgain"}),
    ("a twentieth of the deliveries is repeated", {AGAIN: f"0+3x{MINUTES}"}, set()),
    ("nothing is delivered at all", {SENT: always(7), AGAIN: always(7)}, set()),
    ("a message is held", {HELD: late(0, 1, 4)}, {"MessageHeldTooLong"}),
    ("a message was held", {HELD: f"1x{MINUTES - 3} 0x2"}, set()),
    ("the watchdog began deliveries anew", {STALLS: late(0, 1, 5)}, {"QueueStalled"}),
    ("it did so long ago", {STALLS: late(0, 1, 20)}, set()),
    ("a group is behind", {LAG: always(301)}, {"TopicGroupLag"}),
    ("a group is a little behind", {LAG: always(299)}, set()),
    ("a history is not kept", {HISTORY: late(0, 1, 14)}, {"TopicHistoryFails"}),
    ("a history was not kept for a moment", {HISTORY: late(0, 1, 8)}, set()),
    ("a schedule is late", {OVERDUE: late(0, 90, 4)}, {"ScheduleLate"}),
    ("a schedule's tick waits for a moment", {OVERDUE: always(30)}, set()),
    ("a proxy is gone", dict.fromkeys(STEADY, "") | {UP: late(1, 0, 4)}, {"ProxyDown"}),
    ("another job is gone", {'up{job="node",instance="a:9100"}': always(0)}, set()),
    ("the database is gone", {DATABASE: late(1, 0, 4), READY: late(1, 0, 4)}, {"DatabaseUnreachable"}),
    ("a proxy ends", {READY: late(1, 0, 5)}, {"ProxyNotReady"}),
    ("a proxy has just begun to end", {READY: late(1, 0, 2)}, set()),
    ("a worker does not answer", {MISSING: late(0, 1, 5)}, {"WorkerMissing"}),
    ("a worker did not answer once", {MISSING: late(0, 1, 2)}, set()),
    ("a worker died", {DEATHS: late(0, 1, 5)}, {"WorkerRestarts"}),
    ("a worker died long ago", {DEATHS: late(0, 1, 20)}, set()),
    ("the proxy itself was started anew", {DEATHS: late(1, 0, 5)}, set()),
    ("logins fail", {LOGINS: f"0+20x{MINUTES}"}, {"LoginsFail"}),
    ("a login fails now and then", {LOGINS: f"0+5x{MINUTES}"}, set()),
    ("nearly all connections are taken", {CLIENTS: always(51), MORE_CLIENTS: always(40)}, {"ConnectionsNearLimit"}),
    ("many connections are taken", {CLIENTS: always(45), MORE_CLIENTS: always(44)}, set()),
    ("the certificate ends in thirteen days", {EXPIRY: always(13 * 86400)}, {"CertificateExpires"}),
    ("the certificate ends in fifteen days", {EXPIRY: always(15 * 86400)}, set()),
]  # fmt: skip
FIRING = 'count by (alertname) (ALERTS{alertstate="firing"})'


def test_promtool_accepts_the_files():
    for kind, names in (("rules", ("alerts.yml", "recording.yml")), ("config", ("prometheus.yml",))):
        command = [program("promtool"), "check", kind, *(str(FOLDER / name) for name in names)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_case_in_which_it_fires():
    fire = set().union(*(alerts for _, _, alerts in CASES))
    assert fire == {rule["alert"] for rule in rules("alerts.yml")}


def test_exactly_these_alerts_fire(tmp_path):
    tests = [
        {
            "name": title,
            "interval": "1m",
            "input_series": [{"series": name, "values": run} for name, run in (STEADY | changed).items() if run],
            "promql_expr_test": [
                {
                    "expr": f"{FIRING} # {title}",  # promtool tells the expression that failed
                    "eval_time": f"{MINUTES}m",
                    "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in sorted(alerts)],
                }
            ],
        }
        for title, changed, alerts in CASES
    ]
    file = tmp_path / "tests.yml"
    file.write_text(
        yaml.safe_dump({"rule_files": [str(FOLDER / "alerts.yml")], "evaluation_interval": "1m", "tests": tests})
    )
    command = [program("promtool"), "test", "rules", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_says_what_how_bad_and_what_to_do():
    for rule in rules("alerts.yml"):
        assert rule["labels"]["severity"] in ("critical", "warning"), rule
        assert {"summary", "description", "runbook", "runbook_url"} == set(rule["annotations"]), rule
        assert rule["annotations"]["runbook"] == f"docs/monitoring.md#{rule['alert'].lower()}"


def test_what_to_do_is_on_the_page_that_the_alert_names():
    """By the heading, whose anchor the site makes of its words; and the address is that of the page on the site."""
    for rule in rules("alerts.yml"):
        page, _, anchor = rule["annotations"]["runbook"].partition("#")
        headings = re.findall(r"(?m)^#{2,6} (.+)$", (ROOT / page).read_text())
        assert anchor in {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in headings}
        address = f"{{{{ . }}}}/{Path(page).stem}.html#{anchor}"
        assert rule["annotations"]["runbook_url"] == (
            f"{{{{ with $externalLabels.queuegate_docs }}}}{address}{{{{ end }}}}"
        )


@pytest.mark.parametrize(
    ("labels", "address"),
    [
        ({"queuegate_docs": "https://docs.example.com/q"}, "https://docs.example.com/q/monitoring.html#proxydown"),
        ({}, ""),
    ],
    ids=["with an address", "without"],
)
def test_the_address_of_what_to_do_begins_with_the_label_that_prometheus_has(tmp_path, labels, address):
    rule = next(rule for rule in rules("alerts.yml") if rule["alert"] == "ProxyDown")
    told = {"summary": "The proxy a:9307 does not answer", "runbook_url": address}
    annotations = {**rule["annotations"], **told}
    alert = {"exp_labels": {"severity": "critical", "job": "queuegate", "instance": "a:9307"}}
    test = {
        "interval": "1m",
        "external_labels": labels,
        "input_series": [{"series": UP, "values": always(0)}],
        "alert_rule_test": [
            {"eval_time": "5m", "alertname": "ProxyDown", "exp_alerts": [{**alert, "exp_annotations": annotations}]}
        ],
    }
    file = tmp_path / "tests.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(FOLDER / "alerts.yml")], "tests": [test]}))
    done = subprocess.run(
        [program("promtool"), "test", "rules", str(file)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_a_missing_prometheus_is_a_skip_at_a_desk_and_a_failure_in_ci(monkeypatch, ci, outcome):
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(prometheus_server, "find_binary", lambda name: None)
    with pytest.raises(outcome, match="promtool is not installed"):
        program("promtool")
