"""What is built of is fixed: each dependency with its hashes, the image's base by an exact tag or a digest."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from dockerfile import stages
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from servers import ROOT

FOLDER = ROOT / "packaging"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WORKER, CELERY = (
    tomllib.loads((FOLDER / f"queuegate-{name}/pyproject.toml").read_text())["project"] for name in ("worker", "celery")
)
ALL = PROJECT["project"]["optional-dependencies"]["all"]
WANTED = {
    "requirements.txt": PROJECT["project"]["dependencies"],
    "requirements-all.txt": [
        *PROJECT["project"]["dependencies"],
        *(text for text in ALL if not text.startswith("queuegate-")),
        *WORKER["dependencies"],
        *WORKER["optional-dependencies"]["models"],
        *WORKER["optional-dependencies"]["reload"],
        *CELERY["dependencies"],
        *CELERY["optional-dependencies"]["celery"],
    ],
    "requirements-build.txt": PROJECT["build-system"]["requires"],
}
BUILDING, IMAGE = stages(FOLDER / "docker/Dockerfile")


def locked(path: Path) -> dict[str, tuple[str, list[str]]]:
    """The version and the hashes of each distribution in a lock file."""
    text = re.sub(r"^#.*\n", "", path.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    found = {}
    for line in filter(None, text.splitlines()):
        given, *hashes = re.split(r"\s+--hash=", line)
        requirement = Requirement(given)
        (only,) = requirement.specifier
        assert only.operator == "==", line
        found[canonicalize_name(requirement.name)] = (only.version, hashes)
    return found


@pytest.mark.parametrize("name", WANTED)
def test_every_dependency_is_locked_with_its_hashes(name):
    lock = locked(FOLDER / name)
    for text in WANTED[name]:
        requirement = Requirement(text)
        version, _ = lock[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{text} is locked at {version}: run make lock"
    for version, hashes in lock.values():
        assert version and hashes and all(re.fullmatch(r"sha256:[0-9a-f]{64}\s*", each) for each in hashes)


def test_what_both_have_is_locked_at_one_version():
    server, everything = locked(FOLDER / "requirements.txt"), locked(FOLDER / "requirements-all.txt")
    assert server.items() <= everything.items()


def test_what_is_locked_for_the_build_is_what_the_build_needs():
    lines = (FOLDER / "requirements-build.in").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == WANTED["requirements-build.txt"]


def test_the_image_takes_nothing_from_an_index_without_its_hash():
    commands = [part for text in BUILDING.all("RUN") for part in text.split("&&")]
    installing = [part for part in commands if re.search(r"pip (install|wheel|download)", part)]
    assert len(installing) == 4
    for part in installing:
        named = re.search(r"--require-hashes .*-r (\S+)", part)
        assert named is None or (ROOT / named[1]).exists()
        assert named or "--no-index" in part or {"--no-deps", "--no-build-isolation"} <= set(part.split()), part
    assert not any("pip" in text for text in IMAGE.all("RUN"))


def test_the_debian_package_takes_nothing_without_its_hash():
    text = (FOLDER / "debian/build.py").read_text()
    assert '["--require-hashes", "-r", ROOT / "packaging/requirements.txt"], ["--no-deps", wheel]' in text


def test_the_base_of_the_image_is_an_exact_one():
    assert BUILDING.base == IMAGE.base
    assert re.fullmatch(r"docker\.io/library/python(:3\.11\.\d+-slim-\w+|@sha256:[0-9a-f]{64})", IMAGE.base)
