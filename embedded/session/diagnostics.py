"""What can be queried after the last statement: warnings, ROW_COUNT(), FOUND_ROWS(), LAST_INSERT_ID()."""

from __future__ import annotations

from dataclasses import dataclass, field

from embedded.compile.plan import ResultColumn
from embedded.compile.values.types import BIGINT, UNSIGNED_BIGINT, meta, varchar

WARNING_COLUMNS = tuple(
    ResultColumn(meta(sql_type, name, 1), sql_type)
    for name, sql_type in (("Level", varchar(7)), ("Code", UNSIGNED_BIGINT), ("Message", varchar(512)))
)
CONDITIONS_MAX = 64  # max_error_count


@dataclass(slots=True)
class Diagnostics:
    """See the module."""

    warnings: list[tuple[str, int, str]] = field(default_factory=list)
    warning_count: int = 0
    row_count: int = 0
    found_rows: int = 0
    last_insert_id: int = 0

    def clear(self) -> None:
        """A new statement begins."""
        self.warnings.clear()
        self.warning_count = 0

    def add(self, level: str, errno: int, text: str) -> None:
        self.warning_count += 1
        if len(self.warnings) < CONDITIONS_MAX:
            self.warnings.append((level, errno, text))

    def shown(self, *, errors: bool, offset: int, limit: int | None) -> list[tuple[str, int, str]]:
        """Rows of SHOW WARNINGS or SHOW ERRORS."""
        rows = [row for row in self.warnings if not errors or row[0] == "Error"][offset:]
        return rows if limit is None else rows[:limit]

    def count(self, *, errors: bool) -> int:
        return sum(row[0] == "Error" for row in self.warnings) if errors else self.warning_count


def count_column(errors: bool) -> ResultColumn:
    """The column of SHOW COUNT(*) WARNINGS."""
    name = "@@session.error_count" if errors else "@@session.warning_count"
    return ResultColumn(meta(BIGINT, name, 1), BIGINT)
