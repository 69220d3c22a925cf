"""What mkdocs does besides, for the documentation site: pages of files that lie elsewhere in the repository, links to
them, and what a page says to the tests, which no reader needs to see.

mkdocs calls `on_files`, `on_page_markdown` and `on_post_build` (mkdocs.yml names this file).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "benchmarks-method.md",
    "config.yaml": "configuration-file.md",
}
"""Files of the repository that are pages of the site, too, by the name that they have there."""
_AUDIENCES = {
    "CONTRIBUTING.md": "engineers of queuegate.",
    "CHANGELOG.md": "operators, before an upgrade.",
    "benchmarks/README.md": "whoever wants to measure for himself.",
    "config.yaml": "operators.",
}
_BOOSTS = {"Start": 2, "Concepts": 2, "Guides": 3, "Data": 1, "Operate": 2, "Internals": 0.2}
"""How much more a page of this part, or of this group of one, counts in the search: most readers have a task, some use
Spark, few change queuegate itself."""
_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
_FENCED = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]+`")
_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made of files outside docs."""
    for source, name in PAGES.items():
        files.append(File.generated(config, name, content=page_of(source, (ROOT / source).read_text())))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """A page as the site has it."""
    made = page.file.src_uri in PAGES.values()
    page.meta["search"] = {"boost": boost(groups_of(page))}
    return outside_code(markdown, lambda text: shown(text, "" if made else page.file.src_uri))


@event_priority(-100)
def on_post_build(config: Any) -> None:
    """The index of the search once more, as a script: a page that is opened as a file may read no other file."""
    folder = Path(config.site_dir, "search")
    (folder / "search_index.js").write_text(f"var __index = {(folder / 'search_index.json').read_text()}")


def groups_of(page: Any) -> list[str]:
    """The groups of the navigation that the page is in, the smallest first, its part last."""
    return [str(group.title) for group in page.ancestors]


def boost(groups: list[str]) -> float:
    """That of the smallest group that has one."""
    return next((_BOOSTS[group] for group in groups if group in _BOOSTS), 1)


def page_of(source: str, text: str) -> str:
    """The Markdown of a page that is made of a file elsewhere; its links lead to pages."""
    if source.endswith(".yaml"):
        text = f"# Configuration file\n\n`{source}` with every key and its default.\n\n```yaml\n{text}```\n"
    title, _, rest = text.partition("\n")
    text = f"{title}\n\nFor: {_AUDIENCES[source]}\n{rest}"
    here = posixpath.join("..", source)  # seen from docs
    return outside_code(text, lambda part: _LINK.sub(lambda link: moved(link, posixpath.dirname(here), ""), part))


def shown(text: str, page: str) -> str:
    """Text between code blocks, as the site has it; `page` is empty where its links are right already."""
    text = _COMMENT.sub("", text)
    text = "\n".join(table_row(line) if line.startswith("|") else line for line in text.split("\n"))
    if not page:
        return text
    return _LINK.sub(lambda link: moved(link, posixpath.dirname(page), posixpath.dirname(page)), text)


def moved(link: re.Match[str], folder: str, page_folder: str) -> str:
    """A link as seen from its page in the site. Of a file that is no page the text stays, and the link goes."""
    label, target, anchor = link[1], link[2], link[3] or ""
    if not target or "://" in target or target.startswith("mailto:"):
        return link[0]
    path = posixpath.normpath(posixpath.join(folder, target))  # from docs
    if path.startswith("../"):
        if (name := PAGES.get(path.removeprefix("../"))) is None:
            return label
        path = name
        anchor = "" if target.endswith(".yaml") else anchor
    return f"[{label}]({posixpath.relpath(path, page_folder or '.')}{anchor})"


def table_row(line: str) -> str:
    """`\\|` in code of a table is for GitHub; Python's Markdown keeps cells whole by itself and would show it."""
    return _CODE.sub(lambda code: code[0].replace("\\|", "|"), line)


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """The text with what stands outside of code blocks changed."""
    parts = _FENCED.split(text)
    return "".join(part if number % 2 else change(part) for number, part in enumerate(parts))
