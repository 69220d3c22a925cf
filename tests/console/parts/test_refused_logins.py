"""Refused logins in the log: one line a minute, with how many there were."""

from __future__ import annotations

import logging

from console.refused_logins import REPORT_SECONDS, RefusedLogins


def test_the_first_at_once_and_the_others_in_one_line_a_minute(caplog):
    now = 0.0
    strangers = RefusedLogins("login refused", lambda: now)
    with caplog.at_level(logging.WARNING):
        strangers.report()
        for number in range(1000):
            strangers.note(account=f"a{number}")
        assert [record.account for record in caplog.records] == ["a0"]
        now = REPORT_SECONDS
        strangers.report()
        strangers.report()
        now += REPORT_SECONDS
        strangers.report()
    assert [getattr(record, "times", 1) for record in caplog.records] == [1, 999]
