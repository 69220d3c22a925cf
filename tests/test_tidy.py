"""The style of the code, as a test: who may import whom, how large things may be, what may not be left lying about."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from over import over

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("proxy", "rewriter", "engine", "spark_connector")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
OTHERS = sorted(path for folder in ("benchmarks", "examples") for path in (ROOT / folder).rglob("*.py"))
MODULE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70

# Which modules of the project a package may import, longest matching prefix of the importer first.
MAY_IMPORT = {
    "proxy": ("proxy", "rewriter", "engine"),
    "rewriter": ("rewriter", "engine.model", "engine.clock"),
    "engine": ("engine",),
    "spark_connector": ("spark_connector",),
}
# Who may import these libraries; nobody else.
ONLY_IN = {
    "sqlglot": ("rewriter",),
    "sqlite3": ("engine.backend",),
    "pymysql": ("engine.backend", "spark_connector"),
    "mysql_mimic": ("proxy",),
    "asyncio_pool": ("engine",),
    "pydantic": ("proxy.config", "proxy.config_words"),
    "pyspark": ("spark_connector",),
}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def within(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)


def imported(path: Path) -> Iterator[str]:
    """Every module that is imported, `from a import b` as a.b where b is a module of ours."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            assert node.module is not None
            for alias in node.names:
                deeper = ROOT.joinpath(*node.module.split("."), alias.name)
                yield f"{node.module}.{alias.name}" if deeper.with_suffix(".py").exists() else node.module


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@over(SOURCES)
def test_imports_go_one_way(path):
    name = module_name(path)
    allowed = MAY_IMPORT[name.split(".")[0]]
    for target in imported(path):
        if target.split(".")[0] in PACKAGES:
            assert within(target, allowed), f"{name} may not import {target}"
        for library, users in ONLY_IN.items():
            if within(target, (library,)):
                assert within(name, users), f"{name} may not import {library}; only {', '.join(users)}"


@over(p for p in SOURCES if within(module_name(p), ("engine",)))
def test_the_engine_reads_no_clock_and_no_chance_of_its_own(path):
    if module_name(path) == "engine.clock" or within(module_name(path), ("engine.backend",)):
        return
    names = {target.split(".")[0] for target in imported(path)}
    assert not names & {"time", "random"}, f"{path}: time and chance are injected"


@over(SOURCES + OTHERS + TESTS)
def test_modules_say_what_they_are_and_stay_small(path):
    text = path.read_text()
    assert ast.get_docstring(tree(path)), "a module begins by saying what lives in it"
    assert text.count("\n") <= MODULE_LINES_MAX
    assert path.stem not in ("utils", "util", "helpers", "common", "misc")
    for node in functions(path):
        assert node.end_lineno is not None
        length = node.end_lineno - node.lineno + 1
        assert length <= FUNCTION_LINES_MAX, f"{node.name} has {length} lines"


@over(SOURCES + OTHERS)
def test_everything_is_typed(path):
    for node in functions(path):
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        arguments += [a for a in (node.args.vararg, node.args.kwarg) if a is not None]
        untyped = [a.arg for a in arguments if a.annotation is None and a.arg not in ("self", "cls")]
        assert not untyped, f"{node.name}: {untyped}"
        assert node.returns is not None, f"{node.name} has no return type"


@over(SOURCES)
def test_nothing_is_left_lying_about(path):
    text = path.read_text()
    found = re.search(r"\b(TODO|FIXME|XXX|HACK)\b", text)
    assert found is None, found
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("print", "breakpoint"), f"{path}:{node.lineno}"
        if isinstance(node, ast.ClassDef):
            assert node.name == "MessageManager" or not node.name.endswith(("Manager", "Helper", "Utils")), node.name
        if isinstance(node, ast.ExceptHandler):
            assert node.type is not None, f"{path}:{node.lineno}: a bare except"


@over(SOURCES)
def test_no_possessive_groups_in_regular_expressions(path):
    """Python 3.11.2, which Debian 12 ships, matches `(?:...)*+` wrongly; `(?>(?:...)*)` says the same and is right."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            text = node.value.decode("latin1") if isinstance(node.value, bytes) else node.value
            found = re.search(r"(?<!\\)\)(?:[*+?]|\{\d*,?\d*\})\+", text)
            assert found is None, f"line {node.lineno}: {text[found.start() :][:20]}" if found else ""


def sleeps(path: Path) -> Iterator[int]:
    """Lines that call something named sleep with more than nothing, which is only a turn of the event loop."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            turn = len(node.args) == 1 and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0
            if called == "sleep" and not turn:
                yield node.lineno


@over(TESTS)
def test_no_test_sleeps_and_hopes(path):
    if (ROOT / "tests/faults") in path.parents or path == ROOT / "tests/servers.py":
        return  # faults need real time; servers.py holds wait_until
    assert list(sleeps(path)) == []


ROOMS = sorted({path.parent for path in SOURCES})
ROOM_MODULES_MAX = 22


@over(ROOMS)
def test_a_room_says_what_lives_in_it(room):
    text = ast.get_docstring(tree(room / "__init__.py"))
    assert text, "a room begins by saying what lives in it"
    here = {path.stem for path in room.iterdir()} | {"datasource", "sqlite"}
    named = re.findall(r"`([a-z_]+)`", text)
    assert set(named) <= here, f"not in this room: {set(named) - here}"
    assert len(list(room.glob("*.py"))) <= ROOM_MODULES_MAX + 1


def test_no_two_test_modules_have_one_name():
    """Without packages pytest knows a module by its name alone: the second of a name is not collected."""
    names = [path.name for path in TESTS if path.name.startswith("test_")]
    assert sorted(names) == sorted(set(names))
