"""What of a driver's own tests the embedded backend refuses by a rule, and the share of the rest that passes there.

A rule is a sentence, or a part of one, of docs/embedded.md; a test of this project sees that it still stands there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from outcomes import Comparison

ENOUGH = 95.0  # percent
ONE_DATABASE = "databases other than `main`"
ACCOUNTS = "`GRANT`, `CREATE USER`"
LOAD_DATA = "`LOAD DATA`"
PROCEDURES = "triggers, procedures, functions, events"
TYPES = "`SET` and geometry types"
BITS = "`BIT` (to 63 bits)"
WARNINGS = "gives no warning for a text that is no number"
DISTRIBUTED = "XA transactions"
ERROR_TEXTS = "The text of an error is MySQL's, and may go on with what to do"


@dataclass(frozen=True)
class Rule:
    """Tests of one suite that a documented rule refuses, as patterns of test ids."""

    suite: str  # a pattern, as the tests are
    quotation: str  # from docs/embedded.md
    tests: Sequence[str]
    only_skipped: bool = False  # of what the suite itself skips, as it is told what there is not


RULES: Sequence[Rule] = (
    Rule("pymysql", LOAD_DATA, ["*/test_load_local.py::*"]),
    Rule("pymysql", PROCEDURES, [
        "*::test_issue_1206", "*::test_issue_95", "*::test_stored_procedures", "*_dbapi20.py::*::test_nextset",
    ]),
    Rule("pymysql", TYPES, ["*::test_issue_363"]),
    Rule("pymysql", ONE_DATABASE, ["*::test_issue_6", "*::TestAuthentication::test_plugin"]),
    Rule("pymysql", ACCOUNTS, ["*::testAuthEd25519"]),
    Rule("pymysql", WARNINGS, ["*::TestSSCursor::test_warnings"]),
    Rule("mysqlclient", BITS, ["*::test_BIT"]),
    Rule("mysqlclient", TYPES, ["*::test_MULTIPOLYGON"]),
    Rule("mysqlclient", PROCEDURES, ["*::test_stored_procedures", "*_dbapi20.py::*::test_nextset"]),
    Rule("aiomysql", DISTRIBUTED, ["*::test_twophase_transaction_*"]),
    Rule("aiomysql", ONE_DATABASE, [
        "*/test_connection.py::test_select_db?*", "*::test_issue_323?*", "*::test_issue_6[[]*",
    ]),
    Rule("aiomysql", PROCEDURES, ["*::test_callproc?*", "*::test_issue_95?*"]),
    Rule("aiomysql", LOAD_DATA, ["*/test_load_local.py::*"]),
    Rule("sqlalchemy-*", ONE_DATABASE, ["*"], only_skipped=True),
    Rule("aiomysql", ERROR_TEXTS, ["*::test_issue_792?*"]),
)  # fmt: skip


@dataclass(frozen=True)
class EmbeddedShare:
    """How a suite does on the embedded backend, measured by what passes on MariaDB."""

    suite: str
    direct: int
    embedded: int
    refused: Mapping[str, str]  # test to rule
    lost: Mapping[str, str]  # test to what it said
    faults: Sequence[str] = ()

    @property
    def percent(self) -> float:
        """Of what passes on MariaDB and no rule refuses."""
        asked = self.embedded + len(self.lost)
        return 100.0 * self.embedded / asked if asked else 0.0

    @property
    def enough(self) -> bool:
        return self.percent >= ENOUGH and not self.faults


def share(found: Comparison) -> EmbeddedShare:
    """What of the passing tests passes on the embedded backend, is refused by a rule, or is lost."""
    refused: dict[str, str] = {}
    lost: dict[str, str] = {}
    for one in found.differences:
        if one.direct != "passed":
            continue
        rule = rule_for(found.suite, one.test, skipped=one.proxied == "skipped")
        if rule:
            refused[one.test] = rule
        else:
            lost[one.test] = f"{one.proxied}: {one.detail}"
    direct = found.direct.get("passed", 0)
    return EmbeddedShare(found.suite, direct, direct - len(refused) - len(lost), refused, lost, found.faults)


def rule_for(suite: str, test: str, *, skipped: bool = False) -> str | None:
    """The documented rule that refuses a test, if there is one."""
    for rule in RULES:
        if rule.only_skipped and not skipped:
            continue
        if fnmatchcase(suite, rule.suite) and any(fnmatchcase(test, pattern) for pattern in rule.tests):
            return rule.quotation
    return None
