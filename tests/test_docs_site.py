"""The documentation as a site: it builds without a warning, loads nothing from other hosts, is read with
ease, and leads readers to what they look for.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import built_site
import pytest
import toolchains
import yaml
from over import over

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
NAVIGATION = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
AMONG_THE_FIRST = 3
"""One of so many results is seen without scrolling."""


def loaded(name: str) -> ModuleType:
    """A module of packaging/site, which is no package: another distribution has the name."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "packaging/site" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look it up
    spec.loader.exec_module(module)
    return module


READABILITY = loaded("readability")
ORDER = list(READABILITY.pages(NAVIGATION))


@over(PAGES)
def test_a_page_says_who_it_is_for(page):
    title, empty, audience, after = page.read_text().split("\n")[:4]
    assert title.startswith("# ") and not empty and not after
    assert re.fullmatch(r"For: [^.]+\.", audience), audience


@over(ORDER, lambda page: page.path)
def test_start_and_guides_are_easy_to_read(page):
    """Flesch-Kincaid. `make docs` prints the figure of each page."""
    file = DOCS / page.path
    if page.part in READABILITY.BOUNDED and file.exists():
        found = READABILITY.grade(file.read_text())
        assert found < READABILITY.BOUND, f"grade {found:.1f}: shorter sentences, shorter words"


def test_the_figure_of_known_texts():
    """Sentences whose words and syllables are counted by hand, and what is left out."""
    easy = "The cat sat on the mat. It was fat."  # 9 words, 2 sentences, 9 syllables
    assert READABILITY.grade(easy) == pytest.approx(0.39 * 9 / 2 + 11.8 * 1 - 15.59)
    hard = "Organizational responsibilities necessitate considerable administrative deliberation."
    assert READABILITY.grade(hard) > 30
    noise = "\n\n```sql\nSELECT organizational;\n```\n\n| considerable | deliberation |\n\n## Organizing\n"
    assert READABILITY.grade(easy + noise) == READABILITY.grade(easy)
    assert READABILITY.grade("For: everyone.\n\n" + easy + " `max_concurrency`") == READABILITY.grade(easy)
    assert READABILITY.grade("") == 0


def test_the_order_of_the_site():
    assert [next(iter(part)) for part in NAVIGATION] == [
        "Start", "Concepts", "Guides", "Reference", "Operate", "Internals"
    ]  # fmt: skip
    paths = [page.path for page in ORDER]
    assert len(paths) == len(set(paths)), "a page has one place"


def test_the_readme_lists_the_pages_in_the_order_of_the_site():
    readme = (ROOT / "README.md").read_text().partition("\n## More\n")[2]
    own = [page.path for page in ORDER if (DOCS / page.path).exists() and not page.path.startswith("adr/")]
    listed = [path for path in re.findall(r"\(docs/([\w-]+\.md)\)", readme) if path != "index.md"]
    assert sorted(listed) == sorted(path for path in own if path != "index.md")
    parts = {page.path: page.part for page in ORDER}
    assert list(dict.fromkeys(parts[path] for path in listed)) == [next(iter(part)) for part in NAVIGATION]


@over(sorted((DOCS / "pictures").glob("*.svg")))
def test_a_picture_is_used_and_can_be_read_aloud(picture):
    text = picture.read_text()
    assert re.search(r"<title id=.title.>[^<]+</title>", text) and re.search(r"<desc id=.desc.>[^<]{40,}</desc>", text)
    assert "<script" not in text and "href=" not in text and "url(http" not in text
    users = [page for page in PAGES if re.search(rf"!\[[^\]]{{10,}}\]\(pictures/{picture.name}\)", page.read_text())]
    assert users, "no page shows it with words for those who do not see it"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    return built_site.build(tmp_path_factory.mktemp("site") / "site")


