"""docs/embedded.md keeps up with the code."""

from __future__ import annotations

import re
from pathlib import Path

from embedded.compile.expressions.calls import FUNCTIONS

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "embedded.md").read_text()
INTERNAL = {"json_arrow", "json_unquote_arrow", "default"}
WITH_UNIT = {"date_add", "date_sub", "timestampadd", "timestampdiff"}


def test_every_function_is_named():
    section = DOCUMENT.split("## Functions")[1]
    named = set(re.findall(r"`([A-Z0-9_]+)`", section))
    assert {name.upper() for name in (FUNCTIONS.keys() | WITH_UNIT) - INTERNAL} <= named
