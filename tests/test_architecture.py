"""The rooms of DESIGN's table: what may import what, and how large a module may grow."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flowcheck.checks.capture_layers import LAYER_CHECKS
from flowcheck.checks.class_wiring import CLASS_RULES
from flowcheck.checks.pairs import SPEAKS_OF
from flowcheck.checks.rules import Rule, load_rules
from flowcheck.checks.run import CHECKS
from flowcheck.checks.widths import WIDTH_CHECKS
from flowcheck.probe.verdict import PROBE_RULES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "flowcheck"
FIXTURES = ROOT / "fixtures"
MAX_LINES = 600

NEXT = {
    "source": set(),
    "syntax": {"source"},
    "program": {"syntax"},
    "interp": {"program"},
    "draft": set(),
    "flow": {"interp", "draft"},
    "checks": {"flow"},
    "report": {"checks"},
    "probe": {"draft", "report"},
}
"""What each room may import; what those may import is open to it too. cli may import everything."""

EVERYWHERE = {"", "data"}
"""The package itself (its version) and where its data lies."""

MODULES = sorted(PACKAGE.rglob("*.py"))
SIGNATURE = PACKAGE / "source" / "roots.py"
"""Knows by which enums an SGLang package is found, before there is anything to ask a vocabulary about."""


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def imports_of(path: Path) -> set[str]:
    """The modules of flowcheck that a module imports anywhere in it, for its types included."""
    name = name_of(path)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            children = {f"{base}.{alias.name}" for alias in node.names}
            found |= {child for child in children if is_module(child)} | {base}
    return {each for each in found if each.split(".")[0] == "flowcheck"}


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def reach(room: str) -> set[str]:
    direct = NEXT[room]
    return direct.union(*(reach(each) for each in direct))


def test_every_room_is_known() -> None:
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert rooms <= {*NEXT, "cli"}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_go_one_way(path: Path) -> None:
    room = room_of(name_of(path))
    if room in {"cli", "", "__main__"}:
        return
    allowed = {room, *reach(room), *EVERYWHERE} if room in NEXT else EVERYWHERE
    wrong = sorted(each for each in imports_of(path) if room_of(each) not in allowed)
    assert wrong == [], f"{name_of(path)} may not import {wrong}"


@pytest.mark.parametrize("path", [path for path in MODULES if room_of(name_of(path)) == "report"], ids=name_of)
def test_the_report_reads_facts_and_not_the_engine(path: Path) -> None:
    engine = {"flowcheck.flow", "flowcheck.flow.facts", "flowcheck.flow.pair_facts"}
    assert {each for each in imports_of(path) if room_of(each) == "flow"} <= engine
    assert not {each for each in imports_of(path) if room_of(each) in {"interp", "program", "source", "syntax"}}


WRITERS = [PACKAGE / "report" / "json_writer.py", *(PACKAGE / "report" / "terminal").glob("*.py")]


@pytest.mark.parametrize("path", WRITERS, ids=name_of)
def test_writers_know_the_model_and_nothing_else(path: Path) -> None:
    known = {"flowcheck.report.model", "flowcheck.report.documents", "flowcheck.report"}
    assert {each for each in imports_of(path) if not each.startswith("flowcheck.report.terminal")} <= known


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_module_is_too_long(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= MAX_LINES


def words_of(value: object) -> set[str]:
    """The identifiers in the strings of a table, those that no other program would use by chance."""
    if isinstance(value, str):
        return {word for word in re.findall(r"\w+", value) if "_" in word.strip("_")}
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return set().union(*map(words_of, parts))


def literals_of(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The line and text of every string and bytes literal that is no docstring."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in prose and isinstance(node.value, (str, bytes)):
            yield node.lineno, node.value if isinstance(node.value, str) else node.value.decode("latin-1")


@pytest.mark.parametrize("path", [path for path in MODULES if path != SIGNATURE], ids=name_of)
def test_names_of_sglang_stand_in_the_vocabulary_alone(path: Path) -> None:
    table = tomllib.loads((ROOT / "rules" / "vocabulary.toml").read_text("utf-8"))
    others = (
        "relevance",
        "configurations",
        "draft",
    )  # names of PyTorch, of transformers and of those who publish models
    names = words_of({key: value for key, value in table.items() if key not in others})
    names |= words_of(table["draft"]["attention"])
    kernels = tomllib.loads((ROOT / "rules" / "kernels.toml").read_text("utf-8"))
    names |= words_of([entry["names"] for key in ("function", "cls", "unknown") for entry in kernels[key]])
    names |= words_of([kernels["forward"]["captured_parameter"]])
    spelled = {
        (line, word)
        for line, text in literals_of(ast.parse(path.read_text("utf-8")))
        for word in words_of(text) & names
    }
    assert not spelled, f"{name_of(path)} spells names of the scanned tree: {sorted(spelled)}"


def test_every_rule_has_its_function() -> None:
    of_scans = set(CHECKS) | set(SPEAKS_OF) | set(LAYER_CHECKS) | set(WIDTH_CHECKS) | CLASS_RULES
    assert {rule.id for rule in load_rules()} == of_scans | set(PROBE_RULES)


@pytest.mark.parametrize("rule", list(load_rules()), ids=lambda rule: rule.id)
def test_every_rule_has_a_fixture_that_breaks_it_and_one_that_passes(rule: Rule) -> None:
    """A tree with Python in it, or a pair with the header of its checkpoint, or, where both decide, both; what ranks saw."""
    for name in (rule.fixture_breaks, rule.fixture_passes):
        if rule.id in PROBE_RULES:
            assert (FIXTURES / name / "plan.json").is_file(), f"fixtures/{name} has no plan.json"
            assert (FIXTURES / name / "rank-0.json").is_file(), f"fixtures/{name} has no rank-0.json"
            continue
        if rule.id not in SPEAKS_OF:
            assert any((FIXTURES / name).rglob("*.py")), f"fixtures/{name} has no Python file"
        if rule.id not in CHECKS and not name.startswith("classes-"):
            for part in ("draft/config.json", "draft/header.json", "target/config.json"):
                assert (FIXTURES / name / part).is_file(), f"fixtures/{name} has no {part}"


@pytest.mark.parametrize("module", ["flowcheck.cli.application", "flowcheck.checks.run", "flowcheck.report.build"])
def test_pairs_cost_nothing_where_there_is_none(module: str) -> None:
    code = f"import sys, {module}; print([each for each in sys.modules if each.startswith('flowcheck.draft')])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
