"""The scan without its command line: source, facts, findings, report. Commands call this; tests replace its parts."""

from __future__ import annotations

import contextlib
import io
import os
import re
import time
import tokenize
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING

from flowcheck import __version__
from flowcheck.cli.errors import InputError
from flowcheck.cli.settings import Value

if TYPE_CHECKING:
    from flowcheck.checks.class_wiring import ClassEnd
    from flowcheck.checks.findings import Finding
    from flowcheck.checks.rules import RuleBook
    from flowcheck.checks.run import Selection
    from flowcheck.draft import Pairing, Reading
    from flowcheck.flow.facts import Facts
    from flowcheck.flow.pair_facts import PairFacts
    from flowcheck.report.build import SourceInfo
    from flowcheck.report.documents import IdsDocument
    from flowcheck.report.model import Report
    from flowcheck.source import Tree

__all__ = ["Request", "ask", "check", "choose", "pick", "run"]

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Request:
    """What a user asked of one scan.

    ``tp``: how many ranks share the target's layers, None where nobody says it. ``modes``: whether the capture mode is asked
    about, too. ``classes``: whether every target class is, or those of the names in ``models``. ``launch`` is the script and the
    line that fix the settings in ``launched``; ``warnings`` are what was left of it.
    """

    source: str
    algorithm: str = "EAGLE3"
    settings: Mapping[str, Value] = field(default_factory=dict)
    package_root: str | None = None
    include_all: bool = False
    jobs: int | None = None
    cache: bool = True
    offline: bool = False
    tp: int | None = None
    modes: bool = True
    classes: bool = False
    models: tuple[str, ...] = ()
    pairing: Pairing | None = None
    launch: str = ""
    launched: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()


def check(algorithm: str | None, settings: Mapping[str, Value]) -> None:
    """Refuse what can be seen to be wrong before a tree is opened."""
    from flowcheck.data import rules_dir
    from flowcheck.flow.vocabulary import load_vocabulary

    if algorithm is not None and not algorithm.strip():
        raise InputError("--algorithm is empty: name one, as in --algorithm EAGLE3")
    words = load_vocabulary(rules_dir() / "vocabulary.toml")
    if words.entry.algorithm_argument in settings:
        raise InputError(f"--set {words.entry.algorithm_argument}: use --algorithm NAME for it")


def pick(rules: RuleBook, select: Sequence[str], ignore: Sequence[str]) -> Selection:
    """The rules that --select and --ignore leave."""
    from flowcheck.checks.rules import RuleError
    from flowcheck.checks.run import selection

    if select and not any(option.replace(",", " ").strip() for option in select):
        raise InputError("--select names no rule; flowcheck rules lists them")
    try:
        return selection(rules, select, ignore)
    except RuleError as error:
        raise InputError(str(error)) from None


def run(request: Request, rules: RuleBook, selected: Selection, progress: Progress | None) -> Report:
    """Scan a tree and report."""
    return ask(request, rules, selected, progress)[0]


def ask(
    request: Request, rules: RuleBook, selected: Selection, progress: Progress | None
) -> tuple[Report, PairFacts | None]:
    """Scan a tree: the report, and what the tree makes of the pair."""
    from flowcheck.checks.run import ordered, run_checks
    from flowcheck.report.build import Timing, build_report

    wall, cpu = time.perf_counter(), _cpu_seconds()
    with _refusals(), _opened(request, progress) as tree:
        facts = _facts(tree, request, progress) if request.modes else _no_flows(request)
        served = _served(tree, request, progress)
        classes = _classes(tree, request, progress)
        about_modes = run_checks(facts, rules) if request.modes else ()
        report = build_report(
            facts,
            ordered((*about_modes, *_about_pair(request, rules, served), *_about_classes(request, rules, classes))),
            rules=rules,
            selected=selected,
            source=_source(tree, request),
            algorithm=request.algorithm,
            version=__version__,
            timing=Timing(time.perf_counter() - wall, _cpu_seconds() - cpu, cached=request.cache),
            read_text=lambda path: _text(tree, path),
            pairing=request.pairing,
            served=served,
            launch=PurePath(request.launch).name,
            classes=classes,
        )
        return report, served


def choose(request: Request, rules: RuleBook, readings: Sequence[Reading], progress: Progress | None) -> IdsDocument:
    """Which ids make a tree capture what each reading says; the request has a pair."""
    from flowcheck.flow import Scenario
    from flowcheck.flow.id_answers import id_answers
    from flowcheck.report.build import scenario_part, source_part
    from flowcheck.report.choosing import choice_of
    from flowcheck.report.documents import IdsDocument
    from flowcheck.report.model import Tool
    from flowcheck.report.pairing import pairing_part
    from flowcheck.source import cache_root

    pairing, wall = request.pairing, time.perf_counter()
    assert pairing is not None
    with _refusals(), _opened(request, progress) as tree:
        answers = id_answers(
            tree,
            Scenario(algorithm=request.algorithm, settings=dict(request.settings)),
            pairing,
            [each.boundaries for each in readings],
            tp=request.tp,
            cache_dir=cache_root() if request.cache else None,
            progress=progress,
        )
        if not answers:
            raise InputError(f"{request.algorithm} takes no states from inside the target: there are no ids to write")
        return IdsDocument(
            tool=Tool(name="flowcheck", version=__version__),
            source=source_part(_source(tree, request)),
            scenario=scenario_part(request.algorithm, _settings(request), PurePath(request.launch).name),
            pairing=pairing_part(pairing),
            choices=[
                choice_of(answer, reading, pairing, rules) for answer, reading in zip(answers, readings, strict=True)
            ],
            wall_seconds=round(time.perf_counter() - wall, 3),
        )


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """What a tree refuses is the user's to mend."""
    from flowcheck.flow.roles import UnknownAlgorithm
    from flowcheck.source import SourceError

    try:
        yield
    except (SourceError, UnknownAlgorithm) as error:
        raise InputError(str(error)) from None


