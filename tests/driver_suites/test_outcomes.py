"""What counts as a difference between two ways of running a suite."""

from __future__ import annotations

import json
from pathlib import Path

from embedded_rules import RULES, rule_for, share
from outcomes import Outcome, compare, read_go, read_results

PASSED, FAILED, SKIPPED = Outcome("passed"), Outcome("failed", "why"), Outcome("skipped")


def test_a_test_that_only_fails_directly_is_no_loss() -> None:
    found = compare("s", [{"a": FAILED, "b": PASSED}], [{"a": PASSED, "b": PASSED}])
    assert [difference.test for difference in found.differences] == ["a"]
    assert found.nothing_lost
    assert not compare("s", [{"a": FAILED, "b": PASSED}], [{"a": SKIPPED, "b": PASSED}]).nothing_lost


def test_runs_that_agree_are_the_same() -> None:
    run = {"a": PASSED, "b": FAILED, "c": SKIPPED}
    found = compare("s", [run], [run])
    assert found.nothing_lost and found.tests == 3 and found.direct == {"passed": 1, "failed": 1, "skipped": 1}


def test_every_way_to_differ_is_found() -> None:
    direct = {"fails": PASSED, "passes": FAILED, "skipped": PASSED, "gone": PASSED, "same": PASSED}
    proxied = {"fails": FAILED, "passes": PASSED, "skipped": SKIPPED, "new": PASSED, "same": PASSED}
    found = compare("s", [direct], [proxied])
    assert not found.nothing_lost
    assert {d.test: (d.direct, d.proxied) for d in found.differences} == {
        "fails": ("passed", "failed"), "passes": ("failed", "passed"), "skipped": ("passed", "skipped"),
        "gone": ("passed", "not run"), "new": ("not run", "passed"),
    }  # fmt: skip


def test_a_test_that_is_not_equal_to_itself_is_named_and_no_difference() -> None:
    found = compare("s", [{"a": PASSED, "b": PASSED}, {"a": FAILED, "b": PASSED}], [{"a": FAILED, "b": FAILED}] * 2)
    assert [d.test for d in found.differences] == ["b"] and found.flaky == ["a"]


def test_nothing_that_passed_and_a_gate_at_fault_are_no_success() -> None:
    assert not compare("s", [{}], [{}]).nothing_lost
    assert not compare("s", [{"a": FAILED}], [{"a": FAILED}]).nothing_lost
    assert not compare("s", [{"a": PASSED}], [{"a": PASSED}], ["traceback"]).nothing_lost


def test_of_two_outcomes_the_worse_one_counts(tmp_path: Path) -> None:
    file = tmp_path / "results"
    entries = [("a", "passed"), ("a", "failed"), ("a", "passed"), ("b", "skipped"), ("b", "passed")]
    file.write_text("".join(json.dumps({"id": i, "outcome": o, "detail": ""}) + "\n" for i, o in entries))
    assert {test: one.verdict for test, one in read_results(file).items()} == {"a": "failed", "b": "passed"}
    assert read_results(tmp_path / "none") == {}


def test_what_go_prints_is_read() -> None:
    def line(action: str, test: str | None, output: str = "") -> str:
        entry = {"Action": action, "Package": "p", **({"Test": test} if test else {}), "Output": output}
        return json.dumps(entry)

    found = read_go([
        "not json", line("run", "T"), line("output", "T", "=== RUN T"), line("output", "T", "broke"), line("fail", "T"),
        line("pass", "U"), line("skip", "V"), line("fail", None),
    ])  # fmt: skip
    assert found == {"p:T": Outcome("failed", "broke"), "p:U": PASSED, "p:V": SKIPPED}


def test_the_share_of_the_embedded_backend() -> None:
    load = "pymysql/tests/test_load_local.py::TestLoadLocal::test_load_file"
    direct = {"a": PASSED, "b": PASSED, load: PASSED, "failed": FAILED, "skipped": SKIPPED}
    embedded = {"a": PASSED, "b": FAILED, load: FAILED, "failed": PASSED, "skipped": FAILED}
    found = share(compare("pymysql", [direct], [embedded]))
    assert (found.direct, found.embedded, list(found.refused), list(found.lost)) == (3, 1, [load], ["b"])
    assert found.percent == 50 and not found.enough
    assert share(compare("pymysql", [direct], [{**embedded, "b": PASSED}])).enough
    assert not share(compare("pymysql", [direct], [{**embedded, "b": PASSED}], ["traceback"])).enough


def test_every_rule_stands_in_the_documentation() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/embedded.md").read_text()
    assert [rule.quotation for rule in RULES if rule.quotation not in page] == []
    assert rule_for("aiomysql", "tests/test_issues.py::test_issue_6[asyncio-tcp0]") is not None
    assert rule_for("aiomysql", "tests/test_issues.py::test_issue_66[asyncio-tcp0]") is None
