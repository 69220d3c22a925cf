"""A release: what it refuses, that it is the same whoever builds it, and that its signature is one."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from servers import ROOT
from toolchains import missing


def loaded() -> ModuleType:
    """packaging/release.py, which is a program and no package; a library has the folder's name."""
    spec = importlib.util.spec_from_file_location("release_program", ROOT / "packaging/release.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


release = loaded()
AUTHOR = ["-c", "user.name=tests", "-c", "user.email=tests@example.com"]
SECTION = "## [9.8.7] - 2026-01-31\n\n### Added\n\n- A thing.\n"


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *AUTHOR, *arguments], cwd=folder, check=True, capture_output=True, timeout=60)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree whose commit is ready to be a release."""
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "queuegate"\nversion = "9.8.7"\n')
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## [Unreleased]\n\n{SECTION}\n## [9.8.6] - 2026-01-01\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message=all")
    git(tmp_path, "tag", "v9.8.7")
    return tmp_path


def test_a_tagged_clean_tree_with_its_changes_is_ready(tree):
    release.check_tree(tree)
    text = (tree / "CHANGELOG.md").read_text()
    assert release.changes("9.8.7", text) == "### Added\n\n- A thing."
    assert release.changes("9.8.6", text) == release.changes("1.0", text) == ""


def test_a_changed_tree_is_refused(tree):
    (tree / "new").touch()
    with pytest.raises(release.NotReady, match="the tree has changes"):
        release.check_tree(tree)


def test_another_commit_than_the_tagged_one_is_refused(tree):
    git(tree, "commit", "--quiet", "--allow-empty", "--message=later")
    with pytest.raises(release.NotReady, match=r"this commit has no tag v9\.8\.7"):
        release.check_tree(tree)


def test_a_version_without_its_section_is_refused(tree):
    (tree / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n\n## [9.8.7]\n\n- No date.\n")
    git(tree, "commit", "--quiet", "--all", "--message=changelog")
    git(tree, "tag", "--force", "v9.8.7")
    with pytest.raises(release.NotReady, match=r"no section \[9\.8\.7\] with its date"):
        release.check_tree(tree)


@pytest.mark.parametrize(
    ("name", "before", "after", "said"),
    [
        (
            "pyproject.toml",
            "worker==9.8.7",
            "worker==9.8.6",
            r"the extra `all` .*queuegate-worker.* names version 9\.8\.6",
        ),
        ("packaging/helm/queuegate/Chart.yaml", "appVersion: 9.8.7", "appVersion: 9.8.6", "appVersion in .* names"),
        (
            "packaging/helm/queuegate/Chart.yaml",
            "\nversion: 9.8.7",
            "\nversion: 9.8",
            "version in .* names version 9.8;",
        ),
    ],
)
def test_a_version_that_is_named_elsewhere_and_is_another_is_refused(tree, name, before, after, said):
    extra = '[project.optional-dependencies]\nall = ["queuegate-worker==9.8.7", "other==1"]\n'
    with (tree / "pyproject.toml").open("a") as file:
        file.write(extra)
    chart = tree / "packaging/helm/queuegate/Chart.yaml"
    chart.parent.mkdir(parents=True)
    chart.write_text("apiVersion: v2\nversion: 9.8.7 # both\nappVersion: 9.8.7\n")
    commit(tree)
    release.check_tree(tree)
    file = tree / name
    assert before in file.read_text()
    file.write_text(file.read_text().replace(before, after))
    commit(tree)
    with pytest.raises(release.NotReady, match=said):
        release.check_tree(tree)


def commit(tree: Path) -> None:
    git(tree, "add", ".")
    git(tree, "commit", "--quiet", "--message=more")
    git(tree, "tag", "--force", "v9.8.7")


def test_the_version_of_this_tree_is_the_same_wherever_it_is_named():
    named = dict(release.named_versions())
    assert len(named) == 4 and set(named.values()) == {release.version()}


def test_the_base_of_images_is_a_digest_or_refused(tmp_path):
    digest = f"docker.io/library/python@sha256:{'0' * 64}"
    made = release.name_image_base(tmp_path, digest)
    assert made.name == f"queuegate-{release.version()}-image-base.txt" and made.read_text() == f"{digest}\n"
    for other in ("docker.io/library/python:3.11.14-slim-bookworm", f"{digest}0", "sha256:0", f"x y@sha256:{'0' * 64}"):
        with pytest.raises(release.NotReady, match="which can be another image tomorrow"):
            release.name_image_base(tmp_path, other)


def test_a_file_of_another_version_is_refused(tree):
    good = ["queuegate-9.8.7-py3-none-any.whl", "queuegate_spark-9.8.7.tar.gz", "queuegate_9.8.7_amd64.deb"]
    release.check_versions([Path(name) for name in good], tree)
    for name in ("queuegate-9.8.71-py3-none-any.whl", "queuegate-19.8.7.tar.gz", "queuegate_9.8.6_amd64.deb"):
        with pytest.raises(release.NotReady, match=r"is not of version 9\.8\.7"):
            release.check_versions([Path(name)], tree)


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> list[Path]:
    """All wheels and sdists."""
    made: list[Path] = release.build_python(tmp_path_factory.mktemp("release"))
    return made


@pytest.mark.long
def test_two_builds_of_a_commit_are_the_same(built, tmp_path):
    again = release.build_python(tmp_path)
    assert len(built) == 2 * len(release.DISTRIBUTIONS)
    assert {file.name: file.read_bytes() for file in again} == {file.name: file.read_bytes() for file in built}


@pytest.mark.long
def test_twine_finds_nothing_and_every_sdist_makes_the_wheel_that_is_shipped(built):
    pytest.importorskip("twine", reason="twine is not installed: what it finds is NOT tested")
    release.check_versions(built)
    release.check_python(built)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("part", "names"), [("", ["queuegate"]), ("-all", ["queuegate", "queuegate_celery", "queuegate_worker"])]
)
def test_the_list_of_components_is_all_that_is_installed(built, tmp_path, part, names):
    wheels = [file for file in built if file.suffix == ".whl" and file.name.partition("-")[0] in names]
    assert len(wheels) == len(names)
    lock, listed = release.list_dependencies(tmp_path, wheels, part=part)
    assert lock.name == f"queuegate-{release.version()}{part}-requirements.txt"
    assert listed.name == f"queuegate-{release.version()}{part}-sbom.cdx.json"
    assert components(listed) == locked_here(lock) | {name.replace("_", "-") for name in names[1:]}


def components(listed: Path) -> set[str]:
    """What the list names besides the server, of which it is."""
    return {canonicalize_name(each["name"]) for each in json.loads(listed.read_text())["components"]}


def locked_here(lock: Path) -> set[str]:
    """What a lock file has for this Python and system."""
    lines = re.findall(r"(?m)^[a-z][^\\\n]*", lock.read_text())
    wanted = map(Requirement, lines)
    return {canonicalize_name(each.name) for each in wanted if each.marker is None or each.marker.evaluate()}


def test_the_hook_of_all_distributions_is_one():
    hooks = {path.read_text() for path in (ROOT / "packaging").glob("queuegate-*/hatch_build.py")}
    assert len(hooks) == 1


def test_the_sums_are_those_of_sha256sum(tmp_path):
    for name in ("b", "a"):
        (tmp_path / name).write_text(name)
    listed = release.sums(tmp_path, [tmp_path / "b", tmp_path / "a"])
    check = subprocess.run(["sha256sum", "--check", "--strict", listed], cwd=tmp_path, capture_output=True, check=False)
    assert (check.returncode, check.stdout) == (0, b"a: OK\nb: OK\n")


def test_an_ssh_key_signs_and_a_changed_list_is_noticed(tmp_path):
    if shutil.which("ssh-keygen") is None:
        missing("ssh-keygen is not installed (Debian package openssh-client)")
    key, listed = tmp_path / "key", tmp_path / "SHA256SUMS"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True, timeout=60)
    listed.write_text("0  a\n")
    signature = release.sign_by_ssh(listed, key)
    assert signature.name == "SHA256SUMS.sig"
    (tmp_path / "signers").write_text(f"release {(tmp_path / 'key.pub').read_text()}")
    # As docs/releases.md tells those who download it.
    verify = [
        "ssh-keygen", "-Y", "verify", "-n", "queuegate-release", "-I", "release", "-f", tmp_path / "signers",
        "-s", signature,
    ]  # fmt: skip
    for said, code in ((b"0  a\n", 0), (b"1  a\n", 255)):
        assert subprocess.run(verify, input=said, capture_output=True, check=False, timeout=60).returncode == code


@pytest.fixture
def keyring(monkeypatch) -> Iterator[str]:
    """A keyring with one key, whose address it yields. Its agent's socket needs a short path."""
    if shutil.which("gpg") is None:
        missing("gpg is not installed")
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as home:
        monkeypatch.setenv("GNUPGHOME", home)
        make = ["gpg", "--batch", "--quiet", "--passphrase", "", "--quick-generate-key", "tests@example.com", "ed25519"]
        subprocess.run(make, check=True, capture_output=True, timeout=60)
        yield "tests@example.com"
        subprocess.run(["gpgconf", "--kill", "all"], check=False, timeout=60)