def _source(tree: Tree, request: Request) -> SourceInfo:
    from flowcheck.report.build import SourceInfo

    return SourceInfo(
        kind=tree.kind,
        label=tree.label,
        root=tree.root,
        package=tree.package,
        version=tree.version,
        digest=tree.digest,
        warnings=(
            *request.warnings,
            *_without_effect(tree, request),
            *map(str, sorted(tree.warnings, key=lambda warning: (warning.path, warning.line))),
        ),
    )


def _opened(request: Request, progress: Progress | None) -> Tree:
    from flowcheck.source import open_source

    return open_source(
        request.source,
        package_root=request.package_root,
        include_all=request.include_all,
        offline=request.offline,
        progress=progress,
    )


def _facts(tree: Tree, request: Request, progress: Progress | None) -> Facts:
    from flowcheck.flow import Scenario
    from flowcheck.flow.analysis import analyse
    from flowcheck.source import cache_root

    return analyse(
        tree,
        Scenario(algorithm=request.algorithm, settings=dict(request.settings)),
        cache_dir=cache_root() if request.cache else None,
        jobs=request.jobs or _idle_cores(),
        progress=progress,
    )


def _no_flows(request: Request) -> Facts:
    """What a report holds of the mode where nobody asks about it: the scenario alone."""
    from flowcheck.flow.facts import Facts

    return Facts((), (), (), (), scenario=(("algorithm", request.algorithm), *_settings(request)))


def _settings(request: Request) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(value)) for name, value in request.settings.items())


def _served(tree: Tree, request: Request, progress: Progress | None) -> PairFacts | None:
    """What the tree makes of the pair."""
    if request.pairing is None:
        return None
    from flowcheck.flow import Scenario
    from flowcheck.flow.serving import serve
    from flowcheck.source import cache_root

    scenario = Scenario(algorithm=request.algorithm, settings=dict(request.settings))
    cache_dir = cache_root() if request.cache else None
    return serve(tree, scenario, request.pairing, tp=request.tp, cache_dir=cache_dir, progress=progress)


def _about_pair(request: Request, rules: RuleBook, served: PairFacts | None) -> tuple[Finding, ...]:
    if request.pairing is None:
        return ()
    from flowcheck.checks.capture_layers import layer_findings
    from flowcheck.checks.pairs import pair_findings
    from flowcheck.checks.widths import width_findings

    about = pair_findings(request.pairing, rules, algorithm=request.algorithm)
    if served is None:
        return about
    captured = layer_findings(served, request.pairing, rules)
    return (*captured, *width_findings(served, request.pairing, rules), *about)


def _classes(tree: Tree, request: Request, progress: Progress | None) -> tuple[ClassEnd, ...] | None:
    """The answers about every target class, or about those that are named; None where nobody asks."""
    if not (request.classes or request.models):
        return None
    from flowcheck.checks.class_wiring import class_ends
    from flowcheck.flow import Scenario
    from flowcheck.flow.classes import class_facts
    from flowcheck.source import cache_root

    scenario = Scenario(algorithm=request.algorithm, settings=dict(request.settings))
    cache_dir = cache_root() if request.cache else None
    try:
        facts = class_facts(tree, scenario, only=request.models, cache_dir=cache_dir, progress=progress)
    except LookupError as error:
        raise InputError(str(error.args[0])) from None
    return class_ends(facts)


def _about_classes(request: Request, rules: RuleBook, classes: tuple[ClassEnd, ...] | None) -> tuple[Finding, ...]:
    if classes is None:
        return ()
    from flowcheck.checks.class_wiring import class_findings

    return class_findings(classes, rules, asked=frozenset(request.models))


def _without_effect(tree: Tree, request: Request) -> list[str]:
    """What to say of settings whose names stand nowhere in the tree: most likely they are misspelled."""
    left = {name: re.compile(rb"\b%b\b" % re.escape(name).encode()) for name in request.settings}
    for path in tree.core_paths() if left else ():
        data = tree.read(path)
        left = {name: word for name, word in left.items() if not word.search(data)}
        if not left:
            break
    said = {name: f"{request.launch} sets {name}" if name in request.launched else f"--set {name}" for name in left}
    return [f"{each}: the tree holds no such name, so that it changes nothing" for each in said.values()]


def _idle_cores() -> int:
    """The cores that this process may use and that nobody keeps busy: a helper without one makes a scan slower."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        busy = round(os.getloadavg()[0])
    except (AttributeError, OSError):
        busy = 0
    return max(1, cores - busy)


def _cpu_seconds() -> float:
    """CPU time of this process and of the children that it waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _text(tree: Tree, path: str) -> str | None:
    """The text of a file as Python decodes it; what cannot be decoded is marked, so that lines keep their numbers."""
    try:
        data = tree.read(path)
    except KeyError:
        return None
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError:
        encoding = "utf-8-sig"
    return data.decode(encoding, "replace")
