"""What the documents tell a user to install: the repository in place, so that edits and pulls have an effect."""

from __future__ import annotations

import re
import tomllib

from over import over
from servers import ROOT

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@over(DOCUMENTS)
def test_no_document_replaces_an_install_in_place_by_a_copy(path):
    found = re.findall(r"pip install ([^`\n#]*)", path.read_text())
    for arguments in found:
        own = re.search(r"(^|\s)'?\.(\[[\w,]*\])?'?(\s|$)", arguments)
        assert not own or re.search(r"(^|\s)(-e|--editable)\s", arguments), arguments


def test_an_install_in_place_is_a_path():
    """Spark looks for modules called pyspark_... on paths; it does not ask finders."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert settings["dev-mode-dirs"] == ["."] and not settings.get("dev-mode-exact")
