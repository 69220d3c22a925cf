"""Where the modules are: two folders above in a checkout; in an sdist, of which wheels are made too, beside this file.

The same file lies in each distribution's folder, as each sdist has to have it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Modules(BuildHookInterface):  # type: ignore[type-arg]
    """Includes the names of `tool.hatch.build.hooks.custom.modules`, at the top of what is built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it collects files."""
        root = Path(self.root)
        for name in self.config["modules"]:
            here = root / name
            build_data["force_include"][str(here if here.exists() else root.parent.parent / name)] = name
