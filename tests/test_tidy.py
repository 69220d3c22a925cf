"""The style of the code, as a test: who may import whom, how large things may be, what may not be left lying about."""

from __future__ import annotations

import ast
import builtins
import gc
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from over import over

ROOT = Path(__file__).resolve().parent.parent
# The server's from the top down, then what it shares with its clients, then these, over SQL alone.
PACKAGES = (
    *("queuegate", "console", "proxy", "embedded", "rewriter", "mysql_wire", "engine", "mysql_client"),
    *("spark_connector", "queuegate_worker", "queuegate_celery", "queuegate_django"),
)
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
_OTHER_FOLDERS = ("benchmarks", "examples", "packaging")
SHARED = ROOT / "mysql_client"
OTHERS = sorted(path for folder in _OTHER_FOLDERS for path in (ROOT / folder).rglob("*.py"))
MODULE_LINES_MAX, TEST_LINES_MAX = 700, 700
FUNCTION_LINES_MAX = 70

# A module imports its own room and the rooms after it in its line, nothing before. A room is a folder, or a module
# that lies beside the folders.
FLOORS = {
    "queuegate": "__main__ command_line process app cli",
    "console": "process server bounded_http routes endpoints pages json_form visits entry guard hosts"
    " sessions sampler refused_logins database rates rendering charts settings",
    "proxy": "admin server gateways commands statements show session upstream cluster listen systemd logs"
    " os_process config_shown exposed_files config config_values config_mistakes release login rights transport errors",
    "embedded": "session schema compile database",
    "embedded.compile": "statement commands definitions changes queries binding expressions compilation plan functions"
    " schema values text budget errors",
    "rewriter": "planner plans grammar scan text plan views errors",
    "mysql_wire": "whole_answer reframer collected_answer compression result_ends answer_walker command_reader"
    " command_pieces prepared_parameters requests parameters row_form replies binary_values text_values login"
    " packet_reader outcome packets status_flags flags errors",
    "engine": "engine reports queues schedules topics history background delivery leases context traces database_work"
    " sticky_members service store backend shared_future clock model",
    "mysql_client": "answers driver option_files packets",
    "spark_connector": "jobs datasource sources streaming writing batch values client options option_condition"
    " option_bounds option_values option_names errors mysql_client",
    "queuegate_worker": "__main__ command testing tasks processes worker run receiver slot acker settler handlers"
    " shared heartbeat transaction sending connection statements free_slots hooks outcomes message address"
    " backoff errors mysql_client",
    "queuegate_celery": "transport channel link renewal settlement exchanges queues sources unsettled connection errors"
    " settings messages transactions mysql_client",
    "queuegate_django": "management admin apps worker_run execution backend results queues models migrations options"
    " tasks_api",
}
# What a package may import besides: other packages, or rooms of them.
BETWEEN = {
    "queuegate": ("console", "proxy", "engine", "mysql_client", "rewriter.text.literals"),
    "console": (
        *("proxy.config", "proxy.config_values", "proxy.errors", "proxy.listen", "proxy.login.client_tls"),
        *("proxy.release", "proxy.os_process", "proxy.systemd", "proxy.transport.addresses", "rewriter"),
        *("engine.model", "engine.delivery.metrics", "engine.background.summary", "engine.shared_future"),
        *("mysql_wire.errors", "mysql_client.driver"),
    ),
    "proxy": ("embedded", "rewriter", "mysql_wire", "engine", "mysql_client.packets"),
    "embedded": (
        "embedded.compile",
        "rewriter.errors",
        "engine.backend.base",
        "engine.model",
        "engine.shared_future",
        "engine.store.statements.sqlite",
    ),
    "rewriter": ("engine.model",),
    "mysql_wire": ("engine.model", "mysql_client.packets"),
    "embedded.compile": (
        "embedded.database.text_form",
        "engine.model.queue",
        "rewriter.errors",
        "rewriter.text.literals",
        "rewriter.text.long_text",
        "rewriter.text.tokens",
    ),
    "engine": ("mysql_client",),
    "mysql_client": (),
    "spark_connector": (),
    "queuegate_worker": (),
    "queuegate_celery": (),
    "queuegate_django": ("queuegate_worker",),
}
OF_THE_EMBEDDED_DATABASE = (
    *("proxy.upstream.embedded", "proxy.upstream.embedded_answers", "proxy.upstream.embedded_statements"),
    "proxy.gateways.embedded",
)
"""The modules of the proxy that know of it."""
# The composition roots, and modules that Spark loads one by one: they import inside functions.
IMPORTS_INSIDE = ("queuegate.command_line", "queuegate.process", "queuegate.app", "spark_connector")
# Who may import these libraries; nobody else.
ONLY_IN = {
    "sqlglot": ("embedded.compile", "rewriter.text.tokens"),
    "sqlite3": ("embedded.database",),
    "pymysql": (
        "engine.backend",
        "spark_connector",
        "queuegate.cli",
        "console",
        "queuegate_worker",
        "queuegate_celery",
        "mysql_client.driver",
    ),
    "curses": ("queuegate.cli.top_screen",),
    "shtab": ("queuegate.cli.local_commands",),
    "mysql_mimic": ("proxy", "mysql_wire", "embedded.session.client_text"),
    "asyncio_pool": ("engine",),
    "cronsim": ("engine.schedules",),
    "pydantic": ("proxy.config", "proxy.config_shown", "proxy.config_values", "proxy.config_mistakes"),
    "pyspark": ("spark_connector",),
    "kombu": ("queuegate_celery",),
    "django": ("queuegate_django",),
    "starlette": ("console",),
    "uvicorn": ("console.server", "console.bounded_http"),
    "jinja2": ("console",),
}


