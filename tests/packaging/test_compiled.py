"""The wheel with compiled parts: it holds them beside their modules, runs them, and keeps the contract."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from servers import ROOT, free_port

pytestmark = pytest.mark.long

# Of each promise that the compiled modules keep, on both backends: claims and leases, order and limits, settling,
# streams, transactions, the scanner of statements.
CONTRACT = ("settle", "redelivery", "stream")
BACKENDS = "embedded or mariadb"  # not once more with the proxy's accounts, and on MySQL: the same modules run
COMPILING_SECONDS = 1200


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built as `make release` does, but for the compiler's effort, which tests would wait for."""
    target = tmp_path_factory.mktemp("compiled-wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", target]
    switched = {"HATCH_BUILD_HOOK_ENABLE_CUSTOM": "1", "MYPYC_OPT_LEVEL": "0"}
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **switched}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (made,) = target.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def server(wheel, tmp_path_factory) -> Path:
    """The folder of its packages."""
    folder = tmp_path_factory.mktemp("compiled")
    zipfile.ZipFile(wheel).extractall(folder)
    return folder / "queuegate/_server"


@pytest.mark.timeout(COMPILING_SECONDS)
def test_it_is_a_wheel_for_this_python_with_libraries_beside_their_modules(wheel):
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert f"-{version}-{version}-" in wheel.name
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    names = set(zipfile.ZipFile(wheel).namelist())
    libraries = {name for name in names if name.endswith(suffix)}
    (shared,) = (name for name in libraries if name.endswith(f"__mypyc{suffix}"))
    assert shared.rpartition("/")[0] == "queuegate/_server", "it is found by what is on the path"
    assert len(libraries) > 20
    for library in libraries - {shared}:
        assert library.removesuffix(suffix) + ".py" in names, library


@pytest.mark.timeout(COMPILING_SECONDS)
def test_the_libraries_are_what_is_loaded(server, tmp_path):
    program = "import engine.delivery.sender as loaded; print(loaded.__file__)"
    command = [sys.executable, "-S", "-c", program]
    libraries = os.pathsep.join((str(server), sysconfig.get_paths()["purelib"]))
    found = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": libraries}, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip().endswith(sysconfig.get_config_var("EXT_SUFFIX"))


@pytest.mark.timeout(COMPILING_SECONDS)
@pytest.mark.parametrize(("switch", "code"), [({}, "compiled"), ({"QUEUEGATE_COMPILED": "0"}, "python")])
def test_the_log_says_what_runs_and_there_is_one_switch(server, tmp_path, switch, code):
    config = tmp_path / "config.yaml"
    config.write_text(f"listen: 127.0.0.1:{free_port()}\nbackend: sqlite:///{tmp_path}/queue.db\n")
    libraries = os.pathsep.join((str(server.parents[1]), sysconfig.get_paths()["purelib"]))
    command = [sys.executable, "-S", "-m", "queuegate", "serve", "--config", str(config)]
    environment = {**_outside(), "PYTHONPATH": libraries, **switch}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            lines = iter(process.stderr.readline, "")
            said = next((line for line in lines if "listening on" in line), "nothing")
        finally:
            process.terminate()
            process.communicate(timeout=60)
    assert f"code={code}" in said


@pytest.mark.timeout(COMPILING_SECONDS)
def test_the_contract_holds_on_it(server):
    """The same tests as on the modules, both backends; its servers are those of the wheel."""
    files = [f"tests/contract/test_{name}.py" for name in CONTRACT]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", BACKENDS, *files]
    environment = {**_outside(), "QUEUEGATE_TEST_INSTALLED": str(server.parents[1])}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:]


def _outside() -> dict[str, str]:
    """The environment without what pytest and its workers say to themselves."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
