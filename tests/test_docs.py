"""The documents keep up with the code: every configuration key, option, command and link is in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import yaml
from over import over

from engine.model.options import OF_ONE_QUEUE, OPTIONS
from proxy.config import Admin, Config, Console, Limits, Log, PeersConfig, Queues, Tls, User

ROOT = Path(__file__).resolve().parent.parent
OPERATIONS = (ROOT / "docs/operations.md").read_text()
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def keys() -> Iterator[str]:
    """Every key path that a configuration may hold."""
    yield from Config.model_fields
    yield from (f"limits.{name}" for name in Limits.model_fields)
    yield from (f"queues.{name}" for name in Queues.model_fields)
    yield from (f"log.{name}" for name in Log.model_fields)
    yield from (f"tls.{name}" for name in Tls.model_fields)
    yield from (f"admin.{name}" for name in Admin.model_fields)
    yield from (f"console.{name}" for name in Console.model_fields)
    yield from (f"peers.{name}" for name in PeersConfig.model_fields)
    yield from (f"users[].{name}" for name in User.model_fields)
    yield from (f"queue_defaults.{name}" for name in OPTIONS if name not in OF_ONE_QUEUE)


@over(list(keys()))
def test_every_key_is_documented(key):
    assert f"`{key}`" in OPERATIONS


@over(list(keys()))
def test_every_key_is_in_the_shipped_file(key):
    text = (ROOT / "config.yaml").read_text()
    section, _, name = key.partition(".")
    if section == "users[]":
        assert re.search(rf"^#\s+(- )?{name}:", text, re.MULTILINE)
        return
    data = yaml.safe_load(text)
    assert section in data
    assert not name or name in data[section]


def test_the_shipped_file_has_no_other_keys():
    data = yaml.safe_load((ROOT / "config.yaml").read_text())
    flat = set(data) | {
        f"{section}.{name}"
        for section in ("admin", "console", "limits", "log", "peers", "queue_defaults", "queues", "tls")
        for name in data[section]
    }
    assert flat <= set(keys())


@over(DOCUMENTS)
def test_links_lead_somewhere(document):
    for link in re.findall(r"\]\(([^)\s]+)\)", document.read_text()):
        target = link.partition("#")[0]
        assert not target or target.startswith("http") or (document.parent / target).exists(), link


def test_rates_are_those_of_the_benchmarks():
    """The sizing page and the README have the benchmarks' figures, of two digits."""
    measured = (ROOT / "docs/benchmarks.md").read_text()
    row = re.search(r"^\| queuegate's worker, MariaDB +\|(.*)\|$", measured, re.MULTILINE)
    assert row is not None
    drained, _, enqueued, *_ = (cell.strip().replace(",", "") for cell in row[1].split("|"))
    sizing, readme = (ROOT / "docs/sizing.md").read_text(), (ROOT / "README.md").read_text()
    for figure, of_sizing, of_readme in (
        (drained, "a backlog drained by one worker with four slots", "a backlog drained"),
        (enqueued, "one producer, a job a call", "one producer, a job a call"),
    ):
        rounded = f"{round(int(figure), 2 - len(figure)):,}"
        assert f"| {of_sizing} | {rounded} |" in sizing
        assert f"| {of_readme} | {rounded}/s |" in readme


def test_screenshots_are_small_and_shown():
    """`make screenshots` makes them; each is below 120 kB, so that a page with several loads at once."""
    pictures = sorted((ROOT / "docs/images").iterdir())
    assert len(pictures) >= 4
    for picture in pictures:
        assert picture.suffix == ".png" and picture.stat().st_size <= 120_000
        assert any(f"](images/{picture.name})" in document.read_text() for document in (ROOT / "docs").glob("*.md"))


@over(DOCUMENTS)
def test_named_files_exist(document):
    """A path in back quotes that begins with one of our folders is a path that is there."""
    for path in re.findall(
        r"`((?:queuegate|console|proxy|embedded|rewriter|mysql_wire|engine|mysql_client|queuegate_worker|queuegate_celery|queuegate_django|tests|benchmarks|examples|docs)/[\w./]+)`",
        document.read_text(),
    ):
        assert (ROOT / path).exists() or path == "queuegate/_server", path  # which a wheel has


@over(["README", "docs/celery", "docs/command-line", "docs/django", "docs/guide-web", "docs/tasks", "docs/tutorial"])
def test_what_a_package_index_does_not_have_yet_is_said(page):
    """A page that installs by name leads to how to install before the first release."""
    text = (ROOT / f"{page}.md").read_text()
    assert re.search(r"pip install [^`\n]*queuegate", text)
    assert "install.md#before-the-first-release)" in text


def test_every_distribution_is_installed_from_a_checkout():
    part = (ROOT / "docs/install.md").read_text().partition("## Before the first release")[2].partition("\n## ")[0]
    listed = set(re.findall(r"\./packaging/queuegate-\w+", part))
    assert listed == {f"./packaging/{path.parent.name}" for path in ROOT.glob("packaging/*/pyproject.toml")}
    assert "pip install -e .  " in part


def test_every_room_is_in_the_map():
    """docs/architecture.md names every room of the packages, but for rooms inside rooms."""
    text = (ROOT / "docs/architecture.md").read_text()
    of_the_server = ("queuegate", "proxy", "embedded", "rewriter", "engine")
    for package in (*of_the_server, "spark_connector", "queuegate_worker"):
        for room in (ROOT / package).glob("*/__init__.py"):
            assert re.search(rf"^  {room.parent.name} +[a-zA-Z/]", text, re.MULTILINE), (
                f"{room.parent} is not in the map"
            )


def test_every_make_target_explains_itself():
    makefile = (ROOT / "Makefile").read_text()
    explained = set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))
    assert {"run", "demo", "test", "check", "bench", "clean", "help"} <= explained