@pytest.fixture(autouse=True, scope="module")
def _trees() -> Iterator[None]:
    """Trees are kept from test to test, and not after the last. Python's garbage collector stands still meanwhile: it
    would go through all of them again and again, which takes longer than to parse them."""
    gc.disable()
    yield
    nodes.cache_clear()
    gc.enable()


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """A module's tree, in the order of ast.walk."""
    return tuple(ast.walk(ast.parse(path.read_text(), str(path))))


def tree(path: Path) -> ast.Module:
    root = nodes(path)[0]
    assert isinstance(root, ast.Module)
    return root


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def within(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)


def imported(path: Path) -> Iterator[str]:
    """Every module that is imported, `from a import b` as a.b where b is a module of ours.

    Relative imports are for mysql_client alone, which has several names: it is linked into the folders of its users.
    """
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            module = node.module
            if node.level:
                assert path.parent == SHARED and node.level == 1, f"{path}:{node.lineno}: relative import"
                module = f"{SHARED.name}.{module}"
            for alias in node.names:
                deeper = ROOT.joinpath(*module.split("."), alias.name)
                yield f"{module}.{alias.name}" if deeper.with_suffix(".py").exists() else module


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def package_of(name: str) -> str:
    """The package whose floors a module lies on."""
    return "embedded.compile" if within(name, ("embedded.compile",)) else name.split(".")[0]


def floor_of(name: str) -> int:
    """How far down in its package; a package itself lies above all of it."""
    package = package_of(name)
    return -1 if name == package else FLOORS[package].split().index(name.removeprefix(package + ".").split(".")[0])


def of_ours(path: Path) -> Iterator[str]:
    return (target for target in imported(path) if target.split(".")[0] in PACKAGES)


@over(SOURCES)
def test_imports_go_down(path):
    name = module_name(path)
    package = package_of(name)
    for target in of_ours(path):
        if package_of(target) == package:
            assert floor_of(name) <= floor_of(target), f"{name} lies below {target}"
        else:
            assert within(target, BETWEEN[package]), f"{name} may not import {target}"
        if package == "proxy" and within(target, ("embedded",)):
            assert within(name, OF_THE_EMBEDDED_DATABASE), f"{name} may not import {target}"