class Resources(HTMLParser):
    """What a browser fetches by itself for a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            loads = name in ("src", "srcset", "poster", "data") or (name == "href" and tag in ("link", "use", "image"))
            if loads and value and dict(attributes).get("rel") != "canonical":
                self.found.append(value)
            if name == "class" and value and "mermaid" in value.split():
                self.found.append("https://a diagram that a script of another host would draw")


def resources(page: Path) -> list[str]:
    parser = Resources()
    parser.feed(page.read_text())
    return parser.found


def test_no_page_loads_anything_from_another_host(site):
    built = list(site.rglob("*.html"))
    assert len(built) >= len(ORDER)
    for page in built:
        foreign = [found for found in resources(page) if re.match(r"(?:\w+:)?//", found)]
        assert not foreign, f"{page.name}: {foreign}"
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", sheet.read_text()), sheet.name


def test_every_resource_is_there(site):
    for page in site.rglob("*.html"):
        if page.name == "404.html":
            continue  # its addresses are those of the host's root
        for found in resources(page):
            if not found.startswith("data:"):
                assert (page.parent / found.partition("?")[0]).exists(), f"{page.name}: {found}"


def test_pages_of_files_elsewhere_and_links_to_them(site):
    assert "changelog.html" in (site / "upgrades.html").read_text()
    assert "contributing.html" not in (site / "404.html").read_text().partition("<article")[2]
    file = (site / "configuration-file.html").read_text()
    assert "queue_defaults" in file and "For: operators." in file
    assert "docs/testing.md" not in re.findall(r'href="([^"]+)"', (site / "contributing.html").read_text())
    assert 'href="testing.html"' in (site / "contributing.html").read_text()


def test_lists_and_tables_are_lists_and_tables(site):
    """GitHub reads some Markdown otherwise: a list needs an empty line before it, what is in an item four blanks."""
    for page in site.rglob("*.html"):
        text = re.sub(r"<pre.*?</pre>", "", page.read_text().partition("<article")[2], flags=re.DOTALL)
        for paragraph in re.findall(r"<p>(.*?)</p>", text, re.DOTALL):
            raw = re.search(r"^\s*(?:[-*] |\d+\. |\| |```).*|\*\*\S.*", paragraph, re.MULTILINE)
            assert raw is None, f"{page.name}: {raw[0]}"


def test_what_is_meant_for_the_tests_is_not_shown(site):
    for page in site.rglob("*.html"):
        assert "test: shown" not in page.read_text() and "setup server" not in page.read_text(), page.name
    assert "id\\|a\\|b" not in (site / "reference-options.html").read_text()


def test_a_dead_link_a_missing_anchor_and_a_page_without_a_place_end_the_build(tmp_path):
    built_site.needed()
    docs = tmp_path / "docs"
    docs.mkdir()
    settings = (ROOT / "mkdocs.yml").read_text().partition("\nhooks:")[0]
    rest = (ROOT / "mkdocs.yml").read_text().partition("\nmarkdown_extensions:")[2].partition("\nnav:")[0]
    file = tmp_path / "mkdocs.yml"
    file.write_text(f"{settings}\nmarkdown_extensions:{rest}\nnav:\n  - index.md\n")

    def build() -> str:
        done = subprocess.run(
            [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(file)],
            env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip
        return "" if done.returncode == 0 else done.stderr

    index = docs / "index.md"
    index.write_text("# Page\n\nFine.\n")
    assert build() == ""
    index.write_text("# Page\n\n[gone](gone.md)\n")
    assert "gone.md" in build()
    index.write_text("# Page\n\n[gone](#gone)\n")
    assert "#gone" in build()
    index.write_text("# Page\n")
    (docs / "lost.md").write_text("# Lost\n")
    assert "lost.md" in build()


TASKS = [
    ("keep messages of one customer in order", "ordering-and-limits.md", "order_key = 'customer'"),
    ("why is message 17 not delivered", "troubleshooting.md", "EXPLAIN DELIVERY FOR orders"),
    ("limit to 5 a second", "ordering-and-limits.md", "max_rate = '5/s'"),
    ("send a message tomorrow at 18:00", "guide-later.md", "AT '2030-12-24 18:00:00'"),
    ("find why messages failed and send them again", "guide-retries.md", "REDRIVE mails_dead"),
    ("run a job each night", "schedules.md", "CRON '0 2 * * *'"),
    ("ack in my own transaction", "guide-outbox.md", "ACK transfers WHERE id = 1 AND epoch = 1"),
    ("move from SKIP LOCKED", "guide-migrate-skip-locked.md", "CREATE QUEUE job_queue"),
    ("on_commit", "guide-web.md", "CREATE QUEUE mails"),
    ("FastAPI", "guide-web.md", "CREATE QUEUE mails"),
    ("lag", "guide-topics.md", "SEEK TO OFFSET 2"),
    ("what happens when the proxy dies", "high-availability.md", "FROM queuegate_proxies"),
    ("which rights does an account need", "security.md", "GRANT SELECT, UPDATE ON orders"),
    ("what to watch", "production-checklist.md", "FROM queuegate.queues WHERE dead > 0"),
    ("exactly once", "guide-outbox.md", "ACK transfers WHERE id = 1 AND epoch = 1"),
    ("message lost after crash", "troubleshooting.md", "TRACE MESSAGE 1 ON bills"),
    ("priority", "ordering-and-limits.md", "INSERT INTO letters (recipient, priority)"),
    ("delay a message", "guide-later.md", "DELAY '2h'"),
    ("how many messages per second", "sizing.md", "CREATE QUEUE pings"),
    ("upgrade without downtime", "upgrades.md", "CREATE QUEUE q"),
    ("dead letter", "guide-retries.md", "REDRIVE mails_dead"),
    ("retry", "guide-retries.md", "NACK mails 3 REASON"),
    ("cron", "schedules.md", "CRON '0 2 * * *'"),
    ("duplicate jobs", "unique-messages.md", "UNIQUE KEY once"),
    ("deduplicate", "unique-messages.md", "UNIQUE KEY once"),
    ("poison message", "guide-retries.md", "REJECT mails 2 REASON"),
    ("pause a queue", "ordering-and-limits.md", "ALTER QUEUE letters PAUSE"),
    ("throughput", "sizing.md", "CREATE QUEUE pings"),
    ("fifo", "ordering-and-limits.md", "SELECT priority, recipient FROM STREAM letters"),
    ("how long are messages kept", "concepts-messages.md", "purge_after = '7d'"),
    ("delete a queue", "concepts-messages.md", "DROP QUEUE walk"),
    ("retry a failed job", "guide-retries.md", "NACK mails 3 REASON"),
    ("performance", "sizing.md", "CREATE QUEUE pings"),
    ("messages come twice", "troubleshooting.md", "FROM orders WHERE epoch > 1"),
    ("tutorial", "tutorial.md", "CREATE QUEUE parcels"),
]
"""What a reader types, the page that he needs, and the example on it."""


@pytest.fixture(scope="module")
def found(site: Path) -> dict[str, list[str]]:
    """What the site's own search answers to the words of each task: pages, the best first."""
    machine = toolchains.tool("node", "nodejs")
    done = subprocess.run(
        [machine, str(ROOT / "tests/support/site_search.js"), str(site)],
        input=json.dumps({"queries": [words for words, _, _ in TASKS]}), capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return dict(zip((words for words, _, _ in TASKS), json.loads(done.stdout), strict=True))


def links_of_the_first_page() -> Iterator[tuple[str, str]]:
    """What the first page offers under "How do I", by the words of the task."""
    table = (DOCS / "index.md").read_text().partition("## How do I")[2]
    return iter(re.findall(r"^\| ([^|]+) \| \[[^\]]+\]\(([^)#]+)[^)]*\) \|$", table, re.MULTILINE))


@pytest.mark.parametrize(("words", "page", "example"), TASKS)
def test_a_task_is_found_by_one_search(found, words, page, example):
    first = found[words][:AMONG_THE_FIRST]
    assert page.replace(".md", ".html") in first, first


@pytest.mark.parametrize(("words", "page", "example"), TASKS)
def test_the_page_of_a_task_has_an_example_that_is_run(words, page, example):
    blocks = re.findall(r"^```sql\n(.*?)^```", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    assert any(example in block for block in blocks), example


def test_the_first_page_leads_to_each_task():
    """One click from the first page, besides the search."""
    offered = [target for _, target in links_of_the_first_page()]
    for _, page, _ in TASKS:
        assert page in offered, page