def test_a_gpg_key_signs_and_a_changed_list_is_noticed(keyring, tmp_path):
    listed = tmp_path / "SHA256SUMS"
    listed.write_text("0  a\n")
    signature = release.sign_by_gpg(listed, keyring)
    listed.write_text("1  a\n")
    verify = ["gpg", "--batch", "--verify", signature, listed]
    assert subprocess.run(verify, check=False, capture_output=True, timeout=60).returncode == 1


def test_a_release_without_a_key_is_refused(tmp_path):
    command = [sys.executable, "packaging/release.py", tmp_path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2 and "a release is signed" in done.stderr


@pytest.mark.timeout(1500)
@pytest.mark.skipif(
    not os.environ.get("QUEUEGATE_TEST_PACKAGES"),
    reason="a whole release is NOT made here: `make test-packages` does",
)
def test_a_whole_release(tmp_path):
    """Of this commit, as if it had its tag."""
    key, tree, folder = tmp_path / "key", tmp_path / "tree", tmp_path / "made"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True, timeout=60)
    git(tmp_path, "clone", "--quiet", "--no-local", "--depth=1", f"file://{ROOT}", "tree")
    version = release.version(tree)
    changelog = tree / "CHANGELOG.md"
    changelog.write_text(
        changelog.read_text().replace("## [Unreleased]\n", f"## [Unreleased]\n\n## [{version}] - 2026-01-31\n")
    )
    git(tree, "commit", "--quiet", "--all", "--message=release")
    git(tree, "tag", f"v{version}")
    base = f"docker.io/library/python@sha256:{'0' * 64}"
    command = [sys.executable, tree / "packaging/release.py", folder, "--ssh-key", key, "--image-base", base]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False, timeout=1400)
    assert done.returncode == 0, done.stderr
    made = {path.name for path in folder.iterdir()}
    files = 2 * len(release.DISTRIBUTIONS) + 7  # the compiled wheel, the Debian package, two locks and lists, the base
    assert len(made) == files + 2 and {"SHA256SUMS", "SHA256SUMS.sig"} <= made, made
    assert (folder / "SHA256SUMS").read_text().count("\n") == files
    prefix = f"queuegate-{version}"
    assert (folder / f"{prefix}-image-base.txt").read_text() == f"{base}\n"
    for part, own in (("", set()), ("-all", {"queuegate-celery", "queuegate-worker"})):
        listed, lock = folder / f"{prefix}{part}-sbom.cdx.json", folder / f"{prefix}{part}-requirements.txt"
        assert components(listed) == locked_here(lock) | own
    assert not list(tree.glob("dist")) and "CREATE QUEUE" in done.stderr  # what has changed