@over(SOURCES)
def test_libraries_are_imported_where_they_belong(path):
    name = module_name(path)
    for target in imported(path):
        for library, users in ONLY_IN.items():
            if within(target, (library,)):
                assert within(name, users), f"{name} may not import {library}; only {', '.join(users)}"


@over(path for path in SOURCES if not within(module_name(path), IMPORTS_INSIDE))
def test_imports_stand_at_the_head(path):
    for node in functions(path):
        inner = [each.lineno for each in ast.walk(node) if isinstance(each, ast.Import | ast.ImportFrom)]
        assert not inner, f"lines {inner}"


def test_no_module_imports_itself_by_way_of_others():
    """Imports for types count as well."""
    names = {module_name(path): path for path in SOURCES}
    done: set[str] = set()

    def follow(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, " imports ".join((*way[way.index(name) :], name))
        if name not in done:
            for target in of_ours(names[name]):
                if target in names:
                    follow(target, (*way, name))
            done.add(name)

    for name in names:
        follow(name, ())


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
    assert text.count("\n") <= (TEST_LINES_MAX if path in TESTS else MODULE_LINES_MAX)
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
    for node in nodes(path):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("print", "breakpoint"), f"{path}:{node.lineno}"
        if isinstance(node, ast.ClassDef):
            assert node.name == "MessageManager" or not node.name.endswith(("Manager", "Helper", "Utils")), node.name
        if isinstance(node, ast.ExceptHandler):
            assert node.type is not None, f"{path}:{node.lineno}: a bare except"


@over(SOURCES)
def test_no_possessive_groups_in_regular_expressions(path):
    """Python 3.11.2, which Debian 12 ships, matches `(?:...)*+` wrongly; `(?>(?:...)*)` says the same and is right."""
    for node in nodes(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            text = node.value.decode("latin1") if isinstance(node.value, bytes) else node.value
            found = re.search(r"(?<!\\)\)(?:[*+?]|\{\d*,?\d*\})\+", text)
            assert found is None, f"line {node.lineno}: {text[found.start() :][:20]}" if found else ""


CLASS_METHODS_MAX, CLASS_ATTRIBUTES_MAX, PARAMETERS_MAX = 25, 15, 7
STILL_LARGE = {
    "console.pages.figures.Figures": (2, 17, 0),
    "console.pages.figures.Group": (1, 16, 0),
    "engine.delivery.metrics.QueueMetrics": (2, 20, 0),
    "engine.model.options.QueueOptions": (8, 28, 0),
    "engine.store.statements.dialect.Dialect": (1, 17, 0),
    "proxy.config.Limits": (0, 16, 0),
    "proxy.config.Config": (3, 16, 0),
    "queuegate_worker.worker.Worker": (7, 8, 11),
    "rewriter.plan.Effects": (3, 16, 0),
    "spark_connector.options.StreamReadOptions": (0, 20, 0),
}
"""Classes above a bound, with their methods, attributes and the parameters of their constructor. None may grow, and one
that is within the bounds leaves the list: it only gets shorter. Most are values whose fields are the columns of a row,
the keys of a file or the options of a statement."""
SMALL_MODULE_LINES, SMALL_MODULES_MAX = 60, 60
"""Modules so small that they are seldom one subject. Their number only goes down."""


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    for path in SOURCES:
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                yield f"{module_name(path)}.{node.name}", node


def attributes_set(method: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """What it sets on its first parameter."""
    parameters = [*method.args.posonlyargs, *method.args.args]
    return {
        node.attr
        for node in ast.walk(method)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and parameters
        and node.value.id == parameters[0].arg
    }


def size_of(node: ast.ClassDef) -> tuple[int, int, int]:
    """Methods, properties included; attributes, fields of a dataclass included; parameters of the constructor."""
    methods = [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    annotated = [each for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)]
    fields = {ast.unparse(each.target) for each in annotated if "ClassVar" not in ast.unparse(each.annotation)}
    attributes = fields.union(*map(attributes_set, methods))
    arguments = next((each.args for each in methods if each.name == "__init__"), None)
    parameters = 0 if arguments is None else len([*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]) - 1
    return len({each.name for each in methods}), len(attributes), parameters


def test_classes_stay_small():
    bounds, large = (CLASS_METHODS_MAX, CLASS_ATTRIBUTES_MAX, PARAMETERS_MAX), set[str]()
    for name, node in classes():
        size, allowed = size_of(node), STILL_LARGE.get(name, bounds)
        if any(number > bound for number, bound in zip(size, bounds, strict=True)):
            large.add(name)
            most = tuple(map(max, allowed, bounds))
            assert all(number <= bound for number, bound in zip(size, most, strict=True)), f"{name}: {size}, {allowed}"
    assert not STILL_LARGE.keys() - large, f"within the bounds now: {STILL_LARGE.keys() - large}"


def test_small_modules_become_fewer():
    small = [path for path in SOURCES if not path.stem.startswith("__")]
    small = [path for path in small if path.read_text().count("\n") < SMALL_MODULE_LINES]
    assert len(small) <= SMALL_MODULES_MAX, f"{len(small)} modules have less than {SMALL_MODULE_LINES} lines"


PRIVATE_WORDS = {
    *("given", "told", "tell", "tells", "kept", "asked", "said", "heard", "hear", "glance", "glances", "found", "look"),
    *("looked", "way", "lapse", "lapses", "duty", "duties", "bury", "buried", "ear", "farewell", "crowd", "strangers"),
    *("stranger", "anew", "mend", "mended", "nobody", "somebody", "whoever"),
}
"""Parts of names that say nothing to an engineer of MySQL, Python or queues. docs/glossary.md has the words in use."""
STANDARD_NAMES = ("found_rows", "not_found", "look_up", "looked_up")


def names_in(path: Path) -> Iterator[str]:
    """Every name that a module defines or uses."""
    for node in nodes(path):
        for field in ("id", "attr", "arg", "name", "asname"):
            name = getattr(node, field, None)
            if isinstance(name, str):
                yield from name.split(".")


def words_of(name: str) -> list[str]:
    """A name's parts, in small letters: of snake_case, CamelCase and CONSTANTS."""
    return [part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]


@over(SOURCES)
def test_names_are_standard_terms(path):
    for name in set(names_in(path)):
        words = words_of(name)
        if PRIVATE_WORDS.intersection(words):
            whole = "_".join(words)
            assert any(standard in whole for standard in STANDARD_NAMES), f"{name}: see docs/glossary.md"


RAISED = re.compile(r"\bRaises:?\s+((?:[A-Z]\w*[a-z]\w*\b(?!')(?:,? and |,? or |, )?)+)")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def test_errors_that_docstrings_name_exist():
    known = set(dir(builtins)).union(*map(names_in, SOURCES))
    for path in SOURCES:
        texts = [ast.get_docstring(node) or "" for node in nodes(path) if isinstance(node, DOCUMENTED)]
        raised = {name for text in texts for names in RAISED.findall(text) for name in re.findall(r"[A-Z]\w+", names)}
        assert raised <= known, f"{path}: {raised - known}"


def sleeps(path: Path) -> Iterator[int]:
    """Lines that call something named sleep with more than nothing, which is only a turn of the event loop."""
    for node in nodes(path):
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
ROOM_MODULES_MAX = 30


@over(ROOMS)
def test_a_room_says_what_lives_in_it(room):
    text = ast.get_docstring(tree(room / "__init__.py"))
    assert text, "a room begins by saying what lives in it"
    here = {path.stem for path in room.iterdir()} | {"datasource"}
    named = re.findall(r"`([a-z_]+)`", text)
    assert set(named) <= here, f"not in this room: {set(named) - here}"
    assert len(list(room.glob("*.py"))) <= ROOM_MODULES_MAX + 1


def test_no_two_test_modules_have_one_name():
    """Without packages pytest knows a module by its name alone: the second of a name is not collected."""
    names = [path.name for path in TESTS if path.name.startswith("test_")]
    assert sorted(names) == sorted(set(names))
